// Package bodyschema holds a JSON body against a JSON Schema in a file.
//
// References to other files stand beside the schema; nothing is fetched over a
// network. Every draft from 4 to 2020-12 is understood, the newest is taken
// where a schema names none. Errors name places and keywords, never values.
package bodyschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/dlqbridge/dlqbridge"
)

// Schema is a compiled schema. It may be used concurrently.
type Schema struct {
	file     string
	compiled *jsonschema.Schema
}

// Open reads and compiles a schema.
func Open(file string) (*Schema, error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return nil, fmt.Errorf("%w: schema %s: %w", dlqbridge.ErrInvalid, file, err)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(files{})
	compiled, err := c.Compile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: schema %s cannot be used: %w", dlqbridge.ErrInvalid, file, err)
	}
	return &Schema{file: file, compiled: compiled}, nil
}

// files loads schemas from files only.
type files struct{}

// Load implements jsonschema.URLLoader.
func (files) Load(url string) (any, error) {
	if !strings.HasPrefix(url, "file:") {
		return nil, errors.New("it refers to something outside the files beside it")
	}
	return jsonschema.FileLoader{}.Load(url)
}

const (
	// At most maxNamed violations are named.
	maxNamed = 5
	// Numbers are bounded by maxExponent: the check works with exact ones, and one with
	// a billion digits would take all memory.
	maxExponent = 1_000
)

// Check says where a body breaks the schema; nil is nowhere.
func (s *Schema) Check(body []byte) error {
	body = bytes.TrimPrefix(body, []byte("\xEF\xBB\xBF")) // a byte order mark
	if err := s.unclear(body); err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return s.broken("it is not JSON")
	}
	err = s.compiled.Validate(value)
	if err == nil {
		return nil
	}
	broken, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return s.broken("it cannot be checked")
	}
	places := violations(nil, broken)
	slices.Sort(places)
	places = slices.Compact(places)
	if over := len(places) - maxNamed; over > 0 {
		places = append(places[:maxNamed], strconv.Itoa(over)+" more")
	}
	return s.broken(strings.Join(places, "; "))
}

func (s *Schema) broken(why string) error {
	return fmt.Errorf("%w: it breaks the schema %s: %s", dlqbridge.ErrInvalid, filepath.Base(s.file), why)
}

// violations are the innermost ones, each with its place and keyword.
func violations(out []string, e *jsonschema.ValidationError) []string {
	for _, cause := range e.Causes {
		out = violations(out, cause)
	}
	if len(e.Causes) > 0 {
		return out
	}
	var at strings.Builder
	for _, name := range e.InstanceLocation {
		at.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
	}
	keyword := strings.Join(e.ErrorKind.KeywordPath(), "/")
	if keyword == "" {
		keyword = "a schema that nothing fits"
	}
	place := at.String()
	if place == "" {
		place = "the body"
	}
	return append(out, place+" ("+keyword+")")
}

// unclear refuses what cannot be checked: numbers that cannot be computed with,
// and names that stand twice, since the check would be of one of the two only.
func (s *Schema) unclear(body []byte) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	// An object's names; nil is a list. Name says that one comes next.
	type level struct {
		names map[string]bool
		name  bool
	}
	levels := []level{{}}
	for token, err := d.Token(); err == nil; token, err = d.Token() {
		at := &levels[len(levels)-1]
		if name, ok := token.(string); ok && at.name {
			if at.names[name] {
				return s.broken("a name stands twice in one object, and which of the two counts is not certain")
			}
			at.names[name], at.name = true, false
			continue
		}
		at.name = at.names != nil
		switch v := token.(type) {
		case json.Delim:
			switch v {
			case '{':
				levels = append(levels, level{map[string]bool{}, true})
			case '[':
				levels = append(levels, level{})
			default:
				levels = levels[:len(levels)-1]
			}
		case json.Number:
			if tooLarge(v.String()) {
				return s.broken("a number is too large to be checked")
			}
		}
	}
	return nil // what ended it early the check itself will say
}

func tooLarge(number string) bool {
	_, exponent, _ := strings.Cut(strings.ToLower(number), "e")
	if exponent == "" {
		return false
	}
	e, err := strconv.Atoi(exponent)
	return err != nil || e > maxExponent || e < -maxExponent
}
