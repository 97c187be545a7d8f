package config_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/config"
	"github.com/dlqbridge/dlqbridge/enrich"
)

// schemaNode is what the reference says of the JSON Schema.
type schemaNode struct {
	Description string
	Default     any
	Enum        []string
	Properties  map[string]*schemaNode
	Items       *schemaNode
	Required    []string
	// More is false, or what each key that has no name of its own holds.
	More json.RawMessage `json:"additionalProperties"`
}

var (
	celVariable = regexp.MustCompile(`\{"([\w.]+)", cel\.`)
	yamlExample = regexp.MustCompile("(?s)```yaml\n(.*?)```")
)

const (
	referenceStart = "<!-- keys: made from dlqbridge.schema.json, go test ./cmd/dlqbridge/config -run TestReferenceIsCurrent -update -->\n"
	referenceEnd   = "<!-- end of keys -->\n"
)

// CONFIG.md lists every key of the schema with its meaning and default.
func TestReferenceIsCurrent(t *testing.T) {
	var root schemaNode
	if err := json.Unmarshal(config.Schema(), &root); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("..", "..", "..", "CONFIG.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), referenceStart)
	_, after, ended := strings.Cut(rest, referenceEnd)
	if !ok || !ended {
		t.Fatalf("%s has no place for the keys", path)
	}
	want := before + referenceStart + reference(t, root) + referenceEnd + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(text), want); diff != "" {
		t.Errorf("write it anew with -update (-committed +current):\n%s", diff)
	}
}

// What CONFIG.md says in sentences is whole, and its examples can be used.
func TestReferenceIsTrue(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "CONFIG.md"))
	if err != nil {
		t.Fatal(err)
	}
	said, _, _ := strings.Cut(string(text), referenceStart)
	for _, name := range enrich.FieldNames() {
		if !strings.Contains(said, "`"+name+"`") {
			t.Errorf("the fact %s is not named", name)
		}
	}
	view, err := os.ReadFile(filepath.Join("..", "..", "..", "adapters", "celrules", "view.go"))
	if err != nil {
		t.Fatal(err)
	}
	variables := celVariable.FindAllStringSubmatch(string(view), -1)
	if len(variables) < 15 {
		t.Errorf("found only %d variables of rules", len(variables))
	}
	for _, m := range variables {
		if !strings.Contains(said, "`"+m[1]+"`") {
			t.Errorf("the variable %s is not named", m[1])
		}
	}
	examples := yamlExample.FindAllStringSubmatch(said, -1)
	if len(examples) < 2 {
		t.Errorf("found only %d examples", len(examples))
	}
	for _, m := range examples {
		_, err := config.Load(config.Source{
			File: "dlqbridge.yaml", Env: func(string) (string, bool) { return "", false },
			ReadFile: func(string) ([]byte, error) { return []byte(m[1]), nil },
		})
		if err != nil {
			t.Errorf("%v in\n%s", err, m[1])
		}
	}
}

// reference has one table for each key of the first level, the short ones
// together.
func reference(t *testing.T, root schemaNode) string {
	t.Helper()
	var out, single strings.Builder
	for _, key := range slices.Sorted(maps.Keys(root.Properties)) {
		one := root.Properties[key]
		var rows strings.Builder
		switch {
		case key == "causes":
			causes(&rows, one)
		case key == "stores":
			for kind := range slices.Values(slices.Sorted(maps.Keys(more(t, one).Properties))) {
				below(t, &rows, "stores.NAME."+kind, more(t, one).Properties[kind], true)
			}
		case one.Properties == nil && one.Items == nil:
			row(&single, key, one, false)
			continue
		default:
			below(t, &rows, key, one, false)
		}
		fmt.Fprintf(&out, "\n### %s\n\n%s\n\n| key | meaning | default |\n| --- | --- | --- |\n%s", key, one.Description, &rows)
	}
	return fmt.Sprintf("\n| key | meaning | default |\n| --- | --- | --- |\n%s", &single) + out.String() + "\n"
}

func more(t *testing.T, n *schemaNode) *schemaNode {
	t.Helper()
	if len(n.More) == 0 || n.More[0] != '{' {
		return nil
	}
	var out schemaNode
	if err := json.Unmarshal(n.More, &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

// below writes the rows of what is under a key.
func below(t *testing.T, out *strings.Builder, path string, n *schemaNode, itself bool) {
	t.Helper()
	if itself {
		row(out, path, n, false)
	}
	if n.Items != nil {
		path, n = path+"[]", n.Items
	}
	names := slices.Sorted(maps.Keys(n.Properties))
	if strings.HasSuffix(path, ".fields") && n.Properties[names[0]].Description == "" {
		return // the names of facts, which stand in a sentence of their own
	}
	for _, name := range names {
		one := n.Properties[name]
		row(out, path+"."+name, one, slices.Contains(n.Required, name))
		below(t, out, path+"."+name, one, false)
	}
}

func row(out *strings.Builder, key string, n *schemaNode, required bool) {
	standard := ""
	switch {
	case required:
		standard = "required"
	case n.Default != nil:
		standard = fmt.Sprintf("`%v`", n.Default)
	}
	meaning := n.Description
	if len(n.Enum) > 0 {
		meaning += " One of `" + strings.Join(n.Enum, "`, `") + "`."
	}
	fmt.Fprintf(out, "| `%s` | %s | %s |\n", key, strings.ReplaceAll(strings.TrimSpace(meaning), "|", `\|`), standard)
}

// causes writes one row for each key of a cause: they differ in defaults alone.
func causes(out *strings.Builder, n *schemaNode) {
	names := slices.Sorted(maps.Keys(n.Properties))
	for _, key := range slices.Sorted(maps.Keys(n.Properties[names[0]].Properties)) {
		by := map[string][]string{}
		for _, cause := range names {
			value := ""
			if v := n.Properties[cause].Properties[key].Default; v != nil {
				value = fmt.Sprintf("`%v`", v)
			}
			by[value] = append(by[value], "`"+cause+"`")
		}
		values := slices.SortedFunc(maps.Keys(by), func(a, b string) int { return len(by[b]) - len(by[a]) })
		said := []string{values[0]}
		for _, v := range slices.Sorted(slices.Values(values[1:])) {
			said = append(said, v+" for "+strings.Join(by[v], ", "))
		}
		standard := strings.Join(said, "; ")
		fmt.Fprintf(out, "| `causes.CAUSE.%s` | %s | %s |\n", key, n.Properties[names[0]].Properties[key].Description, standard)
	}
}
