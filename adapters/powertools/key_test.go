package powertools

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/dlqbridge/dlqbridge"
)

// testdata/keys.json was written by Python's json and hashlib and by Node's
// JSON and crypto with Powertools' own rules around them, so it is what real
// workers make of the same values.
func TestKeysAreThoseOfTheRuntimes(t *testing.T) {
	text, err := os.ReadFile("testdata/keys.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		JSON                             string
		Python, PythonText               string
		TypeScript, TypeScriptText       string
		PythonMissing, TypeScriptMissing bool
	}
	if err := json.Unmarshal(text, &rows); err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		t.Run(r.JSON, func(t *testing.T) {
			for _, want := range []struct {
				runtime   Runtime
				sum, text string
				missing   bool
			}{{Python, r.Python, r.PythonText, r.PythonMissing}, {TypeScript, r.TypeScript, r.TypeScriptText, r.TypeScriptMissing}} {
				k, err := newKeys(Options{Runtime: want.runtime})
				if err != nil {
					t.Fatal(err)
				}
				v, err := k.lang.parse(r.JSON)
				if err != nil {
					t.Fatal(err)
				}
				var b strings.Builder
				if err := k.lang.write(&b, v); err != nil || b.String() != want.text {
					t.Errorf("%s writes %s, want %s (%v)", want.runtime, b.String(), want.text, err)
				}
				if sum, err := k.sum(v); err != nil || sum != want.sum {
					t.Errorf("%s: sum %s, want %s (%v)", want.runtime, sum, want.sum, err)
				}
				if got := k.lang.missing(v); got != want.missing {
					t.Errorf("%s: missing %v, want %v", want.runtime, got, want.missing)
				}
			}
		})
	}
}

// What the expressions of Powertools' users select, and what they do not find.
func TestWhatTheKeyIsMadeFrom(t *testing.T) {
	zipped := "H4sIAAAAAAACA6tWyi9KSS1SslIwrgUAFEqEAwwAAAA=" // {"order": 3}
	letter := dlqbridge.Payload{
		Body: []byte(`{"order_id":7,"inner":"{\"id\":\"x\"}","b64":"eyJhIjoxfQ==","zip":"` + zipped + `"}`), GroupKey: "g1",
		Attributes: []dlqbridge.Attribute{
			{Name: "tenant", Type: "String", Value: []byte("acme")},
			{Name: "raw", Type: "Binary", Value: []byte{1, 2}},
			{Name: dlqbridge.MarkName, Type: "String", Value: []byte("v1 …")},
		},
	}
	for _, tc := range []struct {
		name       string
		input      Input
		expression string
		want       string // the selected value as Python writes it; empty: no key
	}{
		{"message id", InputRecord, "messageId", `"m-1"`},
		{"body as it is", InputRecord, "body", string(mustPython(t, string(letter.Body)))},
		{"field of the body", InputRecord, "powertools_json(body).order_id", "7"},
		{"several fields", InputRecord, "powertools_json(body).[order_id, nothing]", "[7, null]"},
		{"JSON in JSON", InputRecord, "powertools_json(powertools_json(body).inner).id", `"x"`},
		{"base64", InputRecord, "powertools_json(powertools_base64(powertools_json(body).b64)).a", "1"},
		{"base64 of gzip", InputRecord, "powertools_json(powertools_base64_gzip(powertools_json(body).zip)).order", "3"},
		{"attribute", InputRecord, "messageAttributes.tenant.stringValue", `"acme"`},
		{"binary attribute", InputRecord, "messageAttributes.raw.binaryValue", `"AQI="`},
		{"group", InputRecord, "attributes.MessageGroupId", `"g1"`},
		{"whole event", InputEvent, "Records[0].messageId", `"m-1"`},
		{"body alone", InputBody, "order_id", "7"},
		{"our own mark is not there", InputRecord, `messageAttributes."agent.redrive"`, ""},
		{"not there", InputRecord, "receiptHandle", ""},
		{"only nulls", InputRecord, "[receiptHandle, awsRegion]", ""},
		{"function on the wrong type", InputRecord, "powertools_json(attributes)", ""},
		{"not JSON", InputRecord, "powertools_json(messageId)", ""},
		{"not base64", InputRecord, "powertools_base64(body)", ""},
		{"not gzip", InputRecord, "powertools_base64_gzip(body)", ""},
		{"arithmetic on texts", InputRecord, "abs(body)", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k, err := newKeys(Options{Runtime: Python, Prefix: "fn.handler", Input: tc.input, EventKeyJMESPath: tc.expression})
			if err != nil {
				t.Fatal(err)
			}
			key, _, why := k.of(dlqbridge.Question{MessageID: "m-1", Payload: &letter})
			if tc.want == "" {
				if key != "" || why == "" {
					t.Errorf("got %q, %q", key, why)
				}
				return
			}
			v, err := k.lang.parse(tc.want)
			if err != nil {
				t.Fatal(err)
			}
			sum, err := k.sum(v)
			if err != nil {
				t.Fatal(err)
			}
			if key != "fn.handler#"+sum {
				t.Errorf("got %s (%s), want the sum of %s", key, why, tc.want)
			}
		})
	}
}

func mustPython(t *testing.T, text string) []byte {
	t.Helper()
	var b strings.Builder
	if err := writePython(&b, text); err != nil {
		t.Fatal(err)
	}
	return []byte(b.String())
}

// Whatever a sender writes and whatever is selected from it: a key or a reason,
// never a panic, and the same each time.
func FuzzKey(f *testing.F) {
	f.Add([]byte(`{"order_id":7}`), "m", byte(0))
	f.Add([]byte(`{"order_id":1e400,"x":[{}]}`), "", byte(1))
	f.Add([]byte("\xef\xbb\xbf{\"order_id\":\"\\ud800\"}"), "m", byte(2))
	f.Add([]byte(`[[[[[[`), "m", byte(5))
	var all []keys
	for _, runtime := range []Runtime{Python, TypeScript} {
		for _, e := range []string{"powertools_json(body)", "powertools_json(body).order_id", "powertools_base64_gzip(body)", "body"} {
			k, err := newKeys(Options{Runtime: runtime, Prefix: "p", Input: InputRecord, EventKeyJMESPath: e, PayloadValidationJMESPath: "body"})
			if err != nil {
				f.Fatal(err)
			}
			all = append(all, k)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, id string, which byte) {
		k := all[int(which)%len(all)]
		q := dlqbridge.Question{MessageID: id, Payload: &dlqbridge.Payload{Body: body}}
		key, validation, why := k.of(q)
		again, validationAgain, _ := k.of(q)
		if key != again || validation != validationAgain {
			t.Errorf("%q then %q", key, again)
		}
		if (key == "") != (why != "") {
			t.Errorf("key %q, why %q", key, why)
		}
		if len(body) > 8 && strings.Contains(why, string(body)) {
			t.Errorf("the reason quotes the message: %s", why)
		}
	})
}
