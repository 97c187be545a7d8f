package main_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/dlqbridge/dlqbridge/localstack"
)

type pageDoc struct {
	Records []struct {
		ID, Status, Route, Cause, Lane, Effect, Action string
		Owner, TaskID, Tenant, Signature, Deadline     *string
		FirstSeen, LastSeen                            *string
		Recurrences                                    *int
	}
	Next *string
}

func TestListFiltersOrdersAndPages(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		now := time.Now()
		b.tasks(intent, nil, "a", "b", "c")
		b.tasks(intent, row{"dl": now.Add(30 * time.Minute).Format(time.RFC3339), "tenant": "acme"}, "due-soon")
		b.tasks(nil, row{"dl": now.Add(5 * time.Hour).Format(time.RFC3339), "cause": "permission"}, "due-later")

		all := document[pageDoc](b, 0, "records", "list")
		if len(all.Records) != 5 || all.Next != nil {
			t.Fatalf("got %d records, next %v", len(all.Records), all.Next)
		}
		if *all.Records[0].TaskID != "due-soon" || *all.Records[1].TaskID != "due-later" {
			t.Errorf("most urgent first: got %v, %v", *all.Records[0].TaskID, *all.Records[1].TaskID)
		}
		for _, r := range all.Records {
			if r.Route == "" || r.Lane == "" || r.Effect == "" || r.Action == "" || r.FirstSeen == nil || r.LastSeen == nil || r.Signature == nil || r.Recurrences == nil {
				t.Errorf("an item lacks a promised field: %+v", r)
			}
		}

		var paged []string
		args := []string{"records", "list", "--limit", "2"}
		for range 5 {
			p := document[pageDoc](b, 0, args...)
			for _, r := range p.Records {
				paged = append(paged, r.ID)
			}
			if p.Next == nil {
				break
			}
			args = []string{"records", "list", "--limit", "2", "--after", *p.Next}
		}
		var whole []string
		for _, r := range all.Records {
			whole = append(whole, r.ID)
		}
		if fmt.Sprint(paged) != fmt.Sprint(whole) {
			t.Errorf("pages %v\nwhole %v", paged, whole)
		}

		for filter, want := range map[string]int{
			"--cause permission": 1, "--cause permission,timeout": 5, "--status under_investigation": 1, "--status classified": 4, "--lane technical_dependency": 5,
			"--tenant acme": 1, "--tenant nobody": 0, "--effect unknown": 1, "--effect none_confirmed": 4, "--near-deadline 1h": 1, "--near-deadline 6h": 2,
			"--route orders": 5, "--overdue": 0, "--task-type bill": 5, "--owner nobody": 0, "--limit 0": 5, "--limit 3": 3,
		} {
			got := document[pageDoc](b, 0, append([]string{"records", "list"}, strings.Fields(filter)...)...)
			if len(got.Records) != want {
				t.Errorf("%s: %d records, want %d", filter, len(got.Records), want)
			}
		}
		id := all.Records[4].ID
		b.triage(0, "reject", id, "--reason", "x")
		for filter, want := range map[string]int{"": 4, "--all": 5, "--status rejected": 1} {
			got := document[pageDoc](b, 0, append([]string{"records", "list"}, strings.Fields(filter)...)...)
			if len(got.Records) != want {
				t.Errorf("with a closed one, %q: %d records, want %d", filter, len(got.Records), want)
			}
		}
		time.Sleep(25 * time.Hour) // virtual: past the triage deadline
		if got := document[pageDoc](b, 0, "records", "list", "--overdue"); len(got.Records) != 4 {
			t.Errorf("overdue: %d", len(got.Records))
		}
	})
}

