package tablestore_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/tablestore"
	"github.com/dlqbridge/dlqbridge/localstack"
	"github.com/dlqbridge/dlqbridge/localstack/tabletest"
)

const (
	tableName = "attempts"
	step      = "STEP#0003#charge"
)

var (
	now     = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	changed = now.Add(-time.Minute)
)

type item = tabletest.Item

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func value(v any) types.AttributeValue {
	switch v := v.(type) {
	case string:
		return str(v)
	case float64:
		return &types.AttributeValueMemberN{Value: fmt.Sprintf("%.0f", v)}
	case map[string]any:
		m := item{}
		for name, e := range v {
			m[name] = value(e)
		}
		return &types.AttributeValueMemberM{Value: m}
	}
	return &types.AttributeValueMemberNULL{Value: true}
}

// fixture is a row of testdata/rows.json.
func fixture(t *testing.T, name string) item {
	t.Helper()
	text, err := os.ReadFile("testdata/rows.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	if all[name] == nil {
		t.Fatalf("no fixture %s", name)
	}
	return value(all[name]).(*types.AttributeValueMemberM).Value
}

type world struct {
	cloud  *localstack.Cloud
	client *dynamodb.Client
}

func newWorld(t *testing.T, rows ...item) world {
	t.Helper()
	cloud, client := tabletest.New(t, tableName, "pk", "sk", rows...)
	return world{cloud, client}
}

// options declare the table of testdata: rows name their step by the range key.
func (w world) options(change ...func(*tablestore.Options)) tablestore.Options {
	o := tablestore.Options{
		Client: w.client, Name: "attempts", Table: tableName,
		Hash:  tablestore.Key{Attribute: "pk", Value: "T#{tenant}#{taskId}"},
		Range: tablestore.Key{Attribute: "sk", Value: "STEP#*"},
		Fields: tablestore.Fields{
			Status: "attr:state", Receipt: "item:/result/charge/id", Step: "attr:sk", Run: "attr:run",
			Started: "attr:begun_at", Updated: "attr:changed_at",
			Code: "jmespath:error.code", Message: "jmespath:error.text", Tool: "attr:tool",
		},
		Confirmed: []string{"DONE"}, ConfirmedNeedsReceipt: true, Running: []string{"BUSY"},
	}
	for _, c := range change {
		c(&o)
	}
	return o
}

func notStarted(o *tablestore.Options) {
	o.None = tablestore.None{Status: []string{"SKIPPED"}, Because: "written before the call is decided", Proof: dlqbridge.ProofNotStarted}
}

func looked(o *tablestore.Options) {
	o.None = tablestore.None{
		Status: []string{"SKIPPED"}, Because: "the nightly audit asks the bank", Proof: dlqbridge.ProofSystemRead, Settled: 10 * time.Second,
	}
}

func wholeTask(o *tablestore.Options) { o.Fields.Step, o.Fields.Run = "", "" }

var question = dlqbridge.Question{TaskID: "t-7", Tenant: "acme", Now: now, LastActivity: changed.Add(-time.Minute)}

func ask(t *testing.T, o tablestore.Options, q dlqbridge.Question) dlqbridge.Testimony {
	t.Helper()
	s, err := tablestore.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s.Ask(t.Context(), []dlqbridge.Question{q})[0]
}

func fold(t dlqbridge.Testimony) dlqbridge.Effect {
	return dlqbridge.Fold(dlqbridge.FoldInput{Findings: t.Findings, Running: t.RunningUntil.After(now)}).State
}

