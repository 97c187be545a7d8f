package enrich

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"io"
	"net/url"
	"strconv"
	"strings"
)

// maxDecoded is how much of a decoded body is looked at, in bytes. What a
// person or a selector needs stands in front, and a body that unpacks to a
// gigabyte costs no more than this.
const maxDecoded = 64 << 10

// gzipMagic opens every gzip stream; gzipBase64 is how that looks in base64.
var (
	gzipMagic  = []byte{0x1f, 0x8b, 0x08}
	gzipBase64 = []byte("H4sI")
)

// openGzip reads a compressed body, as bytes or in base64.
func openGzip(x *extraction, l *layer) ([]byte, bool) {
	inner, whole, ok := gunzip(l.text)
	if !ok {
		return nil, false
	}
	if !whole {
		x.fact("gzip.shown", "the first "+strconv.Itoa(maxDecoded)+" bytes")
	}
	return inner, true
}

// gunzip unpacks at most maxDecoded bytes; whole says that this was all. A
// stream that breaks off later gives what was readable.
func gunzip(s []byte) (out []byte, whole, ok bool) {
	var from io.Reader
	switch {
	case bytes.HasPrefix(s, gzipMagic):
		from = bytes.NewReader(s)
	case bytes.HasPrefix(s, gzipBase64):
		from = base64.NewDecoder(base64.StdEncoding, bytes.NewReader(bytes.TrimSpace(s)))
	default:
		return nil, false, false
	}
	z, err := gzip.NewReader(from)
	if err != nil {
		return nil, false, false
	}
	defer z.Close()
	out, err = io.ReadAll(io.LimitReader(z, maxDecoded+1))
	if len(out) > maxDecoded {
		return out[:maxDecoded], false, true
	}
	return out, err == nil || errors.Is(err, io.EOF), len(out) > 0
}

// openBase64 reads a body that is base64 of JSON. Plain words decode too, so
// anything but JSON inside is left as it is, and the view is only ever a guess.
func openBase64(x *extraction, l *layer) ([]byte, bool) {
	inner, ok := decodeBase64JSON(l.text)
	if !ok || openDocument(inner).root == nil {
		return nil, false
	}
	x.fact("base64", "a guess: the body is valid base64 of JSON")
	return inner, true
}

// decodeBase64JSON decodes a body that begins as base64 of JSON does.
func decodeBase64JSON(s []byte) ([]byte, bool) {
	s = bytes.TrimSpace(s)
	if len(s) < 8 || s[0] != 'e' && s[0] != 'W' { // { and [ in the first six bits
		return nil, false
	}
	return decodeBase64(s, maxBody)
}

// Go CDK (gocloud.dev's awssnssqs, read 2026-11-30) writes names with other
// characters than letters, digits, - and _ as __0x2e__, escapes values like
// paths in URLs, and sends a body that is no UTF-8 in base64 beside this name.
const cdkBase64 = "base64encoded"

// openGoCDK unescapes names and values for reading. What goes back is as it came.
func openGoCDK(x *extraction) bool {
	is := false
	for _, a := range x.letter.Payload.Attributes {
		if a.Name == cdkBase64 || strings.Contains(a.Name, "__0x") || a.Name == contextAttribute && bytes.HasPrefix(a.Value, []byte("%7B")) {
			is = true
			break
		}
	}
	if !is {
		return false
	}
	x.unescaped = map[string]found{}
	for _, a := range x.letter.Payload.Attributes {
		v, ok := attributeText(a)
		if !ok || a.Name == cdkBase64 {
			continue
		}
		if s, err := url.PathUnescape(v.text); err == nil {
			v.text = s
		}
		x.unescaped[cdkName(a.Name)] = v
	}
	return true
}

// cdkName reads __0x2e__ as a dot.
func cdkName(s string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(s, "__0x")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		hex, after, closed := strings.Cut(rest, "__")
		r, err := strconv.ParseUint(hex, 16, 31)
		if !closed || err != nil {
			b.WriteString("__0x")
			s = rest
			continue
		}
		b.WriteRune(rune(r))
		s = after
	}
}

// openGoCDKBody reads the body beside cdkBase64.
func openGoCDKBody(x *extraction, l *layer) ([]byte, bool) {
	if l.path != "" || !x.has(cdkBase64) {
		return nil, false
	}
	return decodeBase64(l.text, maxBody)
}
