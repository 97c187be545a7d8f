package dlqbridge

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	linkPattern  = regexp.MustCompile(`\]\(([^)#\s]+)[^)]*\)`)
	goRunPattern = regexp.MustCompile(`go (?:run|build -o \w+) (\./[\w./-]+)`)
	majorVersion = regexp.MustCompile(`/v\d+$`)
	seedPattern  = regexp.MustCompile(`--seed ([\w/-]+\.[\w./-]+)`)

	metricPattern = regexp.MustCompile(`\bdlqbridge_[a-z0-9_]+`)
	metricSource  = regexp.MustCompile(`(?:(?:counter|gauge)\(|Name: )"([a-z0-9_]+)"`)
	// A reference to a document that readers do not have.
	elsewherePattern = regexp.MustCompile(`\bCONTRACT\b|(?i:\bsection \d|\bof the contract\b|\bthe contract(?:'s| names| lets)\b)`)
)

func documents(t *testing.T) map[string]string {
	t.Helper()
	return files(t, ".md")
}

// files are the texts of the repository's files whose names end so, by path.
func files(t *testing.T, suffixes ...string) map[string]string {
	t.Helper()
	docs := map[string]string{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if !d.IsDir() && slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(path, s) }) {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			docs[path] = string(text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return docs
}

// A link to a file, a command to run and a file to pass must exist.
func TestDocsNameThingsThatExist(t *testing.T) {
	for path, text := range documents(t) {
		for _, m := range linkPattern.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", path, m[1])
			}
		}
		for _, pattern := range []*regexp.Regexp{goRunPattern, seedPattern} {
			for _, m := range pattern.FindAllStringSubmatch(text, -1) {
				if _, err := os.Stat(m[1]); err != nil {
					t.Errorf("%s names %s, which is not there", path, m[1])
				}
			}
		}
	}
}

// Each dependency has a line of reason.
func TestDocsGiveAReasonForEachDependency(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	design, err := os.ReadFile("DESIGN.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(mod)) {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) < 2 || !strings.Contains(fields[0], "/") || strings.Contains(line, "// indirect") || fields[0] == "module" {
			continue
		}
		n++
		name := strings.TrimPrefix(strings.TrimPrefix(fields[0], "github.com/"), "aws/")
		name = majorVersion.ReplaceAllString(name, "")
		if strings.HasPrefix(name, "google.golang.org/genproto") {
			name = "google.golang.org/genproto"
		}
		if i := strings.Index(name, "/service/"); i > 0 || strings.HasPrefix(name, "aws-sdk-go-v2") || name == "smithy-go" {
			name = "aws-sdk-go-v2"
		}
		if !strings.Contains(string(design), name) {
			t.Errorf("DESIGN.md gives no reason for %s", fields[0])
		}
	}
	if n == 0 {
		t.Error("go.mod names no direct dependency")
	}
}

// A metric that a document names is one that the program has.
func TestDocsNameMetricsThatExist(t *testing.T) {
	known := map[string]bool{}
	for _, text := range files(t, filepath.Join("cmd", "dlqbridge", "prom", "prom.go")) {
		for _, m := range metricSource.FindAllStringSubmatch(text, -1) {
			known["dlqbridge_"+m[1]] = true
		}
	}
	if len(known) < 10 {
		t.Fatalf("found only %d metrics in the source", len(known))
	}
	for path, text := range documents(t) {
		for _, name := range metricPattern.FindAllString(text, -1) {
			base := name
			for _, part := range []string{"_bucket", "_sum", "_count"} { // of a histogram
				base = strings.TrimSuffix(base, part)
			}
			if !known[name] && !known[base] {
				t.Errorf("%s names the metric %s, which is not there", path, name)
			}
		}
	}
}

// Code and documents refer to nothing that stands outside the repository but
// what everybody can read, such as an RFC.
func TestNothingRefersToDocumentsElsewhere(t *testing.T) {
	for path, text := range files(t, ".go", ".md") {
		if path == "docs_test.go" {
			continue // the patterns themselves
		}
		for line := range strings.Lines(text) {
			if found := elsewherePattern.FindString(line); found != "" && !strings.Contains(line, "RFC") {
				t.Errorf("%s refers to %q in: %s", path, found, strings.TrimSpace(line))
			}
		}
	}
}

// The README's tour names every adapter.
func TestDocsNameEveryAdapter(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	dirs, err := os.ReadDir("adapters")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		if d.IsDir() && !strings.Contains(string(readme), "](adapters/"+d.Name()+")") {
			t.Errorf("README.md does not name adapters/%s", d.Name())
		}
	}
}
