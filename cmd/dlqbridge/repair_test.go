package main_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// badInput are the facts of a task whose input somebody can correct.
var badInput = row{"cause": "invalid_input", "code": "E_SCHEMA"}

// patchFile writes a patch and returns its name.
func (b *bench) patchFile(text string) string {
	b.t.Helper()
	file := filepath.Join(b.t.TempDir(), "patch.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return file
}

// arrive makes a record of a message with this body.
func (b *bench) arrive(task, body string, facts row) string {
	b.t.Helper()
	b.send("orders", body, with(row{"v": 1, "task": task, "type": "bill"}, facts))
	b.die("orders")
	b.ok("intake", "--until-empty")
	return b.byTask()[task]
}

func (b *bench) repair(code int, id, patch string, args ...string) repairResult {
	b.t.Helper()
	return document[repairResult](b, code, append([]string{"triage", "repair", id, "--patch", b.patchFile(patch), "--reason", "corrected"}, args...)...)
}

// refusedRepair is the code of a single record's refusal.
func (b *bench) refusedRepair(id, patch string, args ...string) string {
	b.t.Helper()
	return document[refused](b, 1, append([]string{"triage", "repair", id, "--patch", b.patchFile(patch), "--reason", "corrected"}, args...)...).Error.Code
}

func (b *bench) body(id string, args ...string) string {
	b.t.Helper()
	return b.ok(append([]string{"records", "payload", id, "--raw"}, args...)...).stdout
}

func TestARepairMakesAVersionAndKeepsTheOthers(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		const original = `{"b":1.0,"id":616581622363398142,"a":"x"}`
		b.ledger("t-1", "task", intent)
		id := b.arrive("t-1", original, badInput)

		r := b.repair(0, id, `{"a":"y"}`).Records[0]
		if r.Status != "fix_validated" || r.Action != "repair" || r.Repair.Form != "merge_patch" || r.Repair.After.Version != 2 {
			t.Fatalf("%+v", r)
		}
		b.repair(0, id, `[{"op":"add","path":"/c","value":[]}]`)
		const repaired = `{"b":1.0,"id":616581622363398142,"a":"y","c":[]}`
		for args, want := range map[string]string{"": repaired, "1": original, "2": `{"b":1.0,"id":616581622363398142,"a":"y"}`, "3": repaired} {
			given := []string{}
			if args != "" {
				given = []string{"--version", args}
			}
			if got := b.body(id, given...); got != want {
				t.Errorf("version %q is %s", args, got)
			}
		}
		doc := document[struct {
			Payload struct {
				SHA256   string
				Version  int
				Versions []struct {
					Version int
					SHA256  string
					By      *string
				}
			}
		}](b, 0, "records", "show", id)
		v := doc.Payload.Versions
		if doc.Payload.Version != 3 || len(v) != 3 || v[0].By != nil || v[2].By == nil || doc.Payload.SHA256 != v[2].SHA256 || v[0].SHA256 == v[1].SHA256 {
			t.Errorf("%+v", doc)
		}
		history := document[struct {
			History []struct {
				Verb   string
				Fix    *struct{ Kind, Text string }
				Repair *struct {
					Version     int
					PatchSHA256 string
				}
			}
		}](b, 0, "records", "history", id).History
		last := history[len(history)-1]
		if last.Verb != "repair" || last.Repair == nil || last.Repair.Version != 3 || last.Fix == nil || last.Fix.Kind != "data" || last.Fix.Text != "payload version 3" {
			t.Errorf("%+v", last)
		}
		if c := b.ok("records", "history", id); !strings.Contains(c.stdout, "payload version 3: sha256 ") || strings.Contains(c.stdout, `"y"`) {
			t.Errorf("history:\n%s", c.stdout)
		}

		// What is sent is the current version, under the same key and group.
		b.ok("redrive", "run", "--cause", "invalid_input", "--record", id, "--reason", "go")
		m := b.receive("orders")
		if m == nil || aws.ToString(m.Body) != repaired || !strings.Contains(aws.ToString(m.MessageAttributes["agent.redrive"].StringValue), `"act":"repair"`) ||
			!strings.Contains(aws.ToString(m.MessageAttributes["agent.ctx"].StringValue), `"task":"t-1"`) {
			t.Fatalf("sent %+v", m)
		}
	})
}