// Everything that a row can prove under a declaration, and how it folds.
func TestWhatRowsProve(t *testing.T) {
	receipt := "ch_1"
	found := func(state dlqbridge.Effect, proof dlqbridge.Proof, asOf time.Time, receipt *string, detail string) dlqbridge.Finding {
		return dlqbridge.Finding{Store: "attempts", Step: step, Run: "r-1", State: state, Proof: proof, AsOf: asOf, Receipt: receipt, Detail: detail}
	}
	whole := func(f dlqbridge.Finding) dlqbridge.Finding { f.Step, f.Run = "*", ""; return f }
	others := whole(found("unknown", "nothing_found", now, nil, "the table knows the steps that have a row only"))
	both := func(changes ...func(*tablestore.Options)) func(*tablestore.Options) {
		return func(o *tablestore.Options) {
			for _, c := range changes {
				c(o)
			}
		}
	}
	for _, tc := range []struct {
		name   string
		row    string
		change func(*tablestore.Options)
		ask    func(*dlqbridge.Question)
		want   dlqbridge.Testimony
		effect dlqbridge.Effect
	}{
		{"confirmed", "done", nil, nil, dlqbridge.Testimony{
			Findings:     []dlqbridge.Finding{found("confirmed", "receipt", changed, &receipt, "status DONE"), others},
			FirstAttempt: now.Add(-2 * time.Minute),
		}, "unknown"}, // other steps have no row
		{"confirmed, for the whole task", "done", wholeTask, nil, dlqbridge.Testimony{
			Findings:     []dlqbridge.Finding{whole(found("confirmed", "receipt", changed, &receipt, "status DONE"))},
			FirstAttempt: now.Add(-2 * time.Minute),
		}, "confirmed"},
		{"confirmed without a receipt where none is needed", "done_bare", both(wholeTask, func(o *tablestore.Options) { o.ConfirmedNeedsReceipt = false }), nil, dlqbridge.Testimony{
			Findings: []dlqbridge.Finding{whole(found("confirmed", "receipt", changed, nil, "status DONE"))},
		}, "confirmed"},
		{"done, no receipt", "done_bare", wholeTask, nil, dlqbridge.Testimony{
			Findings: []dlqbridge.Finding{whole(found("unknown", "system_read", changed, nil, "status DONE, no receipt"))},
		}, "unknown"},
		{"running", "busy", wholeTask, nil, dlqbridge.Testimony{
			Findings:     []dlqbridge.Finding{whole(found("unknown", "system_read", changed, nil, "status BUSY"))},
			RunningUntil: changed.Add(tablestore.DefaultMaxRun),
		}, "unknown"},
		{"a negative that nobody declared", "skipped", wholeTask, nil, dlqbridge.Testimony{
			Findings: []dlqbridge.Finding{whole(found("unknown", "system_read", changed, nil, "status SKIPPED, which is declared to prove nothing"))},
		}, "unknown"},
		{"not started, declared", "skipped", both(wholeTask, notStarted), nil, dlqbridge.Testimony{
			Findings: []dlqbridge.Finding{whole(found("none_confirmed", "not_started", now, nil, "status SKIPPED; written before the call is decided"))},
		}, "none_confirmed"},
		{"not started, for one step", "skipped", notStarted, nil, dlqbridge.Testimony{
			Findings: []dlqbridge.Finding{found("none_confirmed", "not_started", now, nil, "status SKIPPED; written before the call is decided"), others},
		}, "unknown"},
		{"not started, with a receipt", "skipped_odd", both(wholeTask, notStarted), nil, dlqbridge.Testimony{
			Findings: []dlqbridge.Finding{whole(found("unknown", "system_read", changed, nil, "status SKIPPED, and a receipt: ch_1"))},
		}, "unknown"},
		{"looked at, declared", "skipped", both(wholeTask, looked), nil, dlqbridge.Testimony{
			Findings: []dlqbridge.Finding{whole(found("none_confirmed", "system_read", changed, nil, "status SKIPPED; the nightly audit asks the bank"))},
		}, "none_confirmed"},
		{"looked at too soon", "skipped", both(wholeTask, looked), func(q *dlqbridge.Question) { q.LastActivity = changed.Add(-9 * time.Second) }, dlqbridge.Testimony{
			Findings: []dlqbridge.Finding{whole(found("unknown", "system_read", changed, nil, "status SKIPPED, looked at too soon after the task was last worked on"))},
		}, "unknown"},
		{"looked at, who knows after what", "skipped", both(wholeTask, looked), func(q *dlqbridge.Question) { q.LastActivity = time.Time{} }, dlqbridge.Testimony{
			Findings: []dlqbridge.Finding{whole(found("unknown", "system_read", changed, nil, "status SKIPPED, and nobody knows when the task was last worked on"))},
		}, "unknown"},
		{"looked at, who knows when", "skipped_undated", both(wholeTask, looked), nil, dlqbridge.Testimony{
			Findings: []dlqbridge.Finding{whole(found("unknown", "system_read", question.LastActivity, nil, "status SKIPPED, and no time that it was looked at"))},
		}, "unknown"},
		{"failed", "failed", nil, nil, dlqbridge.Testimony{
			Findings: []dlqbridge.Finding{found("unknown", "nothing_found", changed, nil, "status FAILED, which is declared to prove nothing"), others},
			Failure: &dlqbridge.Failure{
				Step: step, Tool: "charge_card", Code: "E_CARD", Message: "card declined",
				Attempts: []dlqbridge.Attempt{{Run: "r-1", At: changed, Code: "E_CARD"}},
			},
		}, "unknown"},
		{"no status", "stateless", nil, nil, dlqbridge.Testimony{
			Findings: []dlqbridge.Finding{found("unknown", "nothing_found", question.LastActivity, nil, "no status"), others},
		}, "unknown"},
		{"silence", "other_task", both(wholeTask, notStarted), nil, dlqbridge.Testimony{
			Findings: []dlqbridge.Finding{whole(found("unknown", "nothing_found", now, nil, "no row of this task"))},
		}, "unknown"},
		{"a task without what the key needs", "done", nil, func(q *dlqbridge.Question) { q.Tenant = "" }, dlqbridge.Testimony{
			Findings: []dlqbridge.Finding{whole(found("unknown", "nothing_found", now, nil, "no key: the task has not all of T#{tenant}#{taskId}"))},
		}, "unknown"},
		{"a key that no table has", "done", nil, func(q *dlqbridge.Question) { q.TaskID = strings.Repeat("x", 2100) }, dlqbridge.Testimony{
			Findings: []dlqbridge.Finding{whole(found("unknown", "nothing_found", now, nil, "no key: T#{tenant}#{taskId} gives more than 2048 bytes"))},
		}, "unknown"},
		{"a text where the key is a number", "done", func(o *tablestore.Options) { o.Hash.Number = true }, nil, dlqbridge.Testimony{
			Findings: []dlqbridge.Finding{whole(found("unknown", "nothing_found", now, nil, "no key: T#{tenant}#{taskId} gives no number"))},
		}, "unknown"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q := question
			if tc.ask != nil {
				tc.ask(&q)
			}
			change := tc.change
			if change == nil {
				change = func(*tablestore.Options) {}
			}
			got := ask(t, newWorld(t, fixture(t, tc.row)).options(change), q)
			tc.want.Store = "attempts"
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if effect := fold(got); effect != tc.effect {
				t.Errorf("folds to %s, want %s", effect, tc.effect)
			}
		})
	}
}

