package enrich_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/enrich"
)

var update = flag.Bool("update", false, "write the golden files anew")

var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func text(name, value string) dlqbridge.Attribute {
	return dlqbridge.Attribute{Name: name, Type: "String", Value: []byte(value)}
}

// sqsLetter is a letter that SQS moved from its source.
func sqsLetter(body string, attributes ...dlqbridge.Attribute) dlqbridge.Letter {
	two := 2
	l := dlqbridge.Letter{
		Provider: dlqbridge.SQS, Place: arn("orders-dlq"), Source: arn("orders"), MessageID: "m-1",
		Payload:    dlqbridge.Payload{Body: []byte(body), Attributes: attributes},
		System:     map[string]string{"SenderId": "AIDA", "ApproximateReceiveCount": "2", "ApproximateFirstReceiveTimestamp": "1"},
		Deliveries: &two, SentAt: start, ReceivedAt: start.Add(time.Minute),
	}
	l.Payload.Normalize()
	return l
}

func plain(t testing.TB) *enrich.Enricher {
	t.Helper()
	return enricher(t, enrich.Route{Name: "orders", Place: arn("orders-dlq"), Source: arn("orders")})
}

// TestExtractByPrecedence holds the order of selectors, and C21, C32, C33: a byte
// order mark, big integers and depth change nothing about what is found.
func TestExtractByPrecedence(t *testing.T) {
	deep := strings.Repeat(`{"x":`, 40) + "1" + strings.Repeat("}", 40)
	for _, c := range []struct {
		name       string
		letter     dlqbridge.Letter
		field      string
		want       func(dlqbridge.Arrival) any
		value      any
		provenance string
		conflicts  int
	}{
		{
			"agent.ctx first", sqsLetter(`{"taskId":"t-body"}`, text("agent.ctx", `{"task":"t-ctx"}`), text("agent.task.id", "t-flat")),
			"taskId", taskID, "t-ctx", "attr:agent.ctx", 2,
		},
		{"then the flat attribute", sqsLetter(`{"agent":{"task":"t-agent"}}`, text("agent.task.id", "t-flat")), "taskId", taskID, "t-flat", "attr:agent.task.id", 1},
		{"then the agent object", sqsLetter(`{"agent":{"task":"t-agent"},"task_id":"t-agent"}`), "taskId", taskID, "t-agent", "body:/agent/task", 0},
		{"agent object by canonical name", sqsLetter(`{"agent":{"task.id":"t-1"}}`), "taskId", taskID, "t-1", "body:/agent/task", 0},
		{"agent object nested", sqsLetter(`{"agent":{"task":{"id":"t-1"}}}`), "taskId", taskID, "t-1", "body:/agent/task", 0},
		{"well-known attribute", sqsLetter("x", text("task_id", "t-1")), "taskId", taskID, "t-1", "attr:task_id", 0},
		{"well-known body", sqsLetter(`{"task":{"id":"t-1"}}`), "taskId", taskID, "t-1", "body:/task/id", 0},
		{"Celery", sqsLetter(`{"headers":{"id":"c-1","task":"proj.add","retries":2}}`), "taskId", taskID, "c-1", "body:/headers/id", 0},
		{"ActiveJob", sqsLetter(`{"job_id":"j-1","job_class":"Add"}`), "taskId", taskID, "j-1", "body:/job_id", 0},
		{"CloudEvent", sqsLetter(`{"specversion":"1.0","id":"e-1"}`), "taskId", taskID, "e-1", "body:/id", 0},
		{"id of anything else", sqsLetter(`{"id":"e-1"}`), "taskId", taskID, "", "", 0},
		{"empty is not found", sqsLetter(`{"taskId":" ","task_id":"t-2"}`), "taskId", taskID, "t-2", "body:/task_id", 0},
		{"C32 big integers keep their digits", sqsLetter(`{"task_id":616581622363398142}`), "taskId", taskID, "616581622363398142", "body:/task_id", 0},
		{"C32 negative", sqsLetter(`{"task_id":-6221876622438591526}`), "taskId", taskID, "-6221876622438591526", "body:/task_id", 0},
		{"C67 a number is text", sqsLetter(`{"taskType":42}`), "taskType", taskType, "42", "body:/taskType", 0},
		{"C67 empty", sqsLetter(`{"taskType":""}`), "taskType", taskType, "", "", 0},
		{"C21 byte order mark", sqsLetter("\xEF\xBB\xBF{\"task_id\":17}"), "taskId", taskID, "17", "body:/task_id", 0},
		{"C33 deep below", sqsLetter(`{"task_id":"t-1","state":` + deep + `}`), "taskId", taskID, "t-1", "body:/task_id", 0},
		{"repeated key", sqsLetter(`{"task_id":"t-1","task_id":"t-2"}`), "taskId", taskID, "t-2", "body:/task_id", 0},
		{"lone surrogate elsewhere", sqsLetter(`{"k":"\ud800","task_id":"t-1"}`), "taskId", taskID, "t-1", "body:/task_id", 0},
		{"binary attribute is no text", sqsLetter("x", dlqbridge.Attribute{Name: "taskId", Type: "Binary.x", Value: []byte("t")}), "taskId", taskID, "", "", 0},
		{"numbers are texts", sqsLetter("x", dlqbridge.Attribute{Name: "taskId", Type: "Number.int", Value: []byte("007")}), "taskId", taskID, "007", "attr:taskId", 0},
		{"objects are no text", sqsLetter(`{"taskId":{"a":1},"task_id":["x"]}`), "taskId", taskID, "", "", 0},
		{"malformed agent.ctx", sqsLetter(`{"taskId":"t-1"}`, text("agent.ctx", `{"task":`)), "taskId", taskID, "t-1", "body:/taskId", 1},
		{"agent.ctx that is a list", sqsLetter("x", text("agent.ctx", `["task"]`)), "taskId", taskID, "", "", 1},
		{"newer agent.ctx", sqsLetter("x", text("agent.ctx", `{"v":"2","task":"t-1"}`)), "taskId", taskID, "t-1", "attr:agent.ctx", 1},
		{"malformed time", sqsLetter("x", text("agent.ctx", `{"dl":"tomorrow"}`)), "deadline", deadline, "", "", 1},
		{"malformed time falls through", sqsLetter("x", text("agent.ctx", `{"dl":"tomorrow"}`), text("agent.deadline", "2026-12-01T10:00:00+02:00")), "deadline", deadline, "2026-12-01T08:00:00.000Z", "attr:agent.deadline", 1},
		{"a time beyond fixed width", sqsLetter("x", text("agent.deadline", "9999-12-31T23:59:59-10:00")), "deadline", deadline, "", "", 1},
		{"attempts", sqsLetter("x", text("agent.ctx", `{"n":3}`)), "attempts", attempts, 3, "attr:agent.ctx", 0},
		{"attempts that are none", sqsLetter("x", text("agent.ctx", `{"n":-1}`), text("agent.attempt", "many")), "attempts", attempts, 0, "", 2},
		{"unknown cause is detail", sqsLetter("x", text("agent.ctx", `{"cause":"bad_luck"}`)), "cause", cause, dlqbridge.Cause(""), "", 1},
		{"unknown effect is none", sqsLetter("x", text("agent.effect", "nothing")), "effect", effect, "", "", 1},
		{"effect", sqsLetter("x", text("agent.effect", "none_confirmed")), "effect", effect, "none_confirmed", "attr:agent.effect", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := bytes.Clone(c.letter.Payload.Body)
			a := plain(t).Extract(c.letter)
			if got := c.want(a); got != c.value {
				t.Errorf("%s: got %v, want %v", c.field, got, c.value)
			}
			if got := a.Provenance[c.field]; got != c.provenance {
				t.Errorf("provenance: got %q, want %q", got, c.provenance)
			}
			if len(a.Conflicts) != c.conflicts {
				t.Errorf("conflicts: got %+v, want %d", a.Conflicts, c.conflicts)
			}
			if !bytes.Equal(before, c.letter.Payload.Body) {
				t.Error("the body was changed")
			}
		})
	}
}

