package main

import (
	"fmt"
	"io"
	"strings"
)

// teller speaks to the person who watches.
type teller struct {
	out, problems   io.Writer
	terminal, quiet bool
	chapters        int
}

// ANSI attributes, used on terminals only.
const (
	bold  = "1"
	faint = "2"
	green = "32"
	cyan  = "36"
)

func (t *teller) paint(code, s string) string {
	if !t.terminal {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// chapter opens a part of the story.
func (t *teller) chapter(title string) {
	t.chapters++
	t.say("")
	t.say("%s", t.paint(bold, fmt.Sprintf("%d. %s", t.chapters, title)))
}

// say is a line of the story.
func (t *teller) say(format string, args ...any) {
	if !t.quiet {
		fmt.Fprintf(t.out, format+"\n", args...)
	}
}

// command shows what is typed, as a person would type it.
func (t *teller) command(args []string) {
	shown := make([]string, len(args))
	for i, a := range args {
		shown[i] = a
		if strings.ContainsAny(a, " ;|&'") {
			shown[i] = `"` + a + `"`
		}
	}
	t.say("")
	t.say("%s %s", t.paint(cyan, "$"), t.paint(bold, "dlqbridge "+strings.Join(shown, " ")))
}

// show prints a command's output, at most so many lines of it.
func (t *teller) show(output string, most int) {
	lines := strings.Split(strings.TrimRight(output, "\n"), "\n")
	for i, line := range lines {
		if i == most && len(lines) > most+1 {
			t.say("%s", t.paint(faint, fmt.Sprintf("    … %d more lines", len(lines)-most)))
			return
		}
		t.say("%s", "    "+line)
	}
}
