// Package screen writes for people's terminals and for machines, so that no
// text from a message can drive a terminal or break a line.
//
// Everything a person sees goes through [Screen.Printf] and [Table]: texts in
// their arguments are escaped, so only the program's own format strings decide
// about lines and colours. JSON goes through [WriteJSON], which keeps the true
// values and escapes what a terminal would act on.
package screen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Screen is where a person reads.
type Screen struct {
	Out io.Writer
	// Color: Out is a terminal that may be coloured.
	Color bool
	// ASCII: the terminal's character set is not UTF-8, so nothing outside of
	// ASCII is written.
	ASCII bool
}

// Printf writes a line of the program's own; every argument that is a text (or
// an error, or has a String method) is escaped.
func (s *Screen) Printf(format string, args ...any) {
	safe := make([]any, len(args))
	for i, a := range args {
		switch v := a.(type) {
		case Styled:
			safe[i] = s.style(v)
		case string:
			safe[i] = s.safe(v)
		case error:
			safe[i] = s.safe(v.Error())
		case fmt.Stringer:
			safe[i] = s.safe(v.String())
		case int, int64, float64, bool:
			safe[i] = v
		default:
			safe[i] = s.safe(fmt.Sprint(v))
		}
	}
	// A terminal that went away needs no word, and a full disk is remembered by
	// the writer below.
	fmt.Fprintf(s.Out, format, safe...)
}

// Style is how a text stands out on a terminal with colours.
type Style string

// The styles.
const (
	Bold   Style = "1"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
)

// Styled is a text with a style.
type Styled struct {
	Style Style
	Text  string
}

func (s *Screen) style(v Styled) string {
	text := s.safe(v.Text)
	if !s.Color || v.Style == "" {
		return text
	}
	return "\x1b[" + string(v.Style) + "m" + text + "\x1b[0m"
}

func (s *Screen) safe(text string) string {
	text = Safe(text)
	if !s.ASCII {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
		} else {
			writeEscape(&b, r)
		}
	}
	return b.String()
}

// Safe shows a text on one line, with escapes in place of everything that a
// terminal would act on or hide: control characters of both kinds, line ends,
// overrides of the writing direction, invisible characters, bytes that are no
// UTF-8. What a person can read stays as it is.
func Safe(text string) string {
	if !strings.ContainsFunc(text, unprintable) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case unprintable(r):
			writeEscape(&b, r)
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// unprintable is true for all of Unicode's controls, formats (the direction
// overrides among them), separators but the space, and unassigned. A range
// over a text yields RuneError for bytes that are no UTF-8.
func unprintable(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }

func writeEscape(b *strings.Builder, r rune) {
	switch {
	case r == '\n':
		b.WriteString(`\n`)
	case r == '\t':
		b.WriteString(`\t`)
	case r == '\r':
		b.WriteString(`\r`)
	case r < 0x80:
		fmt.Fprintf(b, `\x%02x`, r)
	case r <= 0xffff:
		fmt.Fprintf(b, `\u%04x`, r)
	default:
		fmt.Fprintf(b, `\U%08x`, r)
	}
}

// WriteJSON writes v as one JSON document, indented, ending with a line feed.
func WriteJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	_, err := w.Write(escapeJSON(b.Bytes()))
	return err
}

// LongList writes a list of a document that WriteJSON would write, value by
// value, so that a list of any length needs no memory. Before is what stands
// before it in the document.
func LongList(w io.Writer, before []byte, values iter.Seq2[any, error]) error {
	line := before[bytes.LastIndexByte(before, '\n')+1:]
	outer := string(line[:len(line)-len(bytes.TrimLeft(line, " "))])
	inner := outer + "  "
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent(inner, "  ")
	opened := "[\n"
	for v, err := range values {
		if err != nil {
			return err
		}
		b.Reset()
		if err := e.Encode(v); err != nil {
			return fmt.Errorf("encode the answer: %w", err)
		}
		text := escapeJSON(bytes.TrimRight(b.Bytes(), "\n"))
		if _, err := io.WriteString(w, opened+inner); err != nil {
			return err
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
		opened = ",\n"
	}
	end := "\n" + outer + "]"
	if opened == "[\n" {
		end = "[]"
	}
	_, err := io.WriteString(w, end)
	return err
}

// CompactJSON is v on one line without a line feed, for documents that are
// written piece by piece.
func CompactJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	return escapeJSON(bytes.TrimRight(b.Bytes(), "\n")), nil
}

// escapeJSON writes what is unprintable as \u escapes, which are the same
// value. Outside of texts JSON has nothing of the kind but line feeds.
func escapeJSON(in []byte) []byte {
	clean := true
	for _, r := range string(in) {
		if r != '\n' && unprintable(r) {
			clean = false
			break
		}
	}
	if clean {
		return in
	}
	var b bytes.Buffer
	for _, r := range string(in) {
		switch {
		case r == '\n' || !unprintable(r):
			b.WriteRune(r)
		case r > 0xffff:
			hi, lo := (r-0x10000)>>10+0xd800, (r-0x10000)&0x3ff+0xdc00
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.Bytes()
}
