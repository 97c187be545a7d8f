package openaiagents_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/openaiagents"
	"github.com/dlqbridge/dlqbridge/localstack"
	"github.com/dlqbridge/dlqbridge/localstack/tabletest"
)

const tableName = "agent-states"

var (
	now   = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	saved = now.Add(-time.Hour)
)

type item = tabletest.Item

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// fixture is a state of testdata as RunState.to_string writes it.
func fixture(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/states.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	if all[name] == nil {
		t.Fatalf("no fixture %s", name)
	}
	return string(all[name])
}

// row is the row in which an application keeps the state.
func row(state string) item {
	return item{"pk": str("TASK#t-7"), "state": str(state), "saved_at": str(dlqbridge.FormatTime(saved))}
}

type world struct {
	cloud  *localstack.Cloud
	client *dynamodb.Client
}

func newWorld(t testing.TB, rows ...item) world {
	t.Helper()
	cloud, client := tabletest.New(t, tableName, "pk", "", rows...)
	return world{cloud, client}
}

var question = dlqbridge.Question{TaskID: "t-7", RunID: "r-1", Now: now, LastActivity: saved.Add(time.Minute)}

func (w world) ask(t testing.TB, q dlqbridge.Question, change ...func(*openaiagents.Options)) dlqbridge.Testimony {
	t.Helper()
	o := openaiagents.Options{
		Client: w.client, Table: tableName, Hash: openaiagents.Key{Attribute: "pk", Value: "TASK#{taskId}"}, State: "state", Updated: "saved_at",
	}
	for _, c := range change {
		c(&o)
	}
	s, err := openaiagents.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s.Ask(t.Context(), []dlqbridge.Question{q})[0]
}

func bound(o *openaiagents.Options) { o.SavedBeforeEachCall = "the wrapper saves it" }

func fold(t dlqbridge.Testimony) dlqbridge.Effect {
	return dlqbridge.Fold(dlqbridge.FoldInput{Findings: t.Findings, Running: t.RunningUntil.After(now)}).State
}

// Everything that a state can prove, and how it folds.
func TestWhatStatesProve(t *testing.T) {
	found := func(step string, state dlqbridge.Effect, proof dlqbridge.Proof, asOf time.Time, detail string) dlqbridge.Finding {
		return dlqbridge.Finding{Store: "openai_agents", Step: step, State: state, Proof: proof, AsOf: asOf, Detail: detail}
	}
	confirmed := func(step string) dlqbridge.Finding {
		return found(step, "confirmed", "system_read", saved, "completed")
	}
	doubt := func(step, detail string) dlqbridge.Finding {
		return found(step, "unknown", "nothing_found", saved, detail)
	}
	notStarted := func(step string) dlqbridge.Finding {
		return found(step, "none_confirmed", "not_started", now, "not executed; the wrapper saves it")
	}
	noOther := found("*", "none_confirmed", "not_started", now, "no other call was begun; the wrapper saves it")
	silence := func(detail string) dlqbridge.Finding { return found("*", "unknown", "nothing_found", now, detail) }
	unbound := silence("the state may have been saved before other calls")
	only := func(tools ...string) func(*openaiagents.Options) {
		return func(o *openaiagents.Options) { o.Mutating = append([]string{}, tools...) }
	}
	const lookup, charge, mail = "call_1#lookup_customer", "call_2#charge_card", "call_3#send_mail"
	const stale = "not executed when the state was saved"
	for _, tc := range []struct {
		name   string
		state  string
		change []func(*openaiagents.Options)
		want   []dlqbridge.Finding
		effect dlqbridge.Effect
	}{
		{"all done", "done", nil, []dlqbridge.Finding{confirmed(lookup), confirmed(charge), confirmed(mail), unbound}, "unknown"},
		{"all done, bound", "done", []func(*openaiagents.Options){bound}, []dlqbridge.Finding{confirmed(lookup), confirmed(charge), confirmed(mail), noOther}, "confirmed"},
		{
			"executed, not completed", "died_in_the_charge",
			[]func(*openaiagents.Options){bound},
			[]dlqbridge.Finding{confirmed(lookup), doubt(charge, "executed, not completed"), notStarted(mail), noOther},
			"unknown",
		},
		{
			"not executed, bound, and reading is declared to change nothing", "waits_for_approval",
			[]func(*openaiagents.Options){bound, only("charge_card", "send_mail")},
			[]dlqbridge.Finding{notStarted(charge), notStarted(mail), noOther},
			"none_confirmed",
		},
		{
			"not executed, but the state may be an old one", "waits_for_approval",
			[]func(*openaiagents.Options){only("charge_card")},
			[]dlqbridge.Finding{doubt(charge, stale), unbound},
			"unknown",
		},
		{"no tool changes anything", "done", []func(*openaiagents.Options){bound, only()}, []dlqbridge.Finding{noOther}, "none_confirmed"},
		{"nothing was called", "nothing_called", []func(*openaiagents.Options){bound}, []dlqbridge.Finding{noOther}, "none_confirmed"},
		{"nothing was called as far as an old state knows", "nothing_called", nil, []dlqbridge.Finding{unbound}, "unknown"},
		{
			"a schema without the ledger confirms outputs and proves nothing else", "before_1_15",
			[]func(*openaiagents.Options){bound},
			[]dlqbridge.Finding{confirmed(lookup), confirmed(charge), silence("a state of schema 1.10 has no ledger of calls")},
			"unknown",
		},
		{
			"a tool of the provider", "hosted",
			[]func(*openaiagents.Options){bound},
			[]dlqbridge.Finding{confirmed(lookup), doubt("mcp_1#create_invoice", "run at the model's provider"), silence("a tool ran at the model's provider, where the state sees nothing")},
			"unknown",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := newWorld(t, row(fixture(t, tc.state))).ask(t, question, tc.change...)
			want := dlqbridge.Testimony{
				Store: "openai_agents", Findings: tc.want, RunningUntil: saved.Add(15 * time.Minute), TraceID: "trace_0123456789abcdef0123456789abcdef",
				Artifacts: []dlqbridge.Artifact{{Kind: "run_state", Ref: "openai_agents:agent-states/t-7"}},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if effect := fold(got); effect != tc.effect {
				t.Errorf("folds to %s, want %s", effect, tc.effect)
			}
		})
	}
}