func taskID(a dlqbridge.Arrival) any   { return a.Task.TaskID }
func taskType(a dlqbridge.Arrival) any { return a.Task.TaskType }
func deadline(a dlqbridge.Arrival) any { return dlqbridge.FormatTime(a.Task.Deadline) }
func cause(a dlqbridge.Arrival) any    { return a.Failure.Cause }
func effect(a dlqbridge.Arrival) any   { return a.Effect }
func attempts(a dlqbridge.Arrival) any {
	if a.Task.Attempts == nil {
		return 0
	}
	return *a.Task.Attempts
}

func TestProviderNamesAreNoBusinessKeys(t *testing.T) {
	l := sqsLetter(`{"x":1}`)
	l.System["MessageDeduplicationId"], l.System["MessageId"] = "dedup", "m-1"
	a := plain(t).Extract(l)
	if a.Task.IdempotencyKey != "" || a.Task.Attempts != nil {
		t.Errorf("key %q, attempts %v: want none", a.Task.IdempotencyKey, a.Task.Attempts)
	}
}

func TestGroupOfAStandardQueueIsTheTenant(t *testing.T) {
	l := sqsLetter("x")
	l.Payload.GroupKey = "tenant-17"
	if got := plain(t).Extract(l).Task.Tenant; got != "tenant-17" {
		t.Errorf("tenant: got %q", got)
	}
	l.Place, l.Source = arn("orders-dlq.fifo"), arn("orders.fifo")
	if got := plain(t).Extract(l).Task.Tenant; got != "" {
		t.Errorf("FIFO: got tenant %q, want none: the group is an order", got)
	}
}

