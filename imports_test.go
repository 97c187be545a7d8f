package dlqbridge

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/dlqbridge/dlqbridge"

// The table of who may import whom, for code that is not a test. An entry
// allows a package and everything below it; "std" is the standard library.
var mayImport = []struct {
	dir   string // the first entry that holds a package's folder decides
	allow []string
	deny  []string
}{
	{dir: "cmd/demo", allow: []string{"any"}},
	{dir: "cmd/localcloud", allow: []string{"any"}},
	{dir: "cmd", allow: []string{"any"}, deny: []string{module + "/localstack", module + "/adapters/adaptertest"}},
	{dir: "localstack", allow: []string{"any"}, deny: []string{module + "/cmd", module + "/enrich", module + "/redrive"}},
	{dir: "adapters/retry", allow: []string{"std", module}},
	{dir: "enrich", allow: []string{"std", module}},
	{dir: "redrive", allow: []string{"std", module}},
	{dir: "adapters", allow: []string{"any"}, deny: []string{module + "/cmd", module + "/enrich", module + "/redrive", module + "/localstack"}},
	{dir: ".", allow: []string{"std"}},
}

func TestWhoImportsWhom(t *testing.T) {
	files := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		files++
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		for _, spec := range f.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			if why := forbidden(dir, imported); why != "" {
				t.Errorf("%s imports %s: %s", path, imported, why)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 10 {
		t.Fatalf("only %d files were read", files)
	}
}

func forbidden(dir, imported string) string {
	if a, b := adapterOf(dir), adapterOf(strings.TrimPrefix(imported, module+"/")); a != "" && b != "" && a != b && !slices.Contains(shared, b) {
		return "no adapter imports another"
	}
	for _, rule := range mayImport {
		if rule.dir != "." && dir != rule.dir && !strings.HasPrefix(dir, rule.dir+"/") {
			continue
		}
		for _, d := range rule.deny {
			if imported == d || strings.HasPrefix(imported, d+"/") {
				return "denied in " + rule.dir
			}
		}
		for _, a := range rule.allow {
			std := !strings.Contains(strings.SplitN(imported, "/", 2)[0], ".")
			own := imported == module || strings.HasPrefix(imported, module+"/"+rule.dir+"/") // and what stands beside it
			if a == "any" || a == "std" && std || a == module && own || dir == "." && imported == module {
				return ""
			}
		}
		return "not allowed in " + rule.dir
	}
	return "no rule"
}

// shared are folders that adapters share and that talk to nothing themselves:
// what errors of AWS mean, and how calls are tried again.
var shared = []string{"awserr", "retry"}

// adapterOf names the adapter a folder belongs to.
func adapterOf(dir string) string {
	rest, ok := strings.CutPrefix(dir, "adapters/")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")
	return name
}

func TestTheImportRulesBite(t *testing.T) {
	for _, tt := range []struct{ dir, imported string }{
		{".", "github.com/aws/aws-sdk-go-v2/aws"},
		{"enrich", "github.com/aws/aws-sdk-go-v2/aws"},
		{"enrich", module + "/redrive"},
		{"redrive", module + "/adapters/awssqs"},
		{"adapters/awssqs", module + "/adapters/awsdynamodb"},
		{"adapters/awssqs", module + "/localstack"},
		{"adapters/gcppubsub", module + "/adapters/awssqs"},
		{"adapters/retry", "github.com/aws/aws-sdk-go-v2/aws"},
		{"adapters/retry", module + "/adapters/awserr"},
		{"cmd/dlqbridge", module + "/localstack"},
		{"cmd/dlqbridge/config", module + "/localstack/clock"},
		{"localstack/sqs", module + "/enrich"},
	} {
		if forbidden(tt.dir, tt.imported) == "" {
			t.Errorf("%s may import %s", tt.dir, tt.imported)
		}
	}
}