// Rows over several pages are all read; too many are not told in part.
func TestAllRowsOrNone(t *testing.T) {
	rows := func(n int) []item {
		var out []item
		for i := range n {
			out = append(out, item{
				"pk": str("T#acme#t-7"), "sk": str(fmt.Sprintf("STEP#%04d", i)), "state": str("DONE"), "result": str(`{"charge":{"id":"x"}}`),
				"filler": str(strings.Repeat("x", 30000)), // 1 MB is a page
			})
		}
		return out
	}
	w := newWorld(t, rows(100)...)
	if got := ask(t, w.options(), question); len(got.Findings) != 101 {
		t.Errorf("%d findings", len(got.Findings))
	}
	if got := ask(t, newWorld(t, rows(151)...).options(), question); got.Unavailable != "the task has more than 150 rows" {
		t.Errorf("%+v", got)
	}
}

// One row by both keys, and a hash key alone.
func TestKeysOfOtherShapes(t *testing.T) {
	w := newWorld(t, fixture(t, "done"))
	for _, change := range []func(*tablestore.Options){
		func(o *tablestore.Options) { o.Range.Value = "STEP#0003#{runId}" },
		func(o *tablestore.Options) { o.Range = tablestore.Key{} },
	} {
		q := question
		q.RunID = "charge"
		if got := ask(t, w.options(change, wholeTask), q); fold(got) != dlqbridge.EffectConfirmed {
			t.Errorf("%+v", got)
		}
	}
}

