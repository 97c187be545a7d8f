package bodyschema

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlqbridge/dlqbridge"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const order = `{
  "type": "object", "required": ["order", "customer"],
  "properties": {
    "order": {"type": "integer", "maximum": 9007199254740993},
    "customer": {"type": "object", "properties": {"id": {"type": "string", "pattern": "^c_[0-9]+$"}}, "required": ["id"]},
    "state": {"enum": ["new", "paid"]}
  },
  "additionalProperties": false
}`

func TestCheck(t *testing.T) {
	s, err := Open(write(t, "order.json", order))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ body, want string }{
		{`{"order":1,"customer":{"id":"c_1"}}`, ""},
		{`{"order":9007199254740993,"customer":{"id":"c_1"},"state":"paid"}`, ""},
		{`{"order":9007199254740994,"customer":{"id":"c_1"}}`, "/order (maximum)"},
		{`{"order":"SECRET","customer":{"id":"SECRET"},"state":"SECRET"}`, "/customer/id (pattern); /order (type); /state (enum)"},
		{`{"order":1}`, "the body (required)"},
		{`{"order":1,"customer":{"id":"c_1"},"x":1}`, "the body (additionalProperties)"},
		{`[]`, "the body (type)"},
		{`{`, "it is not JSON"},
		{`{"order":1,"customer":{"id":"c_1"},"order":1}`, "a name stands twice in one object, and which of the two counts is not certain"},
		{`{"order":1,"customer":{"id":"c_1","\u0069d":"c_2"}}`, "a name stands twice in one object, and which of the two counts is not certain"},
		{`{"order":1,"customer":{"order":["order",{"id":[{"id":1}]},{"id":"id"}],"id":"c_1"}}`, ""},
		{`{"order":1e999999999,"customer":{"id":"c_1"}}`, "a number is too large to be checked"},
	} {
		err := s.Check([]byte(tt.body))
		if tt.want == "" {
			if err != nil {
				t.Errorf("%s: %v", tt.body, err)
			}
			continue
		}
		if !errors.Is(err, dlqbridge.ErrInvalid) || !strings.HasSuffix(err.Error(), "it breaks the schema order.json: "+tt.want) {
			t.Errorf("%s: %v", tt.body, err)
		}
		if err != nil && strings.Contains(err.Error(), "SECRET") {
			t.Errorf("a value is in %v", err)
		}
	}
}

func TestOpenRefusesWhatCannotBeUsed(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON": `{`, "no schema": `{"type": 7}`, "elsewhere": `{"$ref": "https://example.com/other.json"}`, "a bad pattern": `{"pattern": "("}`,
	} {
		if _, err := Open(write(t, "s.json", text)); !errors.Is(err, dlqbridge.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "gone.json")); err == nil {
		t.Error("a file that is not there was opened")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"a.json": `{"properties": {"id": {"$ref": "b.json"}}}`, "b.json": `{"type": "string"}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(filepath.Join(dir, "a.json"))
	if err != nil {
		t.Fatal(err)
	}
	if s.Check([]byte(`{"id":1}`)) == nil || s.Check([]byte(`{"id":"x"}`)) != nil {
		t.Error("the schema beside it does not count")
	}
}