// Whether --after is a position is seen when the list is read, not by reading it
// once for that alone.
func TestALaterPageCostsWhatTheFirstDoes(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		b.tasks(intent, nil, "t-1", "t-2", "t-3")
		var calls atomic.Int32
		b.network = func(next aws.HTTPClient) aws.HTTPClient {
			return beforeEach{next, "", func() { calls.Add(1) }}
		}
		cost := func(code int, args ...string) (int32, call) {
			calls.Store(0)
			c := b.want(code, append([]string{"records", "list", "--limit", "1"}, args...)...)
			return calls.Load(), c
		}
		for _, all := range [][]string{nil, {"--all"}} {
			first := document[struct{ Next string }](b, 0, append([]string{"records", "list", "--limit", "1"}, all...)...)
			for _, form := range []string{"text", "json"} {
				args := append(slices.Clone(all), "-o", form)
				page, _ := cost(0, args...)
				if next, c := cost(0, append(args, "--after", first.Next)...); page == 0 || next != page || !strings.Contains(c.stdout, "r_") {
					t.Errorf("%v: %d calls for the first page and %d for the next\n%s", args, page, next, c.stdout)
				}
				if _, c := cost(2, append(args, "--after", "zzz")...); strings.Contains(c.stdout, `"records":`) || !strings.Contains(c.stdout+c.stderr, "give next of an earlier list") {
					t.Errorf("%v: %s%s", args, c.stdout, c.stderr)
				}
			}
		}
	})
}

func TestListThatBreaksOffIsStillOneDocument(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		b.tasks(intent, nil, "a", "b")
		if _, err := b.cloud.AddFault(localstack.Fault{Service: "dynamodb", Operation: "Query", Times: -1, Do: "error", Code: "AccessDeniedException", Status: 400}); err != nil {
			t.Fatal(err)
		}
		r := document[refused](b, 1, "records", "list")
		if r.Error.Code != "denied" || !strings.Contains(r.Error.Message, "dynamodb:Query") {
			t.Errorf("the right that is missing is not named: %+v", r)
		}
	})
}

// Whoever may not ask for a route's source cannot say that a record comes from
// another one: the right is named, and nothing is selected or left out for it.
func TestRedriveWithoutTheRightToAskTheSource(t *testing.T) {
	for operation, code := range map[string]string{"GetQueueAttributes": "AccessDenied", "GetQueueUrl": "AccessDeniedException"} {
		inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
			b.tasks(intent, nil, "a", "b")
			if _, err := b.cloud.AddFault(localstack.Fault{Service: "sqs", Operation: operation, Times: -1, Do: "error", Code: code, Status: 403}); err != nil {
				t.Fatal(err)
			}
			for _, command := range [][]string{{"plan"}, {"run", "--fix", "deploy:1", "--reason", "x"}} {
				args := append([]string{"redrive"}, command...)
				r := document[refused](b, 1, append(args, "--cause", "ambiguous_effect")...)
				if r.Error.Code != "denied" || !strings.Contains(r.Error.Hint, "sqs:"+operation) {
					t.Errorf("%v without %s: %+v", command, operation, r)
				}
			}
		})
	}
}

func TestGroupsCountWhatDiffersInRisk(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		b.tasks(intent, nil, "a", "b")
		b.tasks(nil, nil, "c")
		got := document[struct {
			Groups []struct {
				Signature, Cause, Example string
				Count                     int
				Effects                   map[string]int
			}
		}](b, 0, "records", "groups")
		if len(got.Groups) != 1 || got.Groups[0].Count != 3 || got.Groups[0].Effects["unknown"] != 1 || got.Groups[0].Effects["none_confirmed"] != 2 {
			t.Errorf("got %+v", got)
		}
	})
}

func TestPayloadIsExact(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		body := "\t{\"a\" : 1.0}\r\n\u202eé"
		blob := []byte{0, 0x9b, 0xff}
		if _, err := b.sqs.SendMessage(b.t.Context(), &sqs.SendMessageInput{QueueUrl: b.url("orders"), MessageBody: &body, MessageAttributes: map[string]types.MessageAttributeValue{
			"agent.task.id": {DataType: aws.String("String"), StringValue: aws.String("t-1")},
			"blob":          {DataType: aws.String("Binary.protobuf"), BinaryValue: blob},
			"n":             {DataType: aws.String("Number.int"), StringValue: aws.String("007.50")},
		}}); err != nil {
			t.Fatal(err)
		}
		b.die("orders")
		b.ok("intake", "--until-empty")
		id := b.byTask()["t-1"]
		if got := b.ok("records", "payload", id, "--raw").stdout; got != body {
			t.Errorf("raw: got %q", got)
		}
		d := document[struct {
			Body       string
			Attributes []struct{ Name, Type, Value string }
		}](b, 0, "records", "payload", id)
		if got, _ := base64.StdEncoding.DecodeString(d.Body); string(got) != body {
			t.Errorf("json: got %q", got)
		}
		for _, a := range d.Attributes {
			v, _ := base64.StdEncoding.DecodeString(a.Value)
			if a.Name == "blob" && (a.Type != "Binary.protobuf" || string(v) != string(blob)) || a.Name == "n" && (a.Type != "Number.int" || string(v) != "007.50") {
				t.Errorf("attribute %+v", a)
			}
		}
		harmless(t, "payload", b.ok("records", "payload", id).stdout)
		b.want(2, "records", "payload", id, "--raw", "-o", "json")
		b.want(2, "records", "payload", id, "--arrival", "nope")
	})
}

