package jmespathsel

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jmespath-community/go-jmespath/pkg/functions"
)

// arity is how many arguments a function takes.
type arity struct{ least, most int }

const many = 64

func (a arity) count() string {
	switch {
	case a.most == 1:
		return "1 argument"
	case a.least == a.most:
		return fmt.Sprintf("%d arguments", a.least)
	case a.most == many:
		return fmt.Sprintf("%d or more arguments", a.least)
	}
	return fmt.Sprintf("%d to %d arguments", a.least, a.most)
}

// allowed are the functions whose result depends on the body alone and is not
// much larger than it.
var allowed = map[string]arity{
	"abs": {1, 1}, "avg": {1, 1}, "ceil": {1, 1}, "contains": {2, 2}, "ends_with": {2, 2}, "find_first": {2, 4}, "find_last": {2, 4},
	"floor": {1, 1}, "join": {2, 2}, "length": {1, 1}, "lower": {1, 1}, "map": {2, 2}, "max": {1, 1}, "max_by": {2, 2}, "merge": {1, many},
	"min": {1, 1}, "min_by": {2, 2}, "not_null": {1, many}, "reverse": {1, 1}, "sort": {1, 1}, "sort_by": {2, 2}, "split": {2, 3},
	"starts_with": {2, 2}, "sum": {1, 1}, "to_array": {1, 1}, "to_number": {1, 1}, "to_string": {1, 1}, "trim": {1, 2}, "trim_left": {1, 2},
	"trim_right": {1, 2}, "type": {1, 1}, "upper": {1, 1}, "powertools_json": {1, 1}, "powertools_base64": {1, 1},
}

func allowedNames() string { return strings.Join(slices.Sorted(maps.Keys(allowed)), " ") }

// maxParts bounds what split makes of one text.
const maxParts = 10_000

func allowedFunctions() []functions.FunctionEntry {
	text := []functions.ArgSpec{{Types: []functions.JpType{functions.JpString}}}
	out := []functions.FunctionEntry{
		{Name: "powertools_json", Arguments: text, Handler: jsonWithin},
		{Name: "powertools_base64", Arguments: text, Handler: base64Within},
	}
	for _, f := range functions.GetDefaultFunctions() {
		if _, ok := allowed[f.Name]; !ok {
			continue
		}
		handler := f.Handler
		switch f.Name {
		case "sort_by": // the library sorts the list where it stands, which others read
			f.Handler = func(args []any) (any, error) {
				if list, ok := args[0].([]any); ok {
					args = append([]any{slices.Clone(list)}, args[1:]...)
				}
				return handler(args)
			}
		case "split":
			f.Handler = func(args []any) (any, error) {
				s, _ := args[0].(string)
				if sep, _ := args[1].(string); strings.Count(s, sep) > maxParts {
					return nil, errors.New("too many parts")
				}
				return handler(args)
			}
		}
		out = append(out, f)
	}
	return out
}

// jsonWithin reads JSON that stands in a text, as messages within messages do.
func jsonWithin(args []any) (any, error) {
	s, _ := args[0].(string)
	d, ok := Decode([]byte(s))
	if !ok {
		return nil, nil
	}
	return d.root, nil
}

func base64Within(args []any) (any, error) {
	s, _ := args[0].(string)
	out, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return nil, nil //nolint:nilerr // not base64 is no value, as everywhere in JMESPath
	}
	return string(out), nil
}
