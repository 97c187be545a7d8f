package dlqbridge

import (
	"os/exec"
	"testing"
)

// A shell takes it for one word, and what needs no quotes has none.
func TestShellWord(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Log("no shell here to read the words back: ", err)
	}
	for s, plain := range map[string]bool{
		"plan.json": true, "/a/b-c_1.json": true, "0003#charge": true, "": false, "#comment": false, "it's": false, "a b;$(touch pwn).json": false,
		"`id`": false, "a\nb": false, "~": false, "*": false, "a\\": false, `"`: false, "é": false, "'": false, "a&b|c>d<e!f{g,h}i[j]?": false,
	} {
		word := ShellWord(s)
		if (word == s) != plain {
			t.Errorf("%q is %s", s, word)
		}
		if shell == "" {
			continue
		}
		if out, err := exec.CommandContext(t.Context(), shell, "-c", "printf %s. "+word).Output(); err != nil || string(out) != s+"." {
			t.Errorf("%q as %s came back as %q, %v", s, word, out, err)
		}
	}
}
