package tablestore

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/jmespath-community/go-jmespath/pkg/api"
)

// selector finds a value in a row; nil finds nothing.
type selector func(row map[string]any) any

// compile reads a selector: attr:NAME, item:/JSON/POINTER, jmespath:EXPRESSION.
func compile(text string) (selector, error) {
	kind, rest, found := strings.Cut(text, ":")
	switch {
	case text == "":
		return func(map[string]any) any { return nil }, nil
	case !found || rest == "":
		return nil, fmt.Errorf("%q is no selector: write attr:NAME, item:/JSON/POINTER or jmespath:EXPRESSION", text)
	case kind == "attr":
		return func(row map[string]any) any { return row[rest] }, nil
	case kind == "item":
		if !strings.HasPrefix(rest, "/") {
			return nil, fmt.Errorf("%q: a pointer begins with /", text)
		}
		steps := strings.Split(rest[1:], "/")
		for i, s := range steps {
			steps[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(s)
		}
		return func(row map[string]any) any { return follow(row, steps) }, nil
	case kind == "jmespath":
		e, err := api.Compile(rest)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		return func(row map[string]any) any {
			v, err := search(e, row)
			if err != nil {
				return nil // a row of another shape has nothing there
			}
			return v
		}, nil
	}
	return nil, fmt.Errorf("%q: a selector is attr:NAME, item:/JSON/POINTER or jmespath:EXPRESSION", text)
}

// search keeps a panic of the library over an odd row to that row.
func search(e api.JMESPath, v any) (found any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return e.Search(v)
}

// follow goes down a JSON pointer. A text on the way is read as JSON.
func follow(v any, steps []string) any {
	for _, s := range steps {
		if text, ok := v.(string); ok {
			d := json.NewDecoder(strings.NewReader(text))
			d.UseNumber()
			if err := d.Decode(&v); err != nil {
				return nil
			}
		}
		switch in := v.(type) {
		case map[string]any:
			v = in[s]
		case []any:
			i, err := strconv.Atoi(s)
			if err != nil || i < 0 || i >= len(in) {
				return nil
			}
			v = in[i]
		default:
			return nil
		}
	}
	return v
}
