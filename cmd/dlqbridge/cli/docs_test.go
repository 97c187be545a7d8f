package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/dlqbridge/dlqbridge"
)

var (
	// A line of a fenced block, or code within a line.
	shellBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")
	codeSpan   = regexp.MustCompile("`(?:\\./)?(dlqbridge [^`\n]+)`")
	// Where a call ends: a pipe, a redirection, a remark, the next command.
	callEnd  = regexp.MustCompile(`\s(?:\||>|#|&&|;)(?:\s|$)|;\s`)
	callWord = regexp.MustCompile(`"[^"]*"|'[^']*'|\S+`)
	flagName = regexp.MustCompile(`^(--?)([a-z][a-z-]*)`)
)

// calls are the calls of dlqbridge in a text of commands.
func calls(text string) (out []string) {
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		for _, at := range regexp.MustCompile(`(?:^|[\s|])(?:\./)?dlqbridge `).FindAllStringIndex(line, -1) {
			call := strings.TrimSpace(line[at[1]:])
			if end := callEnd.FindStringIndex(quoteless(call)); end != nil {
				call = call[:end[0]]
			}
			out = append(out, call)
		}
	}
	return out
}

// quoteless blanks what is quoted, so that it ends no call.
func quoteless(s string) string {
	return regexp.MustCompile(`"[^"]*"|'[^']*'`).ReplaceAllStringFunc(s, func(q string) string { return strings.Repeat("q", len(q)) })
}

// named says what of a call is not there: a command or a flag.
func named(root *cobra.Command, call string) string {
	cmd := root
	for _, word := range callWord.FindAllString(call, -1) {
		if m := flagName.FindStringSubmatch(word); m != nil {
			flag := cmd.Flag(m[2])
			if m[1] == "-" {
				flag = cmd.InheritedFlags().ShorthandLookup(m[2])
				if flag == nil {
					flag = cmd.Flags().ShorthandLookup(m[2])
				}
			}
			if flag == nil && m[2] != "help" {
				return cmd.CommandPath() + " has no flag " + word
			}
			continue
		}
		if !cmd.HasSubCommands() || strings.ContainsAny(word, "…=/.") {
			continue
		}
		below, _, err := cmd.Find([]string{word})
		if err != nil || below == cmd {
			if word == strings.ToUpper(word) {
				continue // it stands for any
			}
			return cmd.CommandPath() + " has no command " + word
		}
		cmd = below
	}
	return ""
}

// A command that a document or an example names can be typed.
func TestDocsNameCommandsThatExist(t *testing.T) {
	root := tree(t)
	seen := 0
	look := func(where string, lines []string) {
		for _, call := range lines {
			seen++
			if wrong := named(root, call); wrong != "" {
				t.Errorf("%s: %s, in: %s", where, wrong, call)
			}
		}
	}
	everyCommand(root, func(cmd *cobra.Command) { look(cmd.CommandPath()+" --help", calls(cmd.Example)) })
	top := filepath.Join("..", "..", "..")
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != top && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".md") || d.Name() == "CHANGELOG.md" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range shellBlock.FindAllStringSubmatch(string(text), -1) {
			look(path, calls(m[1]))
		}
		for _, m := range codeSpan.FindAllStringSubmatch(string(text), -1) {
			look(path, calls(m[1]))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 150 {
		t.Errorf("found only %d calls", seen)
	}
}

// The finder itself finds what is wrong.
func TestDocsWithWrongCommandsAreFound(t *testing.T) {
	root := tree(t)
	for call, wrong := range map[string]bool{
		"records list --limit 0 -o json": false, "records lst": true, "records list --lmit 0": true, "--config new.yaml policy test --since 7d": false,
		"triage settle-effect r_… --to confirmed --step '0003#charge'": false, "triage fx r_…": true, "redrive status j_… -f": false, "redrive status j_… -q": true,
	} {
		if got := named(root, call); (got != "") != wrong {
			t.Errorf("%s: %q", call, got)
		}
	}
	if got := calls("dlqbridge records list -o json | jq '.a | .b' |\n  xargs dlqbridge triage reject --reason \"a; b\" > x"); len(got) != 2 || got[1] != `triage reject --reason "a; b"` {
		t.Errorf("%q", got)
	}
}

// The page for a person on call has every reason for which a record is left
// out, and every exit code.
func TestOnCallPageIsWhole(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "ONCALL.md"))
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join("..", "..", "..", "job.go"))
	if err != nil {
		t.Fatal(err)
	}
	reasons := regexp.MustCompile(`ExcludeReason = "([a-z_]+)"`).FindAllStringSubmatch(string(source), -1)
	if len(reasons) < 20 {
		t.Errorf("found only %d reasons", len(reasons))
	}
	for _, m := range reasons {
		if !strings.Contains(string(page), "\n| `"+m[1]+"` | ") {
			t.Errorf("the reason %s is not explained", m[1])
		}
		if nextStep(dlqbridge.ExcludeReason(m[1]), "r_…", false) == "" && m[1] != string(dlqbridge.ExcludeClosed) {
			t.Errorf("no next step for %s", m[1])
		}
	}
	for _, code := range []int{ExitDone, ExitFailed, ExitUsage, ExitPartial} {
		if !strings.Contains(string(page), "\n| "+itoa(code)+" | ") {
			t.Errorf("exit code %d is not explained", code)
		}
	}
}