// Silence, and states that say nothing, are unknown, whatever is declared.
func TestSilenceIsUnknown(t *testing.T) {
	long := strings.Repeat("x", 2100)
	whole := fixture(t, "waits_for_approval")
	without := func(it item, names ...string) item {
		for _, n := range names {
			delete(it, n)
		}
		return it
	}
	with := func(it item, name string, v types.AttributeValue) item { it[name] = v; return it }
	for _, tc := range []struct {
		name  string
		row   item
		q     dlqbridge.Question
		proof dlqbridge.Proof
		want  string
	}{
		{"no row", nil, question, "nothing_found", "no state of this task"},
		{"no task id", row(whole), dlqbridge.Question{Now: now}, "nothing_found", "no key: the task has not all of TASK#{taskId}"},
		{"a key that no table has", row(whole), dlqbridge.Question{TaskID: long, Now: now}, "nothing_found", "no key: TASK#{taskId} gives more than 2048 bytes"},
		{"a row without a state", without(row(whole), "state"), question, "nothing_found", "the row has no state"},
		{"a state that is null", with(row(whole), "state", &types.AttributeValueMemberNULL{Value: true}), question, "nothing_found", "the row has no state"},
		{"a state that is cut", row(whole[:len(whole)/2]), question, "system_read", "the state cannot be read: it is no run state"},
		{"another JSON", row(`{"messages":[]}`), question, "system_read", "the state cannot be read: it is no run state"},
		{"a number", with(row(whole), "state", &types.AttributeValueMemberN{Value: "7"}), question, "system_read", "the state cannot be read: it is no run state"},
		{"packed bytes", with(row(whole), "state", &types.AttributeValueMemberB{Value: []byte{0x1f, 0x8b, 8}}), question, "system_read", "the state cannot be read: it is no run state"},
		{"a ledger of another shape", row(`{"$schemaVersion":"2.0","context":{"tool_invocations":[]}}`), question, "system_read", "the state cannot be read: it is no run state"},
		{"a context of another shape", row(`{"$schemaVersion":"2.0","context":7}`), question, "system_read", "the state cannot be read: it is no run state"},
		{"no time of the save", without(row(fixture(t, "nothing_called")), "saved_at"), question, "nothing_found", "the row does not say when the state was saved"},
		{"saved in the future", with(row(fixture(t, "nothing_called")), "saved_at", str("2027-01-01T00:00:00Z")), question, "nothing_found", "the row does not say when the state was saved"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var rows []item
			if tc.row != nil {
				rows = append(rows, tc.row)
			}
			got := newWorld(t, rows...).ask(t, tc.q, bound)
			if len(got.Findings) != 1 || got.Unavailable != "" {
				t.Fatalf("%+v", got)
			}
			if f := got.Findings[0]; f.Step != "*" || f.State != "unknown" || f.Proof != tc.proof || f.Detail != tc.want {
				t.Errorf("%+v", f)
			}
			if got.RunningUntil = (time.Time{}); fold(got) != dlqbridge.EffectUnknown {
				t.Errorf("folds to %s", fold(got))
			}
		})
	}
}

