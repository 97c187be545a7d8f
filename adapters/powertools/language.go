package powertools

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// language is how one runtime reads and writes JSON and what it takes for
// nothing. Numbers are float64, as JMESPath needs them; one that a float64
// cannot stand for is exact.
type language struct {
	number  func(literal string) any
	write   func(b *strings.Builder, v any) error
	missing func(v any) bool
}

// exact is a number as the runtime would write it. It passes through
// expressions unchanged; no function takes it for a number.
type exact string

var languages = map[Runtime]language{
	Python:     {pythonNumber, writePython, missingInPython},
	TypeScript: {scriptNumber, writeScript, missingInScript},
}

var errTrailing = errors.New("more than one value")

// parse decodes JSON.
func (l language) parse(text string) (any, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errTrailing
	}
	return l.numbers(v), nil
}

func (l language) numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		return l.number(v.String())
	case []any:
		for i := range v {
			v[i] = l.numbers(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = l.numbers(v[name])
		}
	}
	return v
}

// pythonNumber: an integer of any size stays one, 1.0 is not 1.
func pythonNumber(literal string) any {
	if !strings.ContainsAny(literal, ".eE") {
		const safe = 15 // digits that any float64 holds
		if len(literal) > safe {
			return exact(literal)
		}
		f, _ := strconv.ParseFloat(literal, 64)
		return f + 0 // -0 is the integer 0
	}
	f, _ := strconv.ParseFloat(literal, 64) // out of range is ±Inf, in Python too
	if f != math.Trunc(f) {
		return f
	}
	return exact(pythonFloat(f))
}

// pythonFloat is repr of a float.
func pythonFloat(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// writePython is json.dumps(v, sort_keys=True): ", " and ": " between, ASCII
// only, keys in the order of their characters.
func writePython(b *strings.Builder, v any) error {
	switch v := v.(type) {
	case string:
		b.WriteByte('"')
		for _, r := range v {
			switch {
			case r == '"' || r == '\\':
				b.WriteByte('\\')
				b.WriteRune(r)
			case shortEscapes[r] != "":
				b.WriteString(shortEscapes[r])
			case r >= ' ' && r <= '~':
				b.WriteRune(r)
			case r > 0xFFFF:
				high, low := utf16.EncodeRune(r)
				fmt.Fprintf(b, `\u%04x\u%04x`, high, low)
			default:
				fmt.Fprintf(b, `\u%04x`, r)
			}
		}
		b.WriteByte('"')
		return nil
	case float64:
		if v == math.Trunc(v) { // only integers are kept as such
			b.WriteString(strconv.FormatFloat(v, 'f', 0, 64))
		} else {
			b.WriteString(pythonFloat(v))
		}
		return nil
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names) // UTF-8 sorts as its characters do
		return writeObject(b, v, names, ", ", ": ", writePython)
	case []any:
		return writeArray(b, v, ", ", writePython)
	}
	return writeRest(b, v)
}

var shortEscapes = map[rune]string{'\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}

// missingInPython is BasePersistenceLayer.is_missing_idempotency_key: iterating
// over a dict gives its keys, which are never None.
func missingInPython(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case map[string]any:
		return len(v) == 0
	case []any:
		return !slices.ContainsFunc(v, func(e any) bool { return e != nil })
	}
	return false
}

// scriptNumber: all numbers are doubles.
func scriptNumber(literal string) any {
	f, _ := strconv.ParseFloat(literal, 64)
	return f
}

// writeScript is JSON.stringify(deepSort(v)).
func writeScript(b *strings.Builder, v any) error {
	switch v := v.(type) {
	case string:
		b.WriteByte('"')
		for _, r := range v {
			switch {
			case r == '"' || r == '\\':
				b.WriteByte('\\')
				b.WriteRune(r)
			case shortEscapes[r] != "":
				b.WriteString(shortEscapes[r])
			case r < ' ':
				fmt.Fprintf(b, `\u%04x`, r)
			default:
				b.WriteRune(r)
			}
		}
		b.WriteByte('"')
		return nil
	case float64:
		b.WriteString(scriptFloat(v))
		return nil
	case map[string]any:
		return writeObject(b, v, scriptOrder(v), ",", ":", writeScript)
	case []any:
		return writeArray(b, v, ",", writeScript)
	}
	return writeRest(b, v)
}

// scriptFloat is Number::toString of ECMAScript; JSON.stringify writes null for
// what is no finite number.
func scriptFloat(f float64) string {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return "null"
	}
	a := math.Abs(f)
	if a == 0 {
		return "0"
	}
	if a >= 1e-6 && a < 1e21 {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	s := strconv.FormatFloat(f, 'e', -1, 64)
	mantissa, exponent, _ := strings.Cut(s, "e") // Go writes two digits at least
	return mantissa + "e" + exponent[:1] + strings.TrimLeft(exponent[1:], "0")
}

// scriptOrder is the order in which JSON.stringify meets the keys that deepSort
// put in one after the other: array indexes first, by value, then the others by
// their lower-case UTF-16.
func scriptOrder(v map[string]any) []string {
	type key struct {
		name  string
		lower []uint16
		index uint64
		isIdx bool
	}
	all := make([]key, 0, len(v))
	for name := range v {
		k := key{name: name, lower: utf16.Encode([]rune(strings.ToLower(name)))}
		if n, err := strconv.ParseUint(name, 10, 32); err == nil && n < math.MaxUint32 && strconv.FormatUint(n, 10) == name {
			k.index, k.isIdx = n, true
		}
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b key) int {
		switch {
		case a.isIdx != b.isIdx:
			if a.isIdx {
				return -1
			}
			return 1
		case a.isIdx && a.index < b.index:
			return -1
		case a.isIdx:
			return 1
		}
		if c := slices.Compare(a.lower, b.lower); c != 0 {
			return c
		}
		return strings.Compare(a.name, b.name)
	})
	names := make([]string, len(all))
	for i, k := range all {
		names[i] = k.name
	}
	return names
}

// missingInScript is BasePersistenceLayer.isMissingIdempotencyKey: nothing in it
// is truthy.
func missingInScript(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			if truthy(e) {
				return false
			}
		}
		return true
	case []any:
		return !slices.ContainsFunc(v, truthy)
	}
	return !truthy(v)
}

func truthy(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case float64:
		return v != 0 && !math.IsNaN(v)
	}
	return true
}

func writeObject(
	b *strings.Builder, v map[string]any, names []string, comma, colon string, write func(*strings.Builder, any) error,
) error {
	b.WriteByte('{')
	for i, name := range names {
		if i > 0 {
			b.WriteString(comma)
		}
		if err := write(b, name); err != nil {
			return err
		}
		b.WriteString(colon)
		if err := write(b, v[name]); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

func writeArray(b *strings.Builder, v []any, comma string, write func(*strings.Builder, any) error) error {
	b.WriteByte('[')
	for i, e := range v {
		if i > 0 {
			b.WriteString(comma)
		}
		if err := write(b, e); err != nil {
			return err
		}
	}
	b.WriteByte(']')
	return nil
}

func writeRest(b *strings.Builder, v any) error {
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		b.WriteString(strconv.FormatBool(v))
	case exact:
		b.WriteString(string(v))
	default:
		return errors.New("the selected value is none of JSON")
	}
	return nil
}
