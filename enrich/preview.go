package enrich

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/dlqbridge/dlqbridge"
)

// Preview is a body made readable. It is for eyes only: what goes back are the
// stored bytes.
type Preview struct {
	// Text is valid UTF-8, at most MaxPreview bytes.
	Text string `json:"text"`
	// How says what was done to make it readable, in words, in order; empty is
	// nothing: the body itself.
	How []string `json:"how"`
	// Cut: something is missing at the end. Replaced: some bytes were no text,
	// and U+FFFD stands for them.
	Cut      bool `json:"cut"`
	Replaced bool `json:"replaced"`
}

// MaxPreview is the longest preview, in bytes, whatever a body unpacks to.
const MaxPreview = maxDecoded

// PreviewOf makes a body readable: it unpacks gzip and base64 of JSON, takes a
// byte order mark off, and replaces what is no text. It never takes more memory
// than a few times MaxPreview and the body.
func PreviewOf(body []byte) Preview {
	p := Preview{How: []string{}}
	for range maxEnvelopes {
		if inner, whole, ok := gunzip(body); ok {
			how := "unpacked from gzip"
			if bytes.HasPrefix(body, gzipBase64) {
				how = "unpacked from gzip in base64"
			}
			body, p.How, p.Cut = inner, append(p.How, how), p.Cut || !whole
			continue
		}
		if inner, ok := decodeBase64JSON(body); ok && openDocument(inner).root != nil {
			body, p.How = inner, append(p.How, "decoded from base64, a guess")
			continue
		}
		break
	}
	if len(body) > MaxPreview+utf8.UTFMax { // a border is found at or before the limit
		body, p.Cut = body[:MaxPreview+utf8.UTFMax], true
	}
	switch {
	case bytes.HasPrefix(body, byteOrderMark):
		body, p.How = body[len(byteOrderMark):], append(p.How, "without its byte order mark")
	case bytes.HasPrefix(body, []byte{0xFF, 0xFE}):
		body, p.How = fromUTF16(body[2:], binary.LittleEndian), append(p.How, "from UTF-16, little endian")
	case bytes.HasPrefix(body, []byte{0xFE, 0xFF}):
		body, p.How = fromUTF16(body[2:], binary.BigEndian), append(p.How, "from UTF-16, big endian")
	}
	text := string(body)
	if len(text) > MaxPreview {
		// Cut first: half a character at the end is a cut, not a fault of the body.
		end := MaxPreview
		for end > MaxPreview-utf8.UTFMax && !utf8.RuneStart(text[end]) {
			end--
		}
		text, p.Cut = text[:end], true
	}
	if !utf8.ValidString(text) {
		text, p.Replaced = strings.ToValidUTF8(text, "\uFFFD"), true
	}
	p.Text = dlqbridge.CutText(text, MaxPreview) // a replacement may be longer than what it stands for
	return p
}

func fromUTF16(b []byte, order binary.ByteOrder) []byte {
	units := make([]uint16, 0, len(b)/2)
	for ; len(b) >= 2; b = b[2:] {
		units = append(units, order.Uint16(b))
	}
	return []byte(string(utf16.Decode(units)))
}