// An entry of the ledger that cannot be read is a doubt, and ends the proof
// about all others.
func TestAnOddEntryIsADoubt(t *testing.T) {
	for _, entry := range []string{`7`, `null`, `{}`, `{"executed":false}`, `{"executed":"no","completed":false}`} {
		got := newWorld(t, row(`{"$schemaVersion":"1.18","context":{"tool_invocations":{"call_9":`+entry+`}}}`)).ask(t, question, bound)
		if len(got.Findings) != 2 || got.Findings[0].Step != "call_9" || got.Findings[0].Detail != "its entry cannot be read" ||
			got.Findings[1].Detail != "the ledger of calls cannot be read whole" || fold(got) != dlqbridge.EffectUnknown {
			t.Errorf("%s: %+v", entry, got.Findings)
		}
	}
}

// A call that happens to be called * speaks for itself alone.
func TestACallNamedStarSpeaksForItselfAlone(t *testing.T) {
	const text = `{"$schemaVersion":"1.17","context":{"tool_invocations":{"*":{"executed":false,"completed":false},"call_2":{"executed":true,"completed":false}}}}`
	got := newWorld(t, row(text)).ask(t, question, bound)
	if len(got.Findings) != 3 || got.Findings[0].Step != `"*"` || fold(got) != dlqbridge.EffectUnknown {
		t.Errorf("%+v", got.Findings)
	}
}

// A run may be going for a while after the state was saved.
func TestARunMayBeGoing(t *testing.T) {
	w := newWorld(t, row(fixture(t, "waits_for_approval")))
	early := question
	early.Now = saved.Add(14 * time.Minute)
	if got := w.ask(t, early, bound); !got.RunningUntil.After(early.Now) {
		t.Errorf("%+v", got)
	}
	longer := func(o *openaiagents.Options) { o.MaxRun = 2 * time.Hour }
	if got := w.ask(t, question, bound, longer); !got.RunningUntil.Equal(saved.Add(2 * time.Hour)) {
		t.Errorf("%+v", got)
	}
}

