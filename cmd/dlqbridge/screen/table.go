package screen

import (
	"strings"
	"unicode/utf8"
)

// firstRows is how many rows a table looks at for its widths before it writes;
// what comes later is written at once with the same widths, so that a list of
// any length needs no memory.
const firstRows = 200

// maxCell is how many characters of a cell are shown, except of the first
// column, which a person copies from, and the last, which has the line's rest.
const maxCell = 60

// Table lines up cells in columns. The last column is not padded.
type Table struct {
	screen *Screen
	header []string
	rows   [][]Styled
	widths []int
	fixed  bool
}

// NewTable starts a table; Flush ends it.
func (s *Screen) NewTable(header ...string) *Table { return &Table{screen: s, header: header} }

// Row adds a row of texts (string) and styled texts (Styled).
func (t *Table) Row(cells ...any) {
	row := make([]Styled, len(cells))
	for i, c := range cells {
		switch v := c.(type) {
		case Styled:
			row[i] = v
		case string:
			row[i] = Styled{Text: v}
		}
		row[i].Text = t.screen.safe(row[i].Text)
		if i > 0 && i < len(cells)-1 {
			row[i].Text = shorten(row[i].Text)
		}
	}
	if t.fixed {
		t.write(row)
		return
	}
	t.rows = append(t.rows, row)
	if len(t.rows) >= firstRows {
		t.Flush()
	}
}

// Flush writes what is held back. A table without rows writes nothing.
func (t *Table) Flush() {
	if t.fixed || len(t.rows) == 0 {
		return
	}
	t.fixed = true
	head := make([]Styled, len(t.header))
	t.widths = make([]int, len(t.header))
	for i, h := range t.header {
		head[i] = Styled{Bold, h}
		t.widths[i] = utf8.RuneCountInString(h)
	}
	for _, row := range t.rows {
		for i, c := range row {
			if i < len(t.widths) {
				t.widths[i] = max(t.widths[i], utf8.RuneCountInString(c.Text))
			}
		}
	}
	t.write(head)
	for _, row := range t.rows {
		t.write(row)
	}
	t.rows = nil
}

func (t *Table) write(row []Styled) {
	var b strings.Builder
	for i, c := range row {
		b.WriteString(t.screen.style(c))
		if i < len(row)-1 {
			b.WriteString(strings.Repeat(" ", max(0, t.widths[i]-utf8.RuneCountInString(c.Text))+2))
		}
	}
	_, _ = t.screen.Out.Write([]byte(strings.TrimRight(b.String(), " ") + "\n")) // as in Printf
}

func shorten(s string) string {
	if utf8.RuneCountInString(s) <= maxCell {
		return s
	}
	return string([]rune(s)[:maxCell-1]) + "~"
}
