package enrich_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/enrich"
)

// exported is what a fixture keeps of a body.
func exported(t *testing.T, body string) string {
	t.Helper()
	c := dlqbridge.Case{Control: dlqbridge.Control{Context: "c"}, Contexts: []dlqbridge.Context{{Name: "c", Action: dlqbridge.ActionRetry}}}
	f, ok := enrich.Export(c, &dlqbridge.Payload{Body: []byte(body)}, false)
	if !ok {
		t.Fatal("not exported")
	}
	text, err := f.Encode()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Payload struct{ Body struct{ Text string } }
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Payload.Body.Text
}

func TestScrubbedJSONStaysJSON(t *testing.T) {
	vendor := "sk-" + strings.Repeat("Ab1", 8)
	for _, c := range []struct{ in, want string }{
		{`{"password":"hunter2","token":"` + vendor + `","n": 1.50}`, `{"password":"[redacted]","token":"[redacted]","n": 1.50}`},
		{`{"z":1, "a":[{"api_key": 12345678}, null], "t":"<b>"}`, `{"z":1, "a":[{"api_key": "[redacted]"}, null], "t":"<b>"}`},
		{`{"credentials":{"user":"bob","n":[1,"x"],"on":true},"after":"x"}`, `{"credentials":{"user":"[redacted]","n":["[redacted]","[redacted]"],"on":true},"after":"x"}`},
		{`["password","hunter2"]`, `["password","hunter2"]`},
		{`{"password":"a\"b}c","x":"y"}`, `{"password":"[redacted]","x":"y"}`},
		{`{"note":"login with password=hunter2, then"}`, `{"note":"login with password=[redacted], then"}`},
		{`{"inner":"{\"secret\":\"hunter2\",\"n\":1}"}`, `{"inner":"{\"secret\":\"[redacted]\",\"n\":1}"}`},
		{`{"url":"https://bob:hunter2@host/x","key":"order-7"}`, `{"url":"https://[redacted]@host/x","key":"order-7"}`},
		{`{"id":"1"} and password=hunter2`, `{"id":"1"} and password=[redacted]`},
		{`{"password":""}`, `{"password":""}`},
	} {
		got := exported(t, c.in)
		if got != c.want {
			t.Errorf("%s\nbecame %s\nwant   %s", c.in, got, c.want)
		}
		if json.Valid([]byte(c.in)) && !json.Valid([]byte(got)) {
			t.Errorf("no JSON any more: %s", got)
		}
		if again := exported(t, got); again != got {
			t.Errorf("again: %s became %s", got, again)
		}
	}
}

// JSON in an error text keeps its quotes, too, and nothing is redacted twice.
func TestScrubKeepsQuotes(t *testing.T) {
	for in, want := range map[string]string{
		`login {"user":"bob","password":"hunter2 secret"} failed`: `login {"user":"bob","password":"[redacted]"} failed`,
		`body "{\"password\":\"hunter2\",\"a\":1}" refused`:       `body "{\"password\":\"[redacted]\",\"a\":1}" refused`,
		`{"password":"hunt`:                     `{"password":"[redacted]"`,
		`cut {"credentials":{"user":"b`:         `cut {"credentials":{"user":"b`,
		`password='it\'s' next`:                 `password='[redacted]' next`,
		`password=ab\cd[e next`:                 `password=[redacted] next`,
		`password=[abc] next`:                   `password=[redacted] next`,
		`password=[redacted], token=[redacted]`: `password=[redacted], token=[redacted]`,
	} {
		got := enrich.Scrub(in)
		if got != want {
			t.Errorf("%s\nbecame %s\nwant   %s", in, got, want)
		}
	}
}

func FuzzScrubbedJSONStaysJSON(f *testing.F) {
	f.Add(`{"password":"a\"b","token":[1,{"x":"y"}],"s":"{\"secret\":\"x\"}"}`)
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 1<<12 || !utf8.ValidString(s) || !json.Valid([]byte(s)) {
			return
		}
		if got := exported(t, s); !json.Valid([]byte(got)) {
			t.Errorf("%q became %q", s, got)
		}
	})
}
