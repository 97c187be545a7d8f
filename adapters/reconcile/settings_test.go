package reconcile

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// Each wrong setting is an error at the start that says which and what to do.
func TestWrongSettings(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Options)
		want   string
	}{
		{"no name", func(o *Options) { o.Name = "" }, `reconciler "": name: write lower-case letters`},
		{"another's name", func(o *Options) { o.Name = "ledger" }, "that is another store's"},
		{"no clock", func(o *Options) { o.Now = nil }, "option Now is required"},
		{"a method that changes things", func(o *Options) { o.Method = "DELETE" }, `method "DELETE": write GET or POST`},
		{"a GET with a body", func(o *Options) { o.Method, o.Body = "GET", "{}" }, "a GET has none"},
		{"no scheme", func(o *Options) { o.URL = "payments.example/{taskId}" }, "must begin with https://"},
		{"another scheme", func(o *Options) { o.URL = "file:///etc/{taskId}" }, "must begin with https://"},
		{"plain http to anywhere", func(o *Options) { o.AllowAddresses = nil }, "http:// is for addresses in allow_addresses only"},
		{"a host from the letter", func(o *Options) { o.URL = "https://{tenant}.example/{taskId}" }, "no placeholder may stand in the host or port"},
		{"a port from the letter", func(o *Options) { o.URL = "https://a.example:{tenant}/{taskId}" }, "no placeholder may stand in the host or port"},
		{"a host right behind the scheme", func(o *Options) { o.URL = "https://{taskId}" }, "no placeholder may stand in the host or port"},
		{"a password", func(o *Options) { o.URL = "https://me:pw@a.example/{taskId}" }, "no user or password"},
		{"a fragment", func(o *Options) { o.URL = "https://a.example/#{taskId}" }, "a #fragment is never sent"},
		{"no host", func(o *Options) { o.URL = "https:///{taskId}" }, "not a URL"},
		{"a broken escape", func(o *Options) { o.URL = "https://a.example/%zz/{taskId}" }, "not a URL"},
		{"an unknown placeholder", func(o *Options) { o.URL = "https://a.example/{taskId}?k={key}" }, "query: {key} at position 3 is unknown; the placeholders are {idempotencyKey}"},
		{"a misspelt placeholder in a body", func(o *Options) { o.Body = `{"k":"{idempotencykey}"}` }, "body: {idempotencykey} at position 7 is unknown"},
		{"a lone brace", func(o *Options) { o.URL = "https://a.example/{taskId}/{" }, "cannot stand as it is"},
		{"a space", func(o *Options) { o.URL = "https://a.example/a b/{taskId}" }, "cannot stand as it is"},
		{"a backslash", func(o *Options) { o.URL = `https://a.example\@b.example/{taskId}` }, "no user or password"},
		{"nothing names the task", func(o *Options) { o.URL = "https://a.example/{tenant}" }, "nothing says which task is asked about"},
		{"a body that is not JSON", func(o *Options) { o.Body = `key={taskId}` }, "body: not JSON with its placeholders in texts"},
		{"a placeholder outside of a text", func(o *Options) { o.Body = `{"k":{taskId}}` }, "body: not JSON with its placeholders in texts"},
		{"a secret that is missing", func(o *Options) { o.Headers = map[string]string{"Authorization": "Bearer env:NOPE"} }, "headers: Authorization: variable NOPE is not set"},
		{"a secret without a name", func(o *Options) { o.Headers = map[string]string{"Authorization": "env:"} }, "write env:NAME"},
		{"a secret with a line end", func(o *Options) { o.Headers = map[string]string{"Authorization": "env:BAD"} }, "headers: Authorization: the value"},
		{"a header with a line end", func(o *Options) { o.Headers = map[string]string{"X-A": "a\r\nX-B: b"} }, "headers: X-A: the value"},
		{"a header name that is none", func(o *Options) { o.Headers = map[string]string{"X A": "a"} }, `"X A" is not a header name`},
		{"a header twice", func(o *Options) { o.Headers = map[string]string{"x-a": "a", "X-A": "b"} }, "headers: X-A stands there twice"},
		{"the host header", func(o *Options) { o.Headers = map[string]string{"host": "other.example"} }, "headers: Host cannot be set"},
		{"a placeholder in a header", func(o *Options) { o.Headers = map[string]string{"X-Tenant": "{tenant}"} }, "placeholders stand in url and body only"},
		{"no outcome", func(o *Options) { o.Done, o.NotDone = nil, nil }, "no answer would ever say anything"},
		{"an empty selector", func(o *Options) { o.Done = []Match{{}} }, "done, entry 1: write status or body"},
		{"a status that is none", func(o *Options) { o.Unknown = []Match{{Status: []int{42}}} }, "unknown, entry 1: 42 is not a status code"},
		{"an error as absence", func(o *Options) { o.NotDone = []Match{{Status: []int{404, 500}}} }, "not_done, entry 1: an answer with status 500"},
		{"a refusal as absence", func(o *Options) { o.NotDone = []Match{{Status: []int{403}}} }, "an answer with status 403 says something about the asking"},
		{"a bad request as absence", func(o *Options) { o.NotDone = []Match{{Status: []int{400}}} }, "an answer with status 400"},
		{"a refusal as done", func(o *Options) { o.Done = []Match{{Status: []int{401}}} }, "done, entry 1: an answer with status 401"},
		{"two conditions in one", func(o *Options) {
			o.Done = []Match{{Body: []Condition{{At: "/a", Exists: yes(), Empty: true}}}}
		}, `done, entry 1: body "/a": write one of equals, exists and empty`},
		{"no condition", func(o *Options) { o.Done = []Match{{Body: []Condition{{At: "/a"}}}} }, "write one of equals, exists and empty"},
		{"a pointer that is none", func(o *Options) { o.Done = []Match{{Body: []Condition{{At: "a.b", Exists: yes()}}}} }, "a JSON pointer starts with /"},
		{"a receipt that is no pointer", func(o *Options) { o.Receipt = "id" }, `receipt "id": a JSON pointer starts with /`},
		{"authoritative without a delay", func(o *Options) { o.ConsistencyDelay = 0 }, "consistency_delay: authoritative needs it"},
		{"authoritative without an absence", func(o *Options) { o.NotDone = nil }, "not_done: authoritative needs it"},
		{"too patient", func(o *Options) { o.Timeout = time.Hour }, "timeout 1h0m0s: at most 30s"},
		{"a negative budget", func(o *Options) { o.CallsPerMinute = -1 }, "calls_per_minute -1: write 1 to 60000"},
		{"an answer without end", func(o *Options) { o.MaxAnswer = 1 << 30 }, "max_answer_bytes 1073741824: write 1 to"},
	} {
		o := payments("http://127.0.0.1:1")
		o.Env = func(name string) (string, bool) { return "secret\r\nX: y", name == "BAD" }
		tt.change(&o)
		_, err := New(o)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret\r") {
			t.Errorf("%s: the error holds the secret", tt.name)
		}
	}
}