func TestARepairIsRefusedByRecordWithItsReason(t *testing.T) {
	inBubble(t, strings.Replace(oneRoute, "stores:", "schema: order.schema.json, task_schemas: {loose: loose.json}, fields: {idempotencyKey: [\"body:/key\"]}, stores:", 1), []string{"orders"}, func(b *bench) {
		schema := func(name, text string) {
			if err := os.WriteFile(filepath.Join(filepath.Dir(b.config), name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		schema("order.schema.json", `{"properties":{"n":{"type":"integer"}}}`)
		schema("loose.json", `true`)
		var zipped bytes.Buffer
		z := gzip.NewWriter(&zipped)
		_, _ = z.Write([]byte(`{"n":1}`))
		_ = z.Close()
		const pointer = `["software.amazon.payloadoffloading.PayloadS3Pointer",{"s3BucketName":"b","s3Key":"k"}]`
		plain := b.arrive("plain", `{"n":1,"key":"k-1"}`, badInput)
		for _, tt := range []struct{ task, body, patch, code string }{
			{"text", `deadbeef`, `{"n":2}`, "not_patchable"},
			{"zipped", base64.StdEncoding.EncodeToString(zipped.Bytes()), `{"n":2}`, "not_patchable"},
			{"pointer", pointer, `[{"op":"replace","path":"/1/s3Key","value":"other"}]`, "not_patchable"},
			{"twice", `{"n":1,"n":2}`, `{"n":2}`, "not_patchable"},
			{"unclear", `{"n":1,"n":2}`, `{"m":2}`, "schema"},
			{"", plain, `[{"op":"remove","path":"/gone"}]`, "does_not_apply"},
			{"", plain, `{"n":1}`, "does_not_apply"},
			{"", plain, `{"n":"SECRET"}`, "schema"},
			{"", plain, `{"key":"k-2"}`, "task_changed"},
			{"", plain, `[{"op":"add","path":"/a","value":"` + strings.Repeat("x", 600_000) + `"},{"op":"copy","from":"/a","path":"/b"}]`, "too_large"},
			{"", plain, `{"odd":"` + "\uFFFE" + `"}`, "not_sendable"},
		} {
			id := tt.body
			if tt.task != "" {
				id = b.arrive(tt.task, tt.body, badInput)
			}
			if got := b.refusedRepair(id, tt.patch); got != tt.code {
				t.Errorf("%s %.30s: %s, want %s", tt.task, tt.patch, got, tt.code)
			}
			if c := b.run("triage", "repair", id, "--patch", b.patchFile(tt.patch), "--reason", "x"); strings.Contains(c.stderr, "SECRET") {
				t.Errorf("a value is in %s", c.stderr)
			}
		}
		if r := b.show(plain); r.Version != 1 || b.body(plain) != `{"n":1,"key":"k-1"}` {
			t.Errorf("it was written: %+v", r)
		}
		// The queue's own limit decides, and a schema of the type of task.
		b.attributes("orders", map[string]string{"MaximumMessageSize": "1024"})
		if got := b.refusedRepair(plain, `{"big":"`+strings.Repeat("x", 900)+`"}`); got != "too_large" {
			t.Error(got)
		}
		b.send("orders", `{"n":1}`, row{"v": 1, "task": "loose", "type": "loose", "cause": "invalid_input"})
		b.die("orders")
		b.ok("intake", "--until-empty")
		b.repair(0, b.byTask()["loose"], `{"n":"text"}`)

		b.triage(0, "reject", plain, "--reason", "duplicate")
		if r := document[refused](b, 1, "triage", "repair", plain, "--patch", b.patchFile(`{"n":2}`), "--reason", "x"); r.Error.Code != "move_refused" || !strings.Contains(r.Error.Message, "possible now: reopen") {
			t.Errorf("closed: %+v", r)
		}
		// A schema that cannot be read changes nothing, and says so.
		schema("loose.json", `{"type":7}`)
		if c := b.want(1, "check"); !strings.Contains(c.stdout, "loose.json cannot be used") || strings.Contains(c.stdout, "order.schema.json") {
			t.Errorf("check:\n%s", c.stdout)
		}
		if r := document[refused](b, 1, "triage", "repair", b.byTask()["loose"], "--patch", b.patchFile(`{"n":3}`), "--reason", "x"); !strings.Contains(r.Error.Message, "loose.json cannot be used") {
			t.Errorf("%+v", r)
		}
	})
}

func TestARepairIsWrongBeforeAnythingMoves(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		id := b.arrive("t-1", `{"n":1}`, badInput)
		good := b.patchFile(`{"n":2}`)
		for _, line := range []string{
			"triage repair --patch " + good + " --reason x",
			"triage repair " + id + " --cause timeout --patch " + good + " --reason x",
			"triage repair " + id + " --patch " + good,
			"triage repair " + id + " --reason x",
			"triage repair " + id + " --patch gone.json --reason x",
			"triage repair " + id + " --patch " + b.patchFile(`{"n":`) + " --reason x",
			"triage repair " + id + " --patch " + b.patchFile(`{"n":"\ud800"}`) + " --reason x",
			"triage repair " + id + " --patch " + b.patchFile(`[{"op":"swap","path":"/n"}]`) + " --reason x",
			"triage repair " + id + " --version 1 --arrival a --reason x",
			"triage repair " + id + " --version -1 --reason x",
			"triage repair --cause timeout --arrival a --reason x",
			"triage repair " + id + " --limit 3 --patch " + good + " --reason x",
			"triage repair --cause nonsense --patch " + good + " --reason x",
			"records payload " + id + " --version 7",
			"records payload " + id + " --version 1 --arrival a",
		} {
			if r := document[refused](b, 2, strings.Fields(line)...); r.Error.Code != "usage" {
				t.Errorf("%s: %+v", line, r)
			}
		}
		if v := b.show(id).Version; v != 1 {
			t.Errorf("it is at version %d", v)
		}
		// Nothing selected is done.
		if r := document[repairResult](b, 0, "triage", "repair", "--cause", "permission", "--patch", good, "--reason", "x"); len(r.Records) != 0 {
			t.Errorf("%+v", r)
		}
	})
}

func TestARepairTakesAnAuthorisationBack(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		b.ledger("t-1", "task", intent)
		id := b.arrive("t-1", `{"n":1}`, badInput)
		b.triage(0, "fix", id, "--fix", "deploy:1", "--reason", "x")
		b.triage(0, "authorize", id, "--reason", "x")
		plan := filepath.Join(t.TempDir(), "plan.json")
		if err := os.WriteFile(plan, []byte(b.ok("redrive", "plan", "--cause", "invalid_input", "-o", "json").stdout), 0o600); err != nil {
			t.Fatal(err)
		}
		b.repair(0, id, `{"n":2}`)
		b.status("fix_validated", id)
		r := document[redriveResult](b, 3, "redrive", "run", "--plan", plan, "--reason", "x")
		if r.Sent != 0 || len(r.Excluded) != 1 || r.Excluded[0].Reason != "changed" {
			t.Errorf("a plan of before: %+v", r)
		}
		if m := b.receive("orders"); m != nil {
			t.Errorf("%s was sent", aws.ToString(m.Body))
		}
	})
}

