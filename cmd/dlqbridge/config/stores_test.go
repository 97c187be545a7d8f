package config_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/config"
)

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

func TestDocumentedStoresAreRead(t *testing.T) {
	text, err := os.ReadFile("../../../enrich/STORES.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := yamlBlock.FindAllStringSubmatch(string(text), -1)
	kinds := map[string]bool{}
	for _, b := range blocks {
		c, err := load(t, b[1], nil, nil)
		if err != nil {
			t.Errorf("%v in\n%s", err, b[1])
		}
		for _, s := range c.Stores {
			kinds[s.Kind()] = true
		}
	}
	if len(kinds) != 6 {
		t.Errorf("only %v are shown", kinds)
	}
}

// "Everything may change something" and "nothing does" must not be mixed up on
// the way through the file.
func TestAbsentAndEmptyMutatingAreKeptApart(t *testing.T) {
	for text, want := range map[string][]string{"": nil, ", mutating: ": nil, ", mutating: []": {}, ", mutating: [a]": {"a"}} {
		c, err := load(t, "stores: {a: {langgraph: {table: abc"+text+"}}, b: {stepfunctions: {recheck: 1m"+text+"}}, c: {openai_agents: {table: abc, hash: {attribute: k, value: \"{taskId}\"}, state: s"+text+"}}}", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		again, err := load(t, string(c.YAML()), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []config.Config{c, again} {
			for _, got := range [][]string{c.Stores["a"].LangGraph.Options("a").Mutating, c.Stores["b"].StepFunctions.Options("b").Mutating, c.Stores["c"].OpenAIAgents.Options("c").Mutating} {
				if (got == nil) != (want == nil) || len(got) != len(want) {
					t.Errorf("%q: got %#v, want %#v", text, got, want)
				}
			}
		}
	}
}

func TestSecretsOfStoresAreNeverShown(t *testing.T) {
	refused, err := load(t, `stores: {a: {reconcile: {url: "https://x.example/{taskId}", done: [{status: [200]}], headers: {Authorization: "Bearer s3cr3t", X: "s3cr3t env:A"}}}}`, nil, nil)
	if err == nil || strings.Contains(err.Error(), "s3cr3t") {
		t.Errorf("got %v, %v", refused, err)
	}
	c, err := load(t, `stores: {a: {reconcile: {url: "https://x.example/{taskId}?k=s3cr3t&t={tenant}", done: [{status: [200]}], headers: {Authorization: "env:A", X-Team: s3cr3t, Accept: application/json}}}}`, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	json, err := c.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{string(c.YAML()), string(json)} {
		if strings.Contains(shown, "s3cr3t") {
			t.Errorf("a secret is shown:\n%s", shown)
		}
		for _, want := range []string{"env:A", "application/json", "{tenant}"} {
			if !strings.Contains(shown, want) {
				t.Errorf("%s is not shown:\n%s", want, shown)
			}
		}
	}
}
