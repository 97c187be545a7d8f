package powertools

import (
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/jmespath-community/go-jmespath/pkg/api"
	"github.com/jmespath-community/go-jmespath/pkg/functions"
)

// maxUnpacked bounds what a sender can make us unpack: more than a message of
// any size limit holds as text, by far.
const maxUnpacked = 16 << 20

// functions are Powertools' own JMESPath functions ("Powertools for AWS Lambda
// (Python): JMESPath Functions", read 2026-11-30).
func (l language) functions() []functions.FunctionEntry {
	text := []functions.ArgSpec{{Types: []functions.JpType{functions.JpString}}}
	on := func(f func(string) (any, error)) functions.JpFunction {
		return func(arguments []any) (any, error) {
			s, ok := arguments[0].(string)
			if !ok {
				return nil, errors.New("not a string")
			}
			return f(s)
		}
	}
	return []functions.FunctionEntry{
		{Name: "powertools_json", Arguments: text, Handler: on(l.parse)},
		{Name: "powertools_base64", Arguments: text, Handler: on(func(s string) (any, error) {
			b, err := base64.StdEncoding.DecodeString(s)
			return string(b), err
		})},
		{Name: "powertools_base64_gzip", Arguments: text, Handler: on(unzip)},
	}
}

func unzip(s string) (any, error) {
	z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(s)))
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(z, maxUnpacked+1))
	if err == nil && len(b) > maxUnpacked {
		err = errors.New("too large")
	}
	return string(b), err
}

// search evaluates an expression on what a sender wrote. The library may panic
// on what it did not expect; to us that is a value that cannot be selected.
func search(e api.JMESPath, v any) (found any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return e.Search(v)
}