// A repaired payload is another one: it is no retry, policy sends nothing of
// it, and no declaration makes repeating it safe.
func TestAPatchedPayloadIsNoRetry(t *testing.T) {
	const idempotent = `
tables: {records: dlqbridge-records, payloads: dlqbridge-payloads, ledger: agent-ledger}
routes:
  - {name: orders, sqs: {dead_letter_queue: orders-dlq, source_queue: orders}, effects: idempotent, idempotency_window: 24h}
causes: {timeout: {auto_authorize: true}}
`
	inBubble(t, idempotent, []string{"orders"}, func(b *bench) {
		facts := row{"cause": "timeout", "code": "ETIMEDOUT", "idem": "k-1"}
		unknown := b.arrive("t-1", `{"n":1}`, facts)
		b.ledger("t-2", "task", intent)
		none := b.arrive("t-2", `{"n":1}`, facts)
		if r := b.show(unknown); r.Decision.Action != "retry" || !r.Effect.RepeatSafe {
			t.Fatalf("before: %+v", r)
		}
		if r := b.repair(0, unknown, `{"n":2}`).Records[0]; r.Action != "human_review" || r.Status != "under_investigation" {
			t.Errorf("without proof: %+v", r)
		}
		if r := b.repair(0, none, `{"n":2}`).Records[0]; r.Action != "repair" || r.Status != "fix_validated" {
			t.Errorf("with proof: %+v", r)
		}
		time.Sleep(2 * time.Hour)
		if r := document[redriveResult](b, 3, "redrive", "run", "--cause", "timeout", "--policy"); r.Sent != 0 {
			t.Errorf("policy: %+v", r)
		}
		// Undone, everything is as it was.
		if r := document[repairResult](b, 0, "triage", "repair", unknown, "--version", "1", "--reason", "wrong patch").Records[0]; r.Action != "retry" || r.Repair.After.Version != 3 {
			t.Errorf("undone: %+v", r)
		}
		if r := b.show(unknown); r.Fix != nil || !r.Effect.RepeatSafe {
			t.Errorf("undone: %+v", r)
		}
	})
}