func TestAdviceOnAnAbsenceThatAWrongAddressGivesToo(t *testing.T) {
	o := payments("http://127.0.0.1:1")
	if got := open(t, o).Advice(); len(got) != 0 {
		t.Errorf("got %v", got)
	}
	for _, weak := range []Match{{Status: []int{404}}, {Body: []Condition{{At: "/data/0", Exists: no()}}}} {
		o.NotDone = []Match{weak}
		if got := open(t, o).Advice(); len(got) != 1 {
			t.Errorf("%+v: got %v", weak, got)
		}
	}
}

// Values stand for themselves wherever they are put.
func TestValuesAreEscaped(t *testing.T) {
	for _, tt := range []struct{ template, key, want string }{
		{"https://a.example/o/{idempotencyKey}/x", "a b?c#d;e", "https://a.example/o/a%20b%3Fc%23d%3Be/x"},
		{"https://a.example/o/{idempotencyKey}", "käse:1@2", "https://a.example/o/k%C3%A4se:1@2"},
		{"https://a.example/o?k={idempotencyKey}&x=1", "a&x=2/../%2f#é", "https://a.example/o?k=a%26x%3D2%2F..%2F%252f%23%C3%A9&x=1"},
		{"https://a.example/o?k={idempotencyKey}", "..", "https://a.example/o?k=.."},
		{"https://a.example?k={idempotencyKey}", "@b.example", "https://a.example?k=%40b.example"},
		{"https://a.example/{idempotencyKey}", "@b.example", "https://a.example/@b.example"},
		{"https://a.example/a.{idempotencyKey}", "b", "https://a.example/a.b"},
		// What a server or gateway on the way may undo.
		{"https://a.example/o/{idempotencyKey}", "../admin", ""},
		{"https://a.example/o/{idempotencyKey}", "..", ""},
		{"https://a.example/o/{idempotencyKey}", ".", ""},
		{"https://a.example/o/.{idempotencyKey}", ".", ""},
		{"https://a.example/o/{idempotencyKey}", `..\admin`, ""},
		{"https://a.example/o/{idempotencyKey}", "%2e%2e", ""},
		{"https://a.example/o/{tenant}{idempotencyKey}", ".", ""},
		// What the system never saw like this.
		{"https://a.example/o?k={idempotencyKey}", "a\r\nHost: b", ""},
		{"https://a.example/o?k={idempotencyKey}", "a\x00b", ""},
		{"https://a.example/o?k={idempotencyKey}", "a\xffb", ""},
		{"https://a.example/o?k={idempotencyKey}", "a\uFFFDb~0011", ""},
		{"https://a.example/o?k={idempotencyKey}", strings.Repeat("x", maxValue+1), ""},
	} {
		a, err := parseURL(tt.template)
		if err != nil {
			t.Errorf("%s: %v", tt.template, err)
			continue
		}
		got, err := a.render(dlqbridge.Question{IdempotencyKey: tt.key, Tenant: "."})
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s with %q: got %q, %v, want %q", tt.template, tt.key, got, err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), tt.key) && len(tt.key) > 2 {
			t.Errorf("the error holds the key: %v", err)
		}
	}
	body, err := parseBody(`{"query":"key:\"{idempotencyKey}\" {x: 1}","task":"{taskId}"}`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := body.render(dlqbridge.Question{IdempotencyKey: `a","task":"b`, TaskID: `c\`})
	if want := `{"query":"key:\"a\",\"task\":\"b\" {x: 1}","task":"c\\"}`; got != want || err != nil {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

func TestPostSendsTheBody(t *testing.T) {
	s := serve(t, 200, `{"status":"succeeded"}`)
	o := payments(s.URL)
	o.URL, o.Body = s.URL+"/search", `{"key":"{idempotencyKey}"}`
	if got := askOne(t, o, question("k")); got.Findings[0].State != dlqbridge.EffectConfirmed || !strings.HasPrefix(got.Findings[0].Detail, "POST answered 200") {
		t.Errorf("got %+v", got)
	}
	if s.asked[0] != "POST /search" {
		t.Errorf("asked %v", s.asked)
	}
}

func FuzzURL(f *testing.F) {
	f.Add("https://a.example/o/{idempotencyKey}?t={tenant}", "key", "..")
	f.Add("https://a.example?{taskId}", "/../", "@evil.example")
	f.Add("http://a.example:80/{runId}/{tenant}{taskId}", "#", "%2f")
	f.Add("https://[::1]/{runId}", "\\", "?")
	f.Fuzz(func(t *testing.T, template, key, tenant string) {
		a, err := parseURL(template)
		if err != nil {
			return
		}
		text, err := a.render(dlqbridge.Question{IdempotencyKey: key, TaskID: key, RunID: key, Tenant: tenant})
		if err != nil {
			return
		}
		u, err := url.Parse(text)
		if err != nil || u.Host != a.host || u.Scheme != a.scheme || u.User != nil || u.Fragment != "" {
			t.Fatalf("%q with %q and %q makes %q", template, key, tenant, text)
		}
		// The values add no segment to the path and no parameter to the query.
		plain, err := a.render(dlqbridge.Question{IdempotencyKey: "x", TaskID: "x", RunID: "x", Tenant: "x"})
		if err != nil {
			return
		}
		p, err := url.Parse(plain)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(u.EscapedPath(), "/") != strings.Count(p.EscapedPath(), "/") || strings.Count(u.RawQuery, "&") != strings.Count(p.RawQuery, "&") {
			t.Fatalf("%q with %q and %q makes %q", template, key, tenant, text)
		}
	})
}

func FuzzBody(f *testing.F) {
	f.Add(`{"k":"{idempotencyKey}"}`, `","x":"`)
	f.Add(`["{tenant}\"{taskId}"]`, `\`)
	f.Add(`[1E1000]`, "0") // more than a float64 holds
	f.Fuzz(func(t *testing.T, template, key string) {
		body, err := parseBody(template)
		if err != nil {
			return
		}
		text, err := body.render(dlqbridge.Question{IdempotencyKey: key, TaskID: key, RunID: key, Tenant: key})
		if err != nil {
			return
		}
		got, err := decode(text)
		if err != nil {
			t.Fatalf("%q with %q makes %q: %v", template, key, text, err)
		}
		// The value changes texts and nothing of the shape.
		filled, err := body.render(dlqbridge.Question{IdempotencyKey: "x", TaskID: "x", RunID: "x", Tenant: "x"})
		if err != nil {
			t.Fatal(err)
		}
		plain, err := decode(filled)
		if err != nil {
			t.Fatalf("%q: %v", filled, err)
		}
		if got, want := shape(got), shape(plain); got != want {
			t.Fatalf("%q with %q has shape %s, want %s", template, key, got, want)
		}
	})
}

// decode reads JSON with numbers as their digits, however large they are.
func decode(text string) (v any, err error) {
	if !json.Valid([]byte(text)) {
		return nil, errors.New("not JSON")
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// shape is a JSON value without its texts. Keys may hold placeholders, and two
// may then become one, so members are not counted.
func shape(v any) string {
	switch v := v.(type) {
	case map[string]any:
		return "{}"
	case []any:
		var b strings.Builder
		for _, e := range v {
			b.WriteString(shape(e) + ",")
		}
		return "[" + b.String() + "]"
	}
	return fmt.Sprintf("%T", v)
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"status":"succeeded","id":1}`), "/status")
	f.Add([]byte(`[{"a":{"a":[1e999,null,true,""]}}]`), "/0/a/a/0")
	f.Add([]byte(`{"a":1,"a":2}`), "/a")
	f.Add([]byte("{\"a\":\"\xff\"} "), "body:/a~1~0")
	f.Fuzz(func(_ *testing.T, body []byte, pointer string) {
		v, err := readJSON(body)
		if err != nil {
			return
		}
		path, err := parsePointer(pointer)
		if err != nil {
			return
		}
		found, _ := at(v, path)
		scalar(found)
		empty(found)
	})
}
