package langgraph_test

import (
	"context"
	"encoding/base64"
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
	"github.com/dlqbridge/dlqbridge/adapters/langgraph"
	"github.com/dlqbridge/dlqbridge/localstack"
	"github.com/dlqbridge/dlqbridge/localstack/tabletest"
)

const (
	tableName = "langgraph-checkpoints-dynamodb"
	first     = "1f1ed765-ad82-6507-8001-a1b2c3d4e5f6" // 11:00:01.1234567
	second    = "1f1ed765-b70b-6b87-8001-a1b2c3d4e5f6" // 11:00:02.1234567
	third     = "1f1ed765-c095-6207-8001-a1b2c3d4e5f6"
	fourth    = "1f1ed765-ca1e-6887-8001-a1b2c3d4e5f6"
	task1     = "11111111-1111-5111-8111-111111111111"
	task2     = "22222222-2222-5222-8222-222222222222"
)

var (
	now    = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	worked = now.Add(-30 * time.Minute)
)

type item = tabletest.Item

// fixtures are items of testdata as the saver writes them.
func fixtures(t testing.TB, names ...string) []item {
	t.Helper()
	text, err := os.ReadFile("testdata/items.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string][]map[string]map[string]string
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	var out []item
	for _, name := range names {
		if all[name] == nil {
			t.Fatalf("no fixture %s", name)
		}
		for _, raw := range all[name] {
			it := item{}
			for attribute, v := range raw {
				switch {
				case v["B"] != "":
					b, err := base64.StdEncoding.DecodeString(v["B"])
					if err != nil {
						t.Fatal(err)
					}
					it[attribute] = &types.AttributeValueMemberB{Value: b}
				case v["N"] != "":
					it[attribute] = &types.AttributeValueMemberN{Value: v["N"]}
				default:
					it[attribute] = &types.AttributeValueMemberS{Value: v["S"]}
				}
			}
			out = append(out, it)
		}
	}
	return out
}

type world struct {
	cloud  *localstack.Cloud
	client *dynamodb.Client
}

func newWorld(t testing.TB, items ...item) world {
	t.Helper()
	cloud, client := tabletest.New(t, tableName, "PK", "SK", items...)
	return world{cloud, client}
}

func (w world) ask(t testing.TB, change func(*langgraph.Options), q dlqbridge.Question) dlqbridge.Testimony {
	t.Helper()
	o := langgraph.Options{Client: w.client, Table: tableName}
	if change != nil {
		change(&o)
	}
	s, err := langgraph.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s.Ask(t.Context(), []dlqbridge.Question{q})[0]
}

var question = dlqbridge.Question{TaskID: "task", RunID: "t-7", Now: now, LastActivity: worked}

func fold(t dlqbridge.Testimony, more ...dlqbridge.Finding) dlqbridge.Folded {
	return dlqbridge.Fold(dlqbridge.FoldInput{Findings: append(more, t.Findings...), Checkpoint: t.Checkpoint})
}

// Everything that a thread's items can prove.
func TestWhatCheckpointsProve(t *testing.T) {
	found := func(step string, state dlqbridge.Effect, proof dlqbridge.Proof, detail string) dlqbridge.Finding {
		return dlqbridge.Finding{Store: "langgraph", Step: step, Run: "langgraph:t-7", State: state, Proof: proof, AsOf: worked, Detail: detail}
	}
	finished := func(step string) dlqbridge.Finding {
		return found(step, "confirmed", "system_read", "the node has finished: its writes are pending")
	}
	raised := func(step string) dlqbridge.Finding {
		return found(step, "unknown", "nothing_found", "the node raised an error")
	}
	silence := func(detail string) dlqbridge.Finding {
		return dlqbridge.Finding{Store: "langgraph", Step: "*", State: "unknown", Proof: "nothing_found", AsOf: now, Detail: detail}
	}
	others := silence("nodes that wrote nothing may have been running")
	checkpoint := &dlqbridge.Checkpoint{
		Ref: "langgraph:" + tableName + "/t-7//" + second, Step: second, Run: "langgraph:t-7", At: time.Date(2026, 12, 1, 11, 0, 2, 123456700, time.UTC),
	}
	for _, tc := range []struct {
		name   string
		items  []string
		change func(*langgraph.Options)
		want   dlqbridge.Testimony
	}{
		{"silence", nil, nil, dlqbridge.Testimony{Findings: []dlqbridge.Finding{silence("no checkpoint of this thread")}}},
		{"a checkpoint and no writes", []string{"base"}, nil, dlqbridge.Testimony{Findings: []dlqbridge.Finding{others}, Checkpoint: checkpoint}},
		{"one node finished, one raised", []string{"base", "finished_and_raised"}, nil, dlqbridge.Testimony{
			Findings:   []dlqbridge.Finding{finished(second + "#charge"), raised(second + "#mail"), others},
			Failure:    &dlqbridge.Failure{Step: "mail"},
			Checkpoint: checkpoint,
		}},
		{"only one of them is declared to be an effect", []string{"base", "finished_and_raised"}, func(o *langgraph.Options) { o.Mutating = []string{"charge"} }, dlqbridge.Testimony{
			Findings:   []dlqbridge.Finding{finished(second + "#charge"), others},
			Failure:    &dlqbridge.Failure{Step: "mail"},
			Checkpoint: checkpoint,
		}},
		{"none of them is", []string{"base", "finished_and_raised"}, func(o *langgraph.Options) { o.Mutating = []string{} }, dlqbridge.Testimony{
			Findings: []dlqbridge.Finding{others}, Failure: &dlqbridge.Failure{Step: "mail"}, Checkpoint: checkpoint,
		}},
		{"waits for a person", []string{"base", "interrupted"}, nil, dlqbridge.Testimony{
			Findings:   []dlqbridge.Finding{found(second+"#approve", "unknown", "nothing_found", "the node ran and waits: __interrupt__"), others},
			Checkpoint: checkpoint,
		}},
		{"raised first, finished later", []string{"base", "error_then_done"}, nil, dlqbridge.Testimony{
			Findings: []dlqbridge.Finding{finished(second + "#charge"), others}, Checkpoint: checkpoint,
		}},
		{"the input only", []string{"base", "input"}, nil, dlqbridge.Testimony{Findings: []dlqbridge.Finding{others}, Checkpoint: checkpoint}},
		{"tasks that name no node count, whatever is declared", []string{"base", "sent"}, func(o *langgraph.Options) { o.Mutating = []string{} }, dlqbridge.Testimony{
			Findings: []dlqbridge.Finding{finished(second + "#" + task1), finished(second + "#" + task2), others}, Checkpoint: checkpoint,
		}},
		{"the same node sent twice", []string{"base", "twice"}, nil, dlqbridge.Testimony{
			Findings: []dlqbridge.Finding{finished(second + "#charge"), raised(second + "#charge#" + task2), others},
			Failure:  &dlqbridge.Failure{Step: "charge"}, Checkpoint: checkpoint,
		}},
		{"a newer one lost its payload in a crash", []string{"base", "newer_without_payload"}, nil, dlqbridge.Testimony{
			Findings: []dlqbridge.Finding{raised(third + "#mail"), finished(second + "#charge"), others},
			Failure:  &dlqbridge.Failure{Step: "mail"}, Checkpoint: checkpoint,
		}},
		{"a newer one lies in S3, where nobody looks", []string{"base", "newer_in_s3"}, nil, dlqbridge.Testimony{
			Findings:  []dlqbridge.Finding{others},
			Artifacts: []dlqbridge.Artifact{{Kind: "checkpoint_in_s3", Ref: "langgraph:" + tableName + "/t-7//" + third}},
		}},
		{"a newer one has expired", []string{"base", "newer_expired"}, nil, dlqbridge.Testimony{
			Findings:  []dlqbridge.Finding{others},
			Artifacts: []dlqbridge.Artifact{{Kind: "checkpoint_expired", Ref: "langgraph:" + tableName + "/t-7//" + third}},
		}},
		{"a payload that never came", []string{"newer_without_payload"}, nil, dlqbridge.Testimony{
			Findings:  []dlqbridge.Finding{raised(third + "#mail"), others},
			Failure:   &dlqbridge.Failure{Step: "mail"},
			Artifacts: []dlqbridge.Artifact{{Kind: "checkpoint_without_payload", Ref: "langgraph:" + tableName + "/t-7//" + third}},
		}},
		{"a node of a subgraph raised", []string{"base", "subgraph"}, nil, dlqbridge.Testimony{
			Findings: []dlqbridge.Finding{raised(fourth + "#search"), others}, Failure: &dlqbridge.Failure{Step: "search"}, Checkpoint: checkpoint,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := newWorld(t, fixtures(t, tc.items...)...).ask(t, tc.change, question)
			tc.want.Store = "langgraph"
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if effect := fold(got); effect.State != dlqbridge.EffectUnknown || effect.Uncovered != dlqbridge.EffectUnknown {
				t.Errorf("folds to %+v", effect)
			}
		})
	}
}

// A clock that ran ahead when the checkpoint was made gives it no time, and a
// doubt about its nodes speaks for when the task was last worked on.
func TestACheckpointFromTheFuture(t *testing.T) {
	const ahead = "1f9ed765-b70b-6b87-8001-a1b2c3d4e5f6"
	str := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
	got := newWorld(
		t,
		item{"PK": str("CHECKPOINT_t-7"), "SK": str("#" + ahead), "ref_loc": str("DYNAMODB"), "ref_key": str("CHUNK_x")},
		item{"PK": str("CHUNK_x"), "SK": str("CHUNK")},
		item{"PK": str("WRITES_t-7##" + ahead), "SK": str(task1 + "#-1"), "channel": str("__error__"), "task_path": str("~__pregel_pull, mail")},
	).ask(t, nil, question)
	if got.Checkpoint == nil || !got.Checkpoint.At.IsZero() || !got.Findings[0].AsOf.Equal(worked) {
		t.Errorf("%+v", got)
	}
}

// A node, and a task, that happen to be called * speak for themselves alone.
func TestANodeNamedStarSpeaksForItselfAlone(t *testing.T) {
	str := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
	writes := str("WRITES_t-7##" + second)
	items := append(
		fixtures(t, "base"),
		item{"PK": writes, "SK": str(task1 + "#0"), "channel": str("done"), "task_path": str("~__pregel_pull, *")},
		item{"PK": writes, "SK": str("*#0"), "channel": str("done")},
	)
	got := newWorld(t, items...).ask(t, nil, question)
	var steps []string
	for _, f := range got.Findings {
		if f.State != dlqbridge.EffectUnknown {
			steps = append(steps, f.Step)
		}
	}
	if diff := cmp.Diff([]string{second + "#*", second + "#*#" + task1}, steps); diff != "" {
		t.Error(diff)
	}
	doubt := dlqbridge.Finding{Store: "ledger", Step: "0003#charge", Run: "t-7", State: dlqbridge.EffectUnknown, Proof: dlqbridge.ProofNothingFound, AsOf: worked}
	if folded := fold(got, doubt); folded.State != dlqbridge.EffectUnknown {
		t.Errorf("folds to %s", folded.State)
	}
}

// A checkpoint of a graph does not cover a step that a ledger names, even where
// both call the run alike: their steps are words of two languages.
func TestACheckpointCoversNoStepOfAnotherStore(t *testing.T) {
	got := newWorld(t, fixtures(t, "base")...).ask(t, nil, question)
	ledger := []dlqbridge.Finding{
		{Store: "ledger", Step: "0003#charge", Run: "t-7", State: dlqbridge.EffectUnknown, Proof: dlqbridge.ProofNothingFound, AsOf: worked},
		{Store: "ledger", Step: "*", State: dlqbridge.EffectNone, Proof: dlqbridge.ProofNotStarted, AsOf: now},
	}
	if folded := fold(got, ledger...); folded.Uncovered != dlqbridge.EffectUnknown {
		t.Errorf("%+v", folded)
	}
}

// A person who looked is heard at every later look, too.
func TestAPersonsWordEndsADoubt(t *testing.T) {
	w := newWorld(t, fixtures(t, "base", "finished_and_raised")...)
	word := dlqbridge.Finding{Store: "operator", Step: "*", State: dlqbridge.EffectNone, Proof: dlqbridge.ProofOperator, AsOf: worked.Add(time.Minute)}
	later := question
	later.Now = now.Add(24 * time.Hour)
	mailOnly := func(o *langgraph.Options) { o.Mutating = []string{"mail"} }
	if folded := fold(w.ask(t, mailOnly, later), word); folded.State != dlqbridge.EffectNone {
		t.Errorf("%+v", folded)
	}
}

func TestThreadsOfOtherNames(t *testing.T) {
	w := newWorld(t, fixtures(t, "base")...)
	byTask := func(o *langgraph.Options) { o.Thread = "t-{taskId}" }
	if got := w.ask(t, byTask, dlqbridge.Question{TaskID: "7", Now: now}); got.Checkpoint == nil {
		t.Errorf("%+v", got)
	}
	for _, q := range []dlqbridge.Question{{RunID: "t-7", Now: now}, {TaskID: strings.Repeat("x", 2100), Now: now}} {
		got := w.ask(t, byTask, q)
		if len(got.Findings) != 1 || fold(got).State != dlqbridge.EffectUnknown || got.Unavailable != "" {
			t.Errorf("%+v", got)
		}
	}
}

// More namespaces than are read, and more nodes than are told.
func TestMuchIsBounded(t *testing.T) {
	str := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
	items := fixtures(t, "base")
	for i := range 30 {
		items = append(items, item{"PK": str("CHECKPOINT_t-7"), "SK": str(fmt.Sprintf("sub:%02d#%s", i, first))})
	}
	w := newWorld(t, items...)
	if got := w.ask(t, nil, question); got.Checkpoint == nil || len(got.Findings) != 1 {
		t.Errorf("%+v", got)
	}
	items = fixtures(t, "base")
	for i := range 151 {
		items = append(items, item{"PK": str("WRITES_t-7##" + second), "SK": str(fmt.Sprintf("%04d#0", i)), "channel": str("x")})
	}
	if got := newWorld(t, items...).ask(t, nil, question); got.Unavailable != "more than 150 nodes have pending writes" {
		t.Errorf("%+v", got)
	}
}

func TestAStoreThatCannotBeAskedIsUnavailable(t *testing.T) {
	for _, tc := range []struct {
		name  string
		fault localstack.Fault
		table string
		want  string
	}{
		{"throttled", localstack.Fault{Operation: "Query", Do: "throttle", Times: -1}, tableName, "throttled"},
		{"denied", localstack.Fault{Operation: "Query", Do: "error", Code: "AccessDeniedException", Times: -1}, tableName, "denied: needs dynamodb:Query and dynamodb:GetItem on table " + tableName},
		{"the payload denied", localstack.Fault{Operation: "GetItem", Do: "error", Code: "AccessDeniedException", Times: -1}, tableName, "denied: needs dynamodb:Query and dynamodb:GetItem on table " + tableName},
		{"namespaces denied", localstack.Fault{Operation: "Query", Do: "error", Code: "AccessDeniedException", Skip: 1, Times: -1}, tableName, "denied: needs dynamodb:Query and dynamodb:GetItem on table " + tableName},
		{"writes denied", localstack.Fault{Operation: "Query", Do: "error", Code: "AccessDeniedException", Skip: 2, Times: -1}, tableName, "denied: needs dynamodb:Query and dynamodb:GetItem on table " + tableName},
		{"no answer", localstack.Fault{Operation: "Query", Do: "black_hole", Times: -1}, tableName, "no answer within 1m0s"},
		{"cut off, then fine", localstack.Fault{Operation: "Query", Do: "drop_after", Times: 1}, tableName, ""},
		{"gone", localstack.Fault{}, "elsewhere", "table elsewhere does not exist"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // tries again and waits in no time
				w := newWorld(t, fixtures(t, "base")...)
				if tc.fault.Do != "" {
					tc.fault.Service = "dynamodb"
					if _, err := w.cloud.AddFault(tc.fault); err != nil {
						t.Fatal(err)
					}
				}
				got := w.ask(t, func(o *langgraph.Options) { o.Table, o.Timeout = tc.table, time.Minute }, question)
				if got.Unavailable != tc.want || (tc.want == "") == (len(got.Findings) == 0) {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}

func TestOptionsThatCannotWorkAreRefusedByName(t *testing.T) {
	c := answering{}
	for _, tc := range []struct {
		name string
		o    langgraph.Options
	}{
		{"Client", langgraph.Options{Table: "x"}},
		{"Table", langgraph.Options{Client: c}},
		{"Thread", langgraph.Options{Client: c, Table: "x", Thread: "fixed"}},
		{"Thread", langgraph.Options{Client: c, Table: "x", Thread: "{thread}"}},
		{"Mutating", langgraph.Options{Client: c, Table: "x", Mutating: []string{""}}},
	} {
		if _, err := langgraph.New(tc.o); err == nil || !strings.Contains(err.Error(), tc.name) {
			t.Errorf("%+v: %v", tc.o, err)
		}
	}
}

// Whatever keys and attributes hold: it ends, and proves no absence.
func FuzzItems(f *testing.F) {
	f.Add("#"+second, task1+"#-1", "__error__", "~__pregel_pull, mail", "DYNAMODB", "1796122900")
	f.Add("sub:x#"+first, "#0", "", "~__pregel_push, 0", "S3", "-1")
	f.Add("#", "a#b#c", "x", "", "", "1e99")
	f.Fuzz(func(t *testing.T, sk, writeKey, channel, path, location, ttl string) {
		str := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
		it := item{
			"SK": str(sk), "ref_loc": str(location), "ref_key": str("CHUNK"), "ttl": &types.AttributeValueMemberN{Value: ttl},
			"channel": str(channel), "task_path": str(path),
		}
		pending := item{"SK": str(writeKey), "channel": str(channel), "task_path": str(path)}
		s, err := langgraph.New(langgraph.Options{Client: answering{it, pending}, Table: "x", Timeout: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		got := s.Ask(t.Context(), []dlqbridge.Question{question})[0]
		if got.Unavailable != "" || len(got.Findings) == 0 || fold(got).State != dlqbridge.EffectUnknown {
			t.Errorf("%+v", got)
		}
		for _, f := range got.Findings {
			if f.State == dlqbridge.EffectNone || f.AsOf.After(now.Add(dlqbridge.DefaultSkew)) {
				t.Errorf("%+v", f)
			}
		}
	})
}

// answering answers each query for checkpoints with the first item and each for
// writes with the second.
type answering [2]item

func (a answering) Query(_ context.Context, in *dynamodb.QueryInput, _ ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	hash := in.ExpressionAttributeValues[":pk"].(*types.AttributeValueMemberS).Value
	if strings.HasPrefix(hash, "WRITES_") {
		return &dynamodb.QueryOutput{Items: []item{a[1]}}, nil
	}
	return &dynamodb.QueryOutput{Items: []item{a[0]}}, nil
}

func (a answering) GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return &dynamodb.GetItemOutput{Item: a[0]}, nil
}