// harmless: nothing in it drives a terminal (C77).
func harmless(t *testing.T, name, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("%s: no UTF-8", name)
	}
	for _, r := range text {
		if r < 0x20 && r != '\n' || r >= 0x7f && r <= 0x9f || r >= 0x200e && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			t.Errorf("%s: %U in %q", name, r, text)
			return
		}
	}
}

// C77: message text does not drive the operator's terminal.
func TestC77MessageTextStaysText(t *testing.T) {
	escape := "\x1b[2J\x1b[1;1H OK 20 redriven"
	title := "x\x1b]0;evil\a\nlevel=info msg=done"
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		// SQS itself refuses most control characters, but JSON carries them all.
		b.send("orders", `{"customer":"\u001b[2J"}`, row{
			"v": 1, "task": "t\u202egnp.exe", "type": escape, "tenant": "a\u009b2Jb", "cause": "timeout", "code": title, "msg": title, "step": escape, "tool": title, "dep": escape, "run": title,
		})
		b.die("orders")
		b.ok("--log-level", "debug", "intake", "--until-empty")
		var id string
		for _, v := range b.byTask() {
			id = v
		}
		b.triage(0, "assign", id, "--owner", escape, "--reason", title)
		golden := strings.Builder{}
		for _, args := range [][]string{
			{"records", "list"},
			{"records", "show", id},
			{"records", "explain", id},
			{"records", "history", id},
			{"records", "groups"},
			{"records", "payload", id},
			{"redrive", "plan", "--cause", "timeout"},
			{"triage", "assign", id, "--owner", escape, "--reason", escape},
		} {
			c := b.run(args...)
			harmless(t, strings.Join(args, " "), c.stdout+c.stderr)
			fmt.Fprintf(&golden, "$ dlqbridge %s\n%s", strings.Join(args[:2], " "), neutral(c.stdout))
			j := b.run(append(args, "-o", "json")...)
			harmless(t, strings.Join(args, " ")+" -o json", j.stdout)
			if !json.Valid([]byte(j.stdout)) {
				t.Errorf("%v -o json: no JSON: %s", args, j.stdout)
			}
		}
		compareGolden(t, "escaped.golden", golden.String())
		d := document[struct {
			Task    struct{ TaskID, TaskType, Tenant string }
			Failure struct{ Step string }
		}](b, 0, "records", "show", id)
		if d.Task.TaskID != "t\u202egnp.exe" || d.Task.Tenant != "a\u009b2Jb" {
			t.Errorf("JSON holds another value: %+q", d)
		}
		// Errors name what a person typed; that is escaped too.
		c := b.run("records", "list", "--cause", escape)
		harmless(t, "error", c.stderr)
	})
}

var (
	anyRecord = regexp.MustCompile(`r_[a-z2-7]{26}`)
	anyID     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	anyHash   = regexp.MustCompile(`\b[0-9a-f]{64}\b`)
	anyAge    = regexp.MustCompile(`  \d+s\b`) // in a column: how long the two pollers wait for nothing is their own affair
	anyTime   = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`)
)

// neutral takes out what differs from run to run.
func neutral(text string) string {
	text = anyRecord.ReplaceAllString(text, "r_00000000000000000000000000")
	text = anyID.ReplaceAllString(text, "00000000-0000-0000-0000-000000000000")
	text = anyHash.ReplaceAllString(text, "HASH")
	text = anyAge.ReplaceAllString(text, "  2s")
	return anyTime.ReplaceAllString(text, "2000-01-01T00:00:00.000Z")
}

// compareGolden holds a text against a file; DLQBRIDGE_UPDATE=1 writes it anew.
func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("DLQBRIDGE_UPDATE") != "" {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("%s differs (DLQBRIDGE_UPDATE=1 writes it anew):\n%s", path, got)
	}
}