// What comes back repaired is no conflict, a copy of the original is one, and a
// person's word ends it.
func TestARepairedLetterComesBack(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		b.ledger("t-1", "task", intent)
		id := b.arrive("t-1", `{"n":1}`, badInput)
		b.repair(0, id, `{"n":2}`)
		// A further copy of the original before the send leaves the repair in force.
		b.arrive("t-1", `{"n":1}`, badInput)
		if r := b.show(id); r.Conflict || b.body(id) != `{"n":2}` {
			t.Fatalf("after a copy: %+v", r)
		}
		b.ok("redrive", "run", "--cause", "invalid_input", "--fix", "data:n", "--reason", "go")
		b.die("orders")
		b.ok("intake", "--until-empty")
		r := b.show(id)
		if r.Conflict || len(r.Redrives) != 1 || r.Redrives[0].Outcome != "recurred" || b.body(id) != `{"n":2}` {
			t.Fatalf("after it came back: %+v", r)
		}
		b.arrive("t-1", `{"n":1}`, badInput)
		if r := b.show(id); !r.Conflict || r.Status != "under_investigation" {
			t.Fatalf("after a copy of the original: %+v", r)
		}
		if code := b.refusedRepair(id, `{"n":3}`); code != "conflict" {
			t.Errorf("without a choice: %s", code)
		}
		keys := document[struct{ Arrivals []struct{ Key string } }](b, 0, "records", "show", id).Arrivals
		if len(keys) != 4 {
			t.Fatalf("%+v", keys)
		}
		if r := document[refused](b, 1, "triage", "repair", id, "--arrival", "nonsense", "--reason", "x"); r.Error.Code != "no_such_arrival" || !strings.Contains(r.Error.Message, keys[3].Key) {
			t.Errorf("%+v", r)
		}
		chosen := document[repairResult](b, 0, "triage", "repair", id, "--arrival", keys[3].Key, "--patch", b.patchFile(`{"m":7}`), "--reason", "that one").Records[0]
		if chosen.Repair.After.Version != 3 {
			t.Errorf("%+v", chosen)
		}
		r = b.show(id)
		if r.Conflict || b.body(id) != `{"n":1,"m":7}` || b.body(id, "--version", "1") != `{"n":1}` || b.body(id, "--arrival", keys[2].Key) != `{"n":2}` {
			t.Errorf("after the choice: %+v", r)
		}
	})
}

// Differing letters from the start: either can be taken as it is. Where they
// differ in their key no payload settles it.
func TestAPersonChoosesBetweenLetters(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		b.ledger("t-1", "task", intent)
		b.arrive("t-1", `{"n":1}`, badInput)
		id := b.arrive("t-1", `{"n":2}`, badInput)
		if r := b.show(id); !r.Conflict {
			t.Fatalf("%+v", r)
		}
		keys := document[struct{ Arrivals []struct{ Key string } }](b, 0, "records", "show", id).Arrivals
		r := document[repairResult](b, 0, "triage", "repair", id, "--arrival", keys[0].Key, "--reason", "the second was a slip").Records[0]
		if r.Action != "repair" || r.Repair.After.Version != 2 || b.show(id).Conflict || b.show(id).Fix != nil {
			t.Fatalf("%+v", r)
		}
		b.ok("redrive", "run", "--cause", "invalid_input", "--fix", "data:n", "--reason", "go")
		if m := b.receive("orders"); m == nil || aws.ToString(m.Body) != `{"n":1}` {
			t.Errorf("sent %+v", m)
		}

		b.arrive("t-2", `{"n":1}`, with(badInput, row{"idem": "a"}))
		id = b.arrive("t-2", `{"n":1}`, with(badInput, row{"idem": "b"}))
		keys = document[struct{ Arrivals []struct{ Key string } }](b, 0, "records", "show", id).Arrivals
		if r := document[refused](b, 1, "triage", "repair", id, "--arrival", keys[0].Key, "--reason", "x"); r.Error.Code != "conflict" || !strings.Contains(r.Error.Message, "complete-manually") {
			t.Errorf("%+v", r)
		}
	})
}

