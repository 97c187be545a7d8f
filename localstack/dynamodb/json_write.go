package dynamodb

import (
	"encoding/base64"
	"maps"
	"slices"
	"strconv"
)

// MarshalJSON writes the item as the service's JSON protocol does, so that an
// Item can travel in the fields of a refusal.
func (v Item) MarshalJSON() ([]byte, error) { return appendItem(nil, v), nil }

// appendItem writes attributes in the order of their names: the order means
// nothing to a client, and a recording is the same every time.
func appendItem(dst []byte, item Item) []byte {
	dst = append(dst, '{')
	for i, name := range slices.Sorted(maps.Keys(item)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendText(dst, name)
		dst = append(dst, ':')
		dst = appendValue(dst, item[name])
	}
	return append(dst, '}')
}

func appendValue(dst []byte, v Value) []byte {
	dst = append(dst, `{"`...)
	dst = append(dst, v.kind()...)
	dst = append(dst, `":`...)
	switch v := v.(type) {
	case stringValue:
		dst = appendText(dst, string(v))
	case binaryValue:
		dst = appendBinary(dst, string(v))
	case Number:
		dst = appendNumber(dst, v)
	case boolValue:
		dst = strconv.AppendBool(dst, bool(v))
	case nullValue:
		dst = append(dst, "true"...)
	case listValue:
		dst = appendList(dst, v, appendValue)
	case Item:
		dst = appendItem(dst, v)
	case stringsValue:
		dst = appendList(dst, v, appendText)
	case binaryValues:
		dst = appendList(dst, v, appendBinary)
	case numbersValue:
		dst = appendList(dst, v, appendNumber)
	}
	return append(dst, '}')
}

func appendList[T any](dst []byte, list []T, one func([]byte, T) []byte) []byte {
	dst = append(dst, '[')
	for i, e := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = one(dst, e)
	}
	return append(dst, ']')
}

func appendNumber(dst []byte, n Number) []byte {
	dst = append(dst, '"')
	dst = n.append(dst)
	return append(dst, '"')
}

func appendBinary(dst []byte, raw string) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, []byte(raw))
	return append(dst, '"')
}

const hexDigits = "0123456789abcdef"

func appendText(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue // bytes above ASCII too: the reader lets only UTF-8 in
		}
		dst = append(dst, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// answer builds one JSON object member by member.
type answer struct{ buf []byte }

func newAnswer() *answer { return &answer{buf: append(make([]byte, 0, 256), '{')} }

// name starts a member; the caller appends its value to buf.
func (a *answer) name(name string) {
	if a.buf[len(a.buf)-1] != '{' {
		a.buf = append(a.buf, ',')
	}
	a.buf = append(a.buf, '"')
	a.buf = append(a.buf, name...)
	a.buf = append(a.buf, '"', ':')
}

func (a *answer) item(name string, item Item) {
	a.name(name)
	a.buf = appendItem(a.buf, item)
}

func (a *answer) items(name string, items []Item) {
	a.name(name)
	a.buf = appendList(a.buf, items, appendItem)
}

func (a *answer) integer(name string, n int) {
	a.name(name)
	a.buf = strconv.AppendInt(a.buf, int64(n), 10)
}

func (a *answer) bytes() []byte { return append(a.buf, '}') }
