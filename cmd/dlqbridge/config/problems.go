package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with the configuration.
type Problem struct {
	// File and Line say where; Line 0 is no place in a file.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// Field is the path of the field, such as routes[0].effects.
	Field string `json:"field,omitempty"`
	// Text says what is wrong, Hint what would be right.
	Text string `json:"text"`
	Hint string `json:"hint,omitempty"`
}

// String is the problem on one line: file:line: field: text; hint.
func (p Problem) String() string {
	var b strings.Builder
	if p.Line > 0 {
		fmt.Fprintf(&b, "%s:%d: ", p.File, p.Line)
	} else if p.File != "" {
		b.WriteString(p.File + ": ")
	}
	if p.Field != "" {
		b.WriteString(p.Field + ": ")
	}
	b.WriteString(p.Text)
	if p.Hint != "" {
		b.WriteString("; " + p.Hint)
	}
	return b.String()
}

// Problems are all problems of a configuration, in the order of the file.
type Problems []Problem //nolint:errname // a list of problems, which happens to be an error

// Error lists the problems, one per line.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, one := range p {
		lines[i] = one.String()
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets callers ask for ErrConfig.
func (p Problems) Unwrap() error { return ErrConfig }

// sorted puts the problems in the order in which a person mends them.
func (d *decoder) sorted() Problems {
	slices.SortStableFunc(d.problems, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	return d.problems
}

// closest finds the known word that a mistyped one was meant to be; empty if
// none is near.
func closest(word string, known []string) string {
	best, distance := "", max(2, len(word)/3)+1
	for _, k := range known {
		if n := edits(word, k); n < distance {
			best, distance = k, n
		}
	}
	return best
}

// edits is the Levenshtein distance between two words, where swapped neighbours
// and - for _ count once.
func edits(a, b string) int {
	a, b = strings.ReplaceAll(strings.ToLower(a), "-", "_"), strings.ReplaceAll(strings.ToLower(b), "-", "_")
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			replaced := last[j]
			if a[i] != b[j] {
				replaced++
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, replaced)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// Suggestion is the hint for a word that is not in a closed set.
func Suggestion(word string, known []string) string {
	if k := closest(word, known); k != "" {
		return fmt.Sprintf("did you mean %q?", k)
	}
	return "known are " + strings.Join(known, ", ")
}