// What a sender wrote is escaped in the difference too.
func TestADifferenceIsSafeToLookAt(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		id := b.arrive("t-1", "{\"n\":\"\u202e\x7f\"}", badInput)
		c := b.ok("triage", "repair", id, "--patch", b.patchFile(`{"n":"fine","m":"`+strings.Repeat("z", 500)+`"}`), "--dry-run")
		if strings.ContainsAny(c.stdout, "\u202e\x7f") || !strings.Contains(c.stdout, `- /n  "\u202e\x7f"`) || !strings.Contains(c.stdout, "… (502 bytes)") || !strings.Contains(c.stdout, "1 record would be repaired, 0 refused") {
			t.Errorf("%s", c.stdout)
		}
		if v := b.show(id).Version; v != 1 {
			t.Errorf("a dry run moved it to %d", v)
		}
	})
}

// A preview tells the truth also of a body with a byte order mark, of a letter
// whose body is the same and whose attributes are not, and of one that is not JSON.
func TestAPreviewSaysWhatChanges(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		preview := func(args ...string) string {
			return b.ok(append(append([]string{"triage", "repair"}, args...), "--dry-run")...).stdout
		}
		says := func(got string, want, not []string) {
			t.Helper()
			for _, text := range want {
				if !strings.Contains(got, text) {
					t.Errorf("%q is missing in\n%s", text, got)
				}
			}
			for _, text := range not {
				if strings.Contains(got, text) {
					t.Errorf("%q is in\n%s", text, got)
				}
			}
		}
		const mark = "\xEF\xBB\xBF"
		marked := b.arrive("t-1", mark+`{"n":1,"odd":"\ud800"}`, badInput)
		says(preview(marked, "--patch", b.patchFile(`{"n":2}`)), []string{"- /n  1", "+ /n  2"}, []string{"same"})
		b.repair(0, marked, `{"n":2}`)
		if got := b.body(marked); got != mark+`{"n":2,"odd":"\ud800"}` {
			t.Errorf("%q", got)
		}

		first := func(id string) string { // a letter that is not the newest, which would be sent
			keys := document[struct{ Arrivals []struct{ Key string } }](b, 0, "records", "show", id).Arrivals
			return preview(id, "--arrival", keys[0].Key)
		}
		b.arrive("t-2", `{"n":1}`, badInput)
		says(first(b.arrive("t-2", `{"n":1}`, row{"cause": "timeout"})), []string{"the same body, byte for byte", "attributes that differ: agent.ctx"}, []string{"- /"})
		b.arrive("t-3", `{"n":1}`, badInput)
		says(first(b.arrive("t-3", mark+`{ "n": 1 }`, badInput)), []string{"the same fields, in another order or spelling"}, []string{"byte for byte", "attributes that"})
		b.arrive("t-4", `deadbeef`, badInput)
		says(first(b.arrive("t-4", `{"n":1}`, badInput)), []string{`- the whole body  {"n":1}`, "+ the whole body  (not JSON;"}, []string{"same"})
	})
}

// The group of what is sent is that of the letter that was chosen, so it waits
// behind what came before it there.
func TestAChosenLetterStandsInItsOwnGroup(t *testing.T) {
	inBubble(t, strings.NewReplacer("orders-dlq", "jobs-dlq.fifo", "source_queue: orders", "source_queue: jobs.fifo").Replace(oneRoute), []string{"jobs.fifo"}, func(b *bench) {
		arrive := func(task, body, group, cause string) {
			b.ledger(task, "task", intent)
			if _, err := b.sqs.SendMessage(b.t.Context(), &sqs.SendMessageInput{
				QueueUrl: b.url("jobs.fifo"), MessageBody: &body, MessageGroupId: &group, MessageDeduplicationId: aws.String(task + body),
				MessageAttributes: contextAttribute(`{"v":1,"task":"` + task + `","type":"bill","cause":"` + cause + `"}`),
			}); err != nil {
				t.Fatal(err)
			}
			b.die("jobs.fifo")
			b.ok("intake", "--until-empty")
		}
		arrive("first", `{"n":0}`, "g1", "permission")
		arrive("task", `{"n":1}`, "g1", "invalid_input")
		arrive("task", `{"n":2}`, "g2", "invalid_input")
		id := b.byTask()["task"]
		keys := document[struct{ Arrivals []struct{ Key string } }](b, 0, "records", "show", id).Arrivals
		b.ok("triage", "repair", id, "--arrival", keys[0].Key, "--patch", b.patchFile(`{"n":3}`), "--reason", "that one")
		r := document[redriveResult](b, 3, "redrive", "run", "--cause", "invalid_input", "--reason", "go")
		if r.Sent != 0 || len(r.Excluded) != 1 || r.Excluded[0].Reason != "order_blocked" {
			t.Errorf("%+v", r)
		}
	})
}
