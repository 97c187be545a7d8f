package reconcile

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
)

// maxDepth is deeper than any answer about one object.
const maxDepth = 64

// readJSON reads an answer's body with numbers as their digits. A body that is
// cut, nested too deep or has a key twice is not read at all: of two values
// nobody knows which one the system meant.
func readJSON(body []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	v, err := readValue(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one value")
	}
	return v, nil
}

func readValue(d *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, errors.New("nested too deep")
	}
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		object := map[string]any{}
		for d.More() {
			token, err := d.Token()
			if err != nil {
				return nil, err
			}
			key, _ := token.(string) // the decoder lets nothing else stand here
			if _, twice := object[key]; twice {
				return nil, errors.New("a key stands there twice")
			}
			if object[key], err = readValue(d, depth+1); err != nil {
				return nil, err
			}
		}
		_, err := d.Token()
		return object, err
	case json.Delim('['):
		list := []any{}
		for d.More() {
			element, err := readValue(d, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, element)
		}
		_, err := d.Token()
		return list, err
	}
	return token, nil
}

var pointerEscapes = strings.NewReplacer("~1", "/", "~0", "~")

// parsePointer reads an RFC 6901 pointer, with or without "body:" before it.
func parsePointer(text string) ([]string, error) {
	text = strings.TrimPrefix(text, "body:")
	if !strings.HasPrefix(text, "/") {
		return nil, errors.New("a JSON pointer starts with /")
	}
	path := strings.Split(text[1:], "/")
	if len(path) > maxDepth {
		return nil, errors.New("a pointer that deep finds nothing")
	}
	for i, segment := range path {
		path[i] = pointerEscapes.Replace(segment)
	}
	return path, nil
}

// at follows a pointer. A null counts as nothing there.
func at(v any, path []string) (any, bool) {
	for _, segment := range path {
		switch in := v.(type) {
		case map[string]any:
			v = in[segment]
		case []any:
			i, err := strconv.Atoi(segment)
			if err != nil || i < 0 || i >= len(in) || strconv.Itoa(i) != segment {
				return nil, false
			}
			v = in[i]
		default:
			return nil, false
		}
	}
	return v, v != nil
}

// scalar is the text of a string, a number's digits, or true or false.
func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}

// empty says whether something is there that holds nothing.
func empty(v any) bool {
	switch v := v.(type) {
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	case string:
		return v == ""
	}
	return false
}