// However the row holds it: as text, bytes or map, with numbers of time or none.
func TestRowsOfOtherShapes(t *testing.T) {
	var plain any
	if err := json.Unmarshal([]byte(fixture(t, "died_in_the_charge")), &plain); err != nil {
		t.Fatal(err)
	}
	want := newWorld(t, row(fixture(t, "died_in_the_charge"))).ask(t, question, bound)
	for name, v := range map[string]types.AttributeValue{
		"bytes": &types.AttributeValueMemberB{Value: []byte(fixture(t, "died_in_the_charge"))}, "map": attribute(plain),
	} {
		it := row("")
		it["state"], it["saved_at"] = v, &types.AttributeValueMemberN{Value: strconv.FormatInt(saved.Unix(), 10)}
		if diff := cmp.Diff(want, newWorld(t, it).ask(t, question, bound)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func attribute(v any) types.AttributeValue {
	switch v := v.(type) {
	case string:
		return str(v)
	case bool:
		return &types.AttributeValueMemberBOOL{Value: v}
	case float64:
		return &types.AttributeValueMemberN{Value: fmt.Sprint(v)}
	case []any:
		l := &types.AttributeValueMemberL{}
		for _, e := range v {
			l.Value = append(l.Value, attribute(e))
		}
		return l
	case map[string]any:
		m := item{}
		for name, e := range v {
			m[name] = attribute(e)
		}
		return &types.AttributeValueMemberM{Value: m}
	}
	return &types.AttributeValueMemberNULL{Value: true}
}

// A state per run says nothing about the other runs.
func TestTheStateOfOneRunSpeaksForThatRunOnly(t *testing.T) {
	it := row(fixture(t, "nothing_called"))
	it["pk"] = str("RUN#r-1")
	got := newWorld(t, it).ask(t, question, bound, func(o *openaiagents.Options) { o.Hash.Value = "RUN#{runId}" })
	if len(got.Findings) != 1 || got.Findings[0].Run != "r-1" || fold(got) != dlqbridge.EffectUnknown {
		t.Errorf("%+v", got)
	}
	if only := dlqbridge.Fold(dlqbridge.FoldInput{Findings: got.Findings, OnlyRun: "r-1"}).State; only != dlqbridge.EffectNone {
		t.Errorf("the task's only run folds to %s", only)
	}
}

func TestAStateWithTooManyCallsIsNotToldInPart(t *testing.T) {
	var calls []string
	for i := range 151 {
		calls = append(calls, fmt.Sprintf(`"c%d":{"executed":false,"completed":false}`, i))
	}
	got := newWorld(t, row(`{"$schemaVersion":"1.17","context":{"tool_invocations":{`+strings.Join(calls, ",")+`}}}`)).ask(t, question, bound)
	if got.Unavailable != "the state has more than 150 calls" {
		t.Errorf("%+v", got)
	}
}

func TestAStoreThatCannotBeAskedIsUnavailable(t *testing.T) {
	for _, tc := range []struct {
		name  string
		fault localstack.Fault
		o     func(*openaiagents.Options)
		want  string
	}{
		{"throttled", localstack.Fault{Do: "throttle", Times: -1}, nil, "throttled"},
		{"denied", localstack.Fault{Do: "error", Code: "AccessDeniedException", Times: -1}, nil, "denied: needs dynamodb:Query on table agent-states"},
		{"expired credentials", localstack.Fault{Do: "error", Code: "ExpiredTokenException", Times: -1}, nil, "credentials missing or expired"},
		{"no answer", localstack.Fault{Do: "black_hole", Times: -1}, nil, "no answer within 1m0s"},
		{"cut off, then fine", localstack.Fault{Do: "drop_after", Times: 1}, nil, ""},
		{"gone", localstack.Fault{}, func(o *openaiagents.Options) { o.Table = "elsewhere" }, "table elsewhere does not exist"},
		{"other keys", localstack.Fault{}, func(o *openaiagents.Options) { o.Hash.Attribute = "id" }, "table agent-states does not take the call: are Hash (id) and Range () its keys, and of these types?"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // tries again and waits in no time
				w := newWorld(t, row(fixture(t, "done")))
				if tc.fault.Do != "" {
					tc.fault.Service, tc.fault.Operation = "dynamodb", "Query"
					if _, err := w.cloud.AddFault(tc.fault); err != nil {
						t.Fatal(err)
					}
				}
				got := w.ask(t, question, func(o *openaiagents.Options) {
					o.Timeout = time.Minute
					if tc.o != nil {
						tc.o(o)
					}
				})
				if got.Unavailable != tc.want || (tc.want == "") == (len(got.Findings) == 0) {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}

func TestOptionsThatCannotWorkAreRefusedByName(t *testing.T) {
	fine := openaiagents.Options{
		Client: struct{ openaiagents.Querier }{}, Table: "x", Hash: openaiagents.Key{Attribute: "pk", Value: "{taskId}"}, State: "state",
	}
	for want, change := range map[string]func(*openaiagents.Options){
		"option Client is required":                              func(o *openaiagents.Options) { o.Client = nil },
		"option Table is required":                               func(o *openaiagents.Options) { o.Table = "" },
		"option State is required":                               func(o *openaiagents.Options) { o.State = "" },
		"option MaxRun is negative":                              func(o *openaiagents.Options) { o.MaxRun = -1 },
		"option Mutating names an empty tool":                    func(o *openaiagents.Options) { o.Mutating = []string{""} },
		"option Updated is required with SavedBeforeEachCall":    bound,
		"a task has one state, so it cannot end in *":            func(o *openaiagents.Options) { o.Range = openaiagents.Key{Attribute: "sk", Value: "S#*"} },
		"Hash.Value \"x\" is the same for each task":             func(o *openaiagents.Options) { o.Hash.Value = "x" },
		"Hash.Attribute is required":                             func(o *openaiagents.Options) { o.Hash.Attribute = "" },
		"Range.Attribute and Hash.Attribute are both pk":         func(o *openaiagents.Options) { o.Range = o.Hash },
		"only {taskId}, {runId}, {idempotencyKey}, {tenant} can": func(o *openaiagents.Options) { o.Hash.Value = "{id}" },
	} {
		o := fine
		change(&o)
		if _, err := openaiagents.New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	s, err := openaiagents.New(fine)
	if err != nil || s.Name() != openaiagents.DefaultName {
		t.Errorf("%v, %v", s, err)
	}
}

// answering is a table that has one row.
type answering struct{ row item }

// Query implements openaiagents.Querier.
func (a answering) Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	return &dynamodb.QueryOutput{Items: []item{a.row}}, nil
}

// FuzzState: whatever stands in the row, nothing is proven not to have happened
// unless a ledger of calls is there and says so of each call.
func FuzzState(f *testing.F) {
	for _, name := range []string{"done", "died_in_the_charge", "waits_for_approval", "nothing_called", "before_1_15", "hosted"} {
		f.Add(fixture(f, name))
	}
	f.Add(`{"$schemaVersion":"1.17","context":{"tool_invocations":{"*":{"executed":true}}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		got := world{}.ask(t, question, bound, func(o *openaiagents.Options) { o.Client = answering{row(text)} })
		if text == "" {
			return
		}
		if len(got.Findings) == 0 && got.Unavailable == "" {
			t.Errorf("says nothing at all")
		}
		none := 0
		for _, found := range got.Findings {
			if found.State == dlqbridge.EffectNone {
				none++
			}
		}
		if none > 0 && !strings.Contains(text, "tool_invocations") && !strings.Contains(text, `\u`) {
			t.Errorf("%d negatives without a ledger: %+v", none, got.Findings)
		}
	})
}
