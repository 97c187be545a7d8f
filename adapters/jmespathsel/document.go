package jmespathsel

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

// Bounds of a body, each with its reason.
const (
	// The bound maxBody is the longest message of SQS.
	maxBody = 1 << 20
	// The bound maxDepth is far deeper than what people write.
	maxDepth = 500
	// The bound maxValues keeps what a body takes in memory within ten times its bytes.
	maxValues = 200_000
)

// Document is a decoded body. Nobody changes it, so that it may be shared.
type Document struct {
	root any
	// spellings is how each number stands in the body; "" if in several ways.
	spellings map[float64]string
}

var byteOrderMark = []byte("\xEF\xBB\xBF")

// Decode decodes a JSON object or array; false is anything else or too much. A
// key that stands there twice has its last value, as most readers see it.
func Decode(body []byte) (*Document, bool) {
	body = bytes.TrimPrefix(body, byteOrderMark)
	if len(body) > maxBody || !json.Valid(body) {
		return nil, false
	}
	d := decoder{json: json.NewDecoder(bytes.NewReader(body)), spellings: map[float64]string{}}
	d.json.UseNumber()
	root, err := d.value(0)
	if err != nil {
		return nil, false
	}
	switch root.(type) {
	case map[string]any, []any:
		return &Document{root, d.spellings}, true
	}
	return nil, false
}

type decoder struct {
	json      *json.Decoder
	values    int
	spellings map[float64]string
}

var errTooMuch = errors.New("too deep or too many values")

func (d *decoder) value(depth int) (any, error) {
	if d.values++; d.values > maxValues || depth > maxDepth {
		return nil, errTooMuch
	}
	token, err := d.json.Token()
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case json.Number:
		return d.number(token), nil
	case json.Delim:
		if token == '[' {
			return d.list(depth)
		}
		return d.object(depth)
	}
	return token, nil
}

func (d *decoder) list(depth int) (any, error) {
	out := []any{}
	for d.json.More() {
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	_, err := d.json.Token()
	return out, err
}

func (d *decoder) object(depth int) (any, error) {
	out := map[string]any{}
	for d.json.More() {
		key, err := d.json.Token()
		if err != nil {
			return nil, err
		}
		name, _ := key.(string) // the decoder lets nothing else stand here
		if out[name], err = d.value(depth + 1); err != nil {
			return nil, err
		}
	}
	_, err := d.json.Token()
	return out, err
}

// number is a float where no two different numbers share one, and otherwise
// the digits, which compare equal to nothing.
func (d *decoder) number(n json.Number) any {
	text := n.String()
	if !plain(text) {
		return n
	}
	f, err := n.Float64()
	if err != nil {
		return n
	}
	if before, seen := d.spellings[f]; seen && before != text {
		text = "" // written in two ways: neither is better
	}
	d.spellings[f] = text
	return f
}

// exactDigits is how many significant digits any decimal number may have and
// come back from a float as it was.
const exactDigits = 15

// maxExponent keeps away from where floats lose digits or end.
const maxExponent = 290

// plain says whether a number's text is held exactly by a float.
func plain(text string) bool {
	mantissa, exponent, has := strings.Cut(strings.ToLower(text), "e")
	if has {
		if e, err := strconv.Atoi(exponent); err != nil || e > maxExponent || e < -maxExponent {
			return false
		}
	}
	mantissa = strings.TrimPrefix(mantissa, "-")
	if len(mantissa) > maxExponent {
		return false
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if fraction == "" || strings.Trim(fraction, "0") == "" {
		digits = strings.TrimLeft(whole, "0") // zeros behind the point say nothing
	}
	return len(strings.TrimRight(digits, "0")) <= exactDigits
}