func TestAStoreThatCannotBeAskedIsUnavailable(t *testing.T) {
	for _, tc := range []struct {
		name  string
		fault localstack.Fault
		o     func(*tablestore.Options)
		want  string
	}{
		{"throttled", localstack.Fault{Do: "throttle", Times: -1}, nil, "throttled"},
		{"denied", localstack.Fault{Do: "error", Code: "AccessDeniedException", Times: -1}, nil, "denied: needs dynamodb:Query on table attempts"},
		{"no answer", localstack.Fault{Do: "black_hole", Times: -1}, nil, "no answer within 1m0s"},
		{"cut off, then fine", localstack.Fault{Do: "drop_after", Times: 1}, nil, ""},
		{"gone", localstack.Fault{}, func(o *tablestore.Options) { o.Table = "elsewhere" }, "table elsewhere does not exist"},
		{"other keys", localstack.Fault{}, func(o *tablestore.Options) { o.Hash.Attribute = "id" }, "table attempts does not take the call: are Hash (id) and Range (sk) its keys, and of these types?"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // tries again and waits in no time
				w := newWorld(t, fixture(t, "done"))
				if tc.fault.Do != "" {
					tc.fault.Service, tc.fault.Operation = "dynamodb", "Query"
					if _, err := w.cloud.AddFault(tc.fault); err != nil {
						t.Fatal(err)
					}
				}
				got := ask(t, w.options(func(o *tablestore.Options) {
					o.Timeout = time.Minute
					if tc.o != nil {
						tc.o(o)
					}
				}), question)
				if got.Unavailable != tc.want || (tc.want == "") == (len(got.Findings) == 0) {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}

// Whatever stands in a row: nothing folds to none_confirmed but a declared
// status.
func FuzzRow(f *testing.F) {
	f.Add("SKIPPED", `{"charge":{"id":"x"}}`, "2026-12-01T11:59:00Z", byte(0))
	f.Add("DONE", `[1`, "1796126340", byte(1))
	f.Add("", `"`, "1e400", byte(2))
	f.Fuzz(func(t *testing.T, status, result, at string, kind byte) {
		v := []types.AttributeValue{str(result), &types.AttributeValueMemberM{Value: item{result: str(at)}}, &types.AttributeValueMemberL{Value: []types.AttributeValue{str(status)}}}[kind%3]
		w := world{}
		o := w.options(wholeTask, []func(*tablestore.Options){notStarted, looked}[kind%2])
		o.Client = answering{item{"state": str(status), "result": v, "error": v, "begun_at": str(at), "changed_at": str(at)}}
		got := ask(t, o, question)
		if fold(got) == dlqbridge.EffectNone && status != "SKIPPED" {
			t.Errorf("%q folds to none: %+v", status, got)
		}
		for _, f := range got.Findings {
			if f.AsOf.After(now.Add(dlqbridge.DefaultSkew)) {
				t.Errorf("speaks for the future: %+v", f)
			}
		}
	})
}

// answering answers with one row.
type answering struct{ item item }

func (a answering) Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	return &dynamodb.QueryOutput{Items: []item{a.item}}, nil
}
