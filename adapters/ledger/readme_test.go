package ledger_test

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge/adapters/ledger"
)

// The README's table has each key of agent.ctx with its flat attribute, in the
// order of Facts, and no other.
func TestReadmeListsEveryFact(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var got [][2]string
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| `(agent\\.[\\w.]+)` \\| \\S").FindAllStringSubmatch(string(text), -1) {
		got = append(got, [2]string{m[1], m[2]})
	}
	var want [][2]string
	for f := range reflect.TypeFor[ledger.Facts]().Fields() {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if key == "v" {
			want = append(want, [2]string{key, "agent.v"})
			continue
		}
		// The attribute is the one that appears when only this fact is set.
		var facts ledger.Facts
		switch v := reflect.ValueOf(&facts).Elem().FieldByIndex(f.Index); v.Kind() {
		case reflect.Int:
			v.SetInt(7)
		default:
			v.SetString("x")
		}
		for name := range facts.Attributes() {
			if name != "agent.v" {
				want = append(want, [2]string{key, name})
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("README.md, keys of agent.ctx (-Facts +README):\n%s", diff)
	}
}

// The rights that the documents ask for are the calls that the kit makes.
func TestDocumentsNameTheWorkersRights(t *testing.T) {
	var want []string
	for m := range reflect.TypeFor[ledger.Client]().Methods() {
		want = append(want, "dynamodb:"+m.Name)
	}
	slices.Sort(want)
	for _, path := range []string{"README.md", "../../deploy/README.md"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for line := range strings.Lines(string(text)) {
			if !strings.Contains(line, "- Rights: ") && !strings.HasPrefix(line, "Workers that use the kit need ") {
				continue
			}
			found = true
			workers, _, _ := strings.Cut(line, "for workers")
			got := regexp.MustCompile(`dynamodb:\w+`).FindAllString(workers, -1)
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: rights of workers (-calls +document):\n%s", path, diff)
			}
		}
		if !found {
			t.Errorf("%s does not say which rights workers need", path)
		}
	}
}