func TestOwnSelectorsGoFirst(t *testing.T) {
	e := enricher(t, enrich.Route{Name: "orders", Place: arn("orders-dlq"), Fields: map[string][]string{
		"taskId": {"body:/order~1id", "sys:SenderId"}, "tenant": {"attr:customer"},
	}})
	a := e.Extract(sqsLetter(`{"order/id":"o-1","taskId":"t-1"}`, text("customer", "acme")))
	if a.Task.TaskID != "o-1" || a.Task.Tenant != "acme" || a.Provenance["taskId"] != "body:/order~1id" {
		t.Errorf("got %+v, %v", a.Task, a.Provenance)
	}
	want := []dlqbridge.FieldConflict{{Field: "taskId", Selector: "sys:SenderId", Value: "AIDA"}, {Field: "taskId", Selector: "body:/taskId", Value: "t-1"}}
	if diff := gocmp.Diff(want, a.Conflicts); diff != "" {
		t.Error(diff)
	}
}

func TestNewRefusesWhatItCannotDo(t *testing.T) {
	base := enrich.Route{Name: "orders", Place: "p"}
	for name, c := range map[string]struct {
		change func(*enrich.Route)
		want   string
	}{
		"no name":       {func(r *enrich.Route) { r.Name = "" }, "name"},
		"no place":      {func(r *enrich.Route) { r.Place = "" }, "place"},
		"effects":       {func(r *enrich.Route) { r.Effects = "maybe" }, "effects"},
		"no window":     {func(r *enrich.Route) { r.Effects = dlqbridge.EffectsIdempotent }, "idempotency_window"},
		"jmespath":      {func(r *enrich.Route) { r.Fields = map[string][]string{"taskId": {"jmespath:a.b"}} }, "not available"},
		"unknown form":  {func(r *enrich.Route) { r.Fields = map[string][]string{"taskId": {"xpath:/a"}} }, "xpath"},
		"unknown field": {func(r *enrich.Route) { r.Fields = map[string][]string{"taskID": {"attr:a"}} }, "taskID"},
		"bad pointer":   {func(r *enrich.Route) { r.Fields = map[string][]string{"taskId": {"body:a"}} }, "pointer"},
	} {
		t.Run(name, func(t *testing.T) {
			r := base
			c.change(&r)
			if _, err := enrich.New(r); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestIDsThatDifferStayDifferent(t *testing.T) {
	long := strings.Repeat("x", 5000)
	pairs := [][2]string{{long + "1", long + "2"}, {"t\xff", "t\xfe"}}
	for _, p := range pairs {
		a := plain(t).Extract(sqsLetter("x", text("taskId", p[0]))).Task.TaskID
		b := plain(t).Extract(sqsLetter("x", text("taskId", p[1]))).Task.TaskID
		if a == b || len(a) > 1024 || !utf8.ValidString(a) {
			t.Errorf("%.20q and %.20q became %.40q and %.40q", p[0], p[1], a, b)
		}
	}
	a := plain(t).Extract(sqsLetter(`{"taskId":"t\ud800"}`)).Task.TaskID
	b := plain(t).Extract(sqsLetter(`{"taskId":"t\ud801"}`)).Task.TaskID
	if a == b {
		t.Errorf("lone surrogates both became %q", a)
	}
}

// C34: hostile depth is opaque, and neither slow nor deep for us.
func TestC34HostileDepth(t *testing.T) {
	const levels = 1_000_000
	for _, body := range []string{
		strings.Repeat("[", levels) + strings.Repeat("]", levels),
		strings.Repeat(`{"a":`, levels) + "1" + strings.Repeat("}", levels),
	} {
		a := plain(t).Extract(sqsLetter(body, text("agent.ctx", `{"task":"t-1"}`)))
		if a.Task.TaskID != "t-1" || len(a.Conflicts) != 0 {
			t.Errorf("got %+v", a.Task)
		}
	}
	e := enricher(t, enrich.Route{Name: "o", Place: "p", Fields: map[string][]string{"taskId": {"body:" + strings.Repeat("/a", 32)}}})
	e.Extract(sqsLetter(strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9000)))
}

// C20: texts are cut on a character border and say so.
func TestC20ErrorTextIsCutOnABorder(t *testing.T) {
	for _, tail := range []string{"😀", "€", "x€", "xx€", "🇪🇺"} {
		for n := 1015; n < 1030; n++ {
			got := plain(t).Extract(sqsLetter("x", text("ErrorMessage", strings.Repeat("a", n)+tail+"end"))).Failure.Message
			if !utf8.ValidString(got) || len(got) > 1024 {
				t.Fatalf("%d letters and %q: %d bytes, valid %v", n, tail, len(got), utf8.ValidString(got))
			}
			if cut := n+len(tail)+3 > 1024; cut != strings.HasSuffix(got, "…") {
				t.Errorf("%d letters and %q: cut %v, text ends %q", n, tail, cut, got[len(got)-6:])
			}
		}
	}
}

func TestMarkIsReadStrictly(t *testing.T) {
	id := dlqbridge.RecordID(dlqbridge.IdentityTask, "s", "", "t", 0)
	good := `{"rec":"` + id + `","job":"j_1","n":2,"act":"retry","idem":"k"}`
	for value, want := range map[string]bool{
		good: true,
		strings.Replace(good, `"n":2`, `"n":0`, 1):               false,
		strings.Replace(good, `"n":2`, `"n":2.5`, 1):             false,
		strings.Replace(good, id, "r_x", 1):                      false,
		strings.Replace(good, id, "R#"+id[2:], 1):                false,
		strings.Replace(good, "retry", "human_review", 1):        false,
		strings.Replace(good, "j_1", strings.Repeat("j", 65), 1): false,
		`{"rec":"` + id + `"}`:                                   false,
		`[]`:                                                     false, ``: false, "\xff": false, strings.Repeat(" ", 5000) + good: false,
	} {
		a := plain(t).Extract(sqsLetter("x", text(dlqbridge.MarkName, value)))
		if (a.Mark != nil) != want || (len(a.Conflicts) == 0) != want {
			t.Errorf("%.60q: mark %v, conflicts %v, want good %v", value, a.Mark, a.Conflicts, want)
		}
	}
}

func TestTheSameLetterGivesTheSameArrival(t *testing.T) {
	first := sqsLetter(`{"taskId":"t-1"}`, text("agent.ctx", `{"tenant":"a"}`))
	again := sqsLetter(`{"taskId":"t-1"}`, text("agent.ctx", `{"tenant":"a"}`))
	again.System["ApproximateReceiveCount"], again.Deliveries = "3", new(3)
	again.Receipt, again.ReceivedAt = "other", start.Add(time.Hour)
	a, b := plain(t).Extract(first), plain(t).Extract(again)
	if diff := gocmp.Diff(a, b); diff != "" {
		t.Error(diff)
	}
}

// TestGoldenLetters reads whole letters of the frameworks that people use, in
// their real shapes. C23: own schema and forged envelopes; C24: Celery; C25:
// Lambda; C26: SNS, raw and wrapped; C27: S3; C28: arguments that are no JSON;
// C30: Temporal payloads, encrypted too; C31: CloudEvents; C35: pointers.
func TestGoldenLetters(t *testing.T) {
	files, err := filepath.Glob("testdata/letters/*.in.json")
	must(t, err)
	if len(files) == 0 {
		t.Fatal("no letters")
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".in.json"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			must(t, err)
			var in struct {
				Body       string
				Attributes map[string]string
				Types      map[string]string // of attributes that are no String
				Provider   dlqbridge.Provider
				Topics     []string // that the route names
				Sent       bool     // not moved by the broker
			}
			must(t, json.Unmarshal(raw, &in))
			l := sqsLetter(in.Body)
			for name, value := range in.Attributes {
				a := text(name, value)
				a.Type = cmp.Or(in.Types[name], a.Type)
				l.Payload.Attributes = append(l.Payload.Attributes, a)
			}
			l.Provider = cmp.Or(in.Provider, l.Provider)
			l.Payload.Normalize()
			before := l.Payload.Encode()
			if in.Sent {
				l.Source = ""
			}
			e := enricher(t, enrich.Route{Name: "orders", Place: arn("orders-dlq"), Topics: in.Topics})
			a := e.Extract(l)
			if !bytes.Equal(before, l.Payload.Encode()) {
				t.Error("the letter was changed")
			}
			j := e.Judge(t.Context(), start, []enrich.Subject{{Arrival: &a}})[0]
			got, err := json.MarshalIndent(map[string]any{
				"task": a.Task, "failure": j.Context.Failure, "effect": a.Effect, "checkpoint": a.Checkpoint, "trace": a.TraceRef, "envelopes": a.Envelopes, "facts": a.Facts,
				"provenance": a.Provenance, "conflicts": a.Conflicts, "findings": j.Context.Findings,
				"restriction": j.Context.Restriction,
			}, "", "  ")
			must(t, err)
			golden := strings.TrimSuffix(file, ".in.json") + ".golden.json"
			if *update {
				must(t, os.WriteFile(golden, append(got, '\n'), 0o644))
			}
			want, err := os.ReadFile(golden)
			must(t, err)
			if diff := gocmp.Diff(string(want), string(got)+"\n"); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzExtract(f *testing.F) {
	f.Add([]byte(`{"taskId":"t","agent":{"task":{"id":"x"}}}`), `{"v":"1","task":"t","dl":"2026-01-01T00:00:00Z"}`, "t-1", []byte(`{"rec":"r_x"}`))
	f.Add([]byte("\xEF\xBB\xBF[1,{\"a\":2}]"), `{"n":1e400}`, "\xff", []byte("{"))
	f.Add([]byte(`{"headers":{"id":"\ud800"},"specversion":1,"id":-0}`), "null", "", []byte(`{"rec":1}`))
	e, err := enrich.New(enrich.Route{Name: "r", Place: "p", Fields: map[string][]string{"tenant": {"body:/a/0/b"}}})
	must(f, err)
	f.Fuzz(func(t *testing.T, body []byte, ctx, id string, mark []byte) {
		l := sqsLetter(string(body), text("agent.ctx", ctx), text("taskId", id), dlqbridge.Attribute{Name: dlqbridge.MarkName, Type: "String", Value: mark})
		before := bytes.Clone(l.Payload.Encode())
		a := e.Extract(l)
		if !bytes.Equal(before, l.Payload.Encode()) {
			t.Fatal("the payload was changed")
		}
		j := e.Judge(t.Context(), start, []enrich.Subject{{Arrival: &a}})[0]
		for _, v := range []any{a, j.Context} {
			out, err := json.Marshal(v)
			if err != nil || !utf8.Valid(out) || len(out) > 100_000 {
				t.Fatalf("%d bytes, %v", len(out), err)
			}
		}
		back := dlqbridge.Arrival{}
		out, _ := json.Marshal(a)
		if err := json.Unmarshal(out, &back); err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(a, back); diff != "" {
			t.Fatalf("an arrival does not come back as it was: %s", diff)
		}
	})
}

// C14: the provider's trace header goes back as it came, whatever trace the
// message names itself.
func TestC14TraceHeaderStaysAsItCame(t *testing.T) {
	const header = "Root=1-67f8c0a1-0123456789abcdef01234567;Parent=0123456789abcdef;Sampled=1"
	l := sqsLetter("x", text("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"))
	l.TraceHeader, l.System["AWSTraceHeader"] = header, header
	if a := plain(t).Extract(l); a.Trace != header || !strings.HasPrefix(a.TraceRef, "00-4bf9") {
		t.Errorf("header %q, names %q", a.Trace, a.TraceRef)
	}
}

// The trace is read in the order of how much a tracer commits itself.
func TestTraceOrder(t *testing.T) {
	attributes := []dlqbridge.Attribute{
		text("traceparent", "00-11111111111111111111111111111111-0000000000000001-01"),
		text("googclient_traceparent", "00-22222222222222222222222222222222-0000000000000001-01"),
		text("_datadog", `{"x-datadog-trace-id":"3"}`),
	}
	want := []string{strings.Repeat("1", 32), strings.Repeat("2", 32), "3", "1-44444444-444444444444444444444444", strings.Repeat("5", 32)}
	for i := range want {
		l := sqsLetter(`{"trace":"00-55555555555555555555555555555555-0000000000000001-01"}`, slices.Clone(attributes[min(i, len(attributes)):])...)
		if i < 4 {
			l.System["AWSTraceHeader"] = "Root=1-44444444-444444444444444444444444;Sampled=1"
		}
		e := plain(t)
		a := e.Extract(l)
		if got := e.Judge(t.Context(), start, []enrich.Subject{{Arrival: &a}})[0].Context.TraceID; got != want[i] {
			t.Errorf("%d: got %q, want %q", i, got, want[i])
		}
	}
}

// A route's expressions look into the payload, whatever is around it, and one
// that panics finds nothing.
func TestExpressionsAreSelectors(t *testing.T) {
	route := enrich.Route{Name: "orders", Place: arn("orders-dlq"), Fields: map[string][]string{"taskId": {"jmespath:order.id"}, "tenant": {"jmespath:panic"}}}
	route.JMESPath = func(expression string) (func([]byte) (string, bool), error) {
		if expression == "panic" {
			return func([]byte) (string, bool) { panic("no") }, nil
		}
		return func(body []byte) (string, bool) { return "found", bytes.Contains(body, []byte(`"order"`)) }, nil
	}
	a := enricher(t, route).Extract(sqsLetter(`{"detail-type":"x","detail":{"order":{"id":7}}}`))
	if a.Task.TaskID != "found" || a.Provenance["taskId"] != "eventbridge>jmespath:order.id" || a.Task.Tenant != "" {
		t.Errorf("got %+v by %v", a.Task, a.Provenance)
	}
	route.JMESPath = func(string) (func([]byte) (string, bool), error) {
		return nil, errors.New("column 3: a name is missing")
	}
	if _, err := enrich.New(route); err == nil || !strings.Contains(err.Error(), "column 3") || !strings.Contains(err.Error(), "jmespath:") {
		t.Errorf("got %v", err)
	}
}
