package awsdynamodb_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awsdynamodb"
	"github.com/dlqbridge/dlqbridge/localstack"
)

// evidence is one item of every type, full to the brim.
func evidence(id string) []dlqbridge.Evidence {
	task := dlqbridge.Task{
		TaskID: "task-1", RunID: "run-1", TaskType: "invoice.create", Tenant: "acme", IdempotencyKey: "k-1", Deadline: start.Add(time.Hour),
		ValidUntil: start.Add(2 * time.Hour), Attempts: new(3), MaxAttempts: new(5), Versions: dlqbridge.Versions{Agent: "1", Model: "m", Prompt: "p", Workflow: "w", Policy: "x"},
		Tools: []string{"charge_card"}, CostUSD: "0.42", OriginEvent: "e", ExpectedResult: "r",
	}
	failure := dlqbridge.Failure{
		Cause: dlqbridge.CauseAmbiguousEffect, Lane: dlqbridge.LaneUncertainState, Phase: "during_call", Step: "0003#charge", Tool: "charge_card",
		Dependency: "payments", Code: "ETIMEDOUT", Message: "took too long", Retryable: new(true), Signature: "sg_1",
		Attempts: []dlqbridge.Attempt{{Run: "run-1", At: start, Code: "ETIMEDOUT"}}, Rule: "r1",
	}
	findings := []dlqbridge.Finding{{Store: "ledger", Step: "0003#charge", Run: "run-1", State: dlqbridge.EffectUnknown, Proof: dlqbridge.ProofNothingFound, AsOf: start, Receipt: new("rc"), Detail: "d"}}
	return []dlqbridge.Evidence{
		{Record: id, Item: dlqbridge.StoredPayload{Arrival: "aaaabbbbccccddddeeeeffff", Payload: dlqbridge.Payload{
			Body: []byte("{\"n\":12345678901234567890}\x00\xff"), GroupKey: "g",
			Attributes: []dlqbridge.Attribute{{Name: "a", Type: "Binary.x", Value: []byte{0, 255}}, {Name: "b", Type: "Number", Value: []byte("1e400")}},
		}}},
		{Record: id, Item: dlqbridge.Arrival{
			Key: "aaaabbbbccccddddeeeeffff", Place: "arn:dlq", MessageID: "m-1", Source: "arn:q", SentAt: start, LostAt: start.Add(time.Hour),
			System: map[string]string{"SenderId": "AIDA"}, Trace: "Root=1", Task: task, Failure: failure, Effect: "none", Checkpoint: "c", Envelopes: []string{"sns"},
			Provenance: map[string]string{"taskId": "attr:agent.ctx"}, Conflicts: []dlqbridge.FieldConflict{{Field: "tenant", Selector: "body", Value: "x"}},
			Mark: &dlqbridge.Mark{Record: id, Job: "j", N: 1, Action: dlqbridge.ActionRetry, Idem: "i", From: "f"}, PayloadSHA256: "00", PayloadBytes: 3,
		}},
		{Record: id, Item: dlqbridge.Context{
			Name: "c_" + dlqbridge.Fingerprint("context"), At: start, Task: task, Failure: failure, Findings: findings, Checkpoint: &dlqbridge.Checkpoint{Ref: "r", Step: "s", Run: "u", At: start, WorkflowVersion: "w", Lineage: []string{"u"}},
			Folded: dlqbridge.Folded{State: dlqbridge.EffectUnknown, Uncovered: dlqbridge.EffectUnknown}, RepeatSafe: true, Reason: "because", Restriction: "none",
			Unavailable: map[string]string{"temporal": "timeout"}, RunningUntil: start.Add(time.Minute), CompletedBy: &dlqbridge.Completion{Store: "ledger", Run: "u", At: start, RedriveN: 2},
			TraceID: "t", Artifacts: []dlqbridge.Artifact{{Kind: "output", Ref: "s3://x"}},
		}},
		{Record: id, Item: dlqbridge.Note{
			Name: "n_1", At: start, Actor: dlqbridge.Actor{Name: "arn:me", Authenticated: true, Note: "x"}, Verb: dlqbridge.VerbFix, Reason: "r", Evidence: "e", Findings: findings,
			Fix: &dlqbridge.Fix{Kind: "deploy", Text: "1.4.2"}, Cause: dlqbridge.CauseTimeout, Owner: "o", Approval: true,
		}},
		{Record: id, Item: dlqbridge.Send{N: 1, Job: "j", Action: dlqbridge.ActionRetry, At: start, MessageID: "m-2", Outcome: dlqbridge.OutcomeSent, Marked: true, Tries: 1, Reason: "r"}},
	}
}

func TestEveryPieceOfEvidenceComesBackAsItWas(t *testing.T) {
	b := open(t)
	c := record(1)
	items := evidence(c.ID)
	must(t, b.Put(t.Context(), items)...)
	must(t, b.Put(t.Context(), items)...) // writing again is safe
	b.create(t, c)
	got, err := b.Case(t.Context(), c.ID)
	must(t, err)
	diff(t, "case", dlqbridge.Case{
		Control: c, History: []dlqbridge.Move{c.Move},
		Arrivals: []dlqbridge.Arrival{items[1].Item.(dlqbridge.Arrival)}, Contexts: []dlqbridge.Context{items[2].Item.(dlqbridge.Context)},
		Notes: []dlqbridge.Note{items[3].Item.(dlqbridge.Note)}, Sends: []dlqbridge.Send{items[4].Item.(dlqbridge.Send)},
	}, got)
	payload := items[0].Item.(dlqbridge.StoredPayload)
	p, err := b.Payload(t.Context(), c.ID, payload.Arrival)
	must(t, err)
	diff(t, "payload", payload.Payload, p)
	byMessage, err := b.RecordsByMessage(t.Context(), []string{"m-2", "m-unknown", "m-2"})
	must(t, err)
	diff(t, "records by message", map[string]string{"m-2": c.ID}, byMessage)
	sends, err := b.Sends(t.Context(), map[string]int{c.ID: 1, "r_other": 1})
	must(t, err)
	diff(t, "sends", map[string]dlqbridge.Send{c.ID: items[4].Item.(dlqbridge.Send)}, sends)
}

// random is n bytes that no compression makes smaller.
func random(n int) []byte {
	r := rand.NewChaCha8([32]byte{1})
	b := make([]byte, n)
	_, _ = r.Read(b)
	return b
}

func TestALargePayloadIsStoredInPartsAndChecked(t *testing.T) {
	b := open(t)
	want := dlqbridge.Payload{Body: random(1 << 20)}
	must(t, b.Put(t.Context(), []dlqbridge.Evidence{{Record: "r_1", Item: dlqbridge.StoredPayload{Arrival: "a1", Payload: want}}})...)
	got, err := b.Payload(t.Context(), "r_1", "a1")
	must(t, err)
	if !bytes.Equal(got.Body, want.Body) {
		t.Error("the body is another one")
	}
	must(t, b.Put(t.Context(), []dlqbridge.Evidence{{Record: "r_1", Item: dlqbridge.StoredPayload{Arrival: "a9", Payload: dlqbridge.Payload{Body: random(700_000)[1:]}}}})...)
	b.graft(t, "payloads", "P#r_1", "a9#0001", "a1#0001") // one part is another payload's
	var broken *awsdynamodb.IncompletePayloadError
	if _, err = b.Payload(t.Context(), "r_1", "a1"); !errors.As(err, &broken) || broken.Why != "its parts do not hash to what was stored" {
		t.Errorf("got %v, want *IncompletePayloadError", err)
	}
	b.drop(t, "payloads", "P#r_1", "a1#0002")
	_, err = b.Payload(t.Context(), "r_1", "a1")
	if !errors.As(err, &broken) || errors.Is(err, dlqbridge.ErrNotFound) || broken.Why != "part 3 of 3 is missing" {
		t.Errorf("got %v, want *IncompletePayloadError", err)
	}
	_, err = b.Payload(t.Context(), "r_1", "a2")
	if !errors.Is(err, dlqbridge.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
}

func TestAReceiveOfTenTakesTwoCallsOfEvidenceAndTenCreates(t *testing.T) {
	b := open(t)
	b.create(t, record(100)) // the route is known from here on
	b.cloud.ForgetRequests()
	var items []dlqbridge.Evidence
	var controls []dlqbridge.Control
	for n := range 10 {
		items = append(items, evidence(record(n).ID)[:3]...)
		controls = append(controls, record(n))
	}
	must(t, b.Put(t.Context(), items)...)
	b.create(t, controls...)
	diff(t, "calls", map[string]int64{"BatchWriteItem": 2, "PutItem": 10}, b.cloud.Counters().Calls["dynamodb"])
	if units := b.cloud.Counters().Units.Write; units > 10*(3+3)+20 {
		t.Errorf("used %v write units", units)
	}
}

// C68.
func TestUnprocessedItemsAreTriedAgain(t *testing.T) {
	b := open(t)
	b.fault(t, localstack.Fault{Operation: "BatchWriteItem", Do: localstack.DoUnprocessed, Count: 6, Times: 2})
	var items []dlqbridge.Evidence
	for n := range 25 {
		items = append(items, dlqbridge.Evidence{Record: record(n).ID, Item: dlqbridge.Note{Name: "n"}})
	}
	must(t, b.Put(t.Context(), items)...)
	if got := b.calls("BatchWriteItem"); got != 3 {
		t.Errorf("got %d calls, want 3", got)
	}
	if got := len(b.table(t, "records")); got != 25 {
		t.Errorf("got %d items, want 25", got)
	}
}

func TestOneBadItemFailsAlone(t *testing.T) {
	b := open(t)
	errs := b.Put(t.Context(), []dlqbridge.Evidence{
		{Record: "r_1", Item: dlqbridge.Note{Name: "a"}},
		{Record: "r_1", Item: dlqbridge.Note{Name: "b", Reason: string(bytes.Repeat([]byte("x"), 500_000))}},
		{Record: "r_1", Item: dlqbridge.Note{Name: "c"}},
		{Record: "", Item: dlqbridge.Note{Name: "d"}},
		{Record: "r_1", Item: nil},
	})
	for i, want := range []error{nil, dlqbridge.ErrTooLarge, nil, dlqbridge.ErrInvalid, dlqbridge.ErrInvalid} {
		if !errors.Is(errs[i], want) {
			t.Errorf("item %d: got %v, want %v", i, errs[i], want)
		}
	}
	if got := len(b.table(t, "records")); got != 2 {
		t.Errorf("got %d items, want 2", got)
	}
}

func TestARefusedBatchIsPutOneByOne(t *testing.T) {
	for _, code := range []string{"ValidationException", "AccessDeniedException"} {
		b := open(t)
		b.fault(t, localstack.Fault{Operation: "BatchWriteItem", Do: localstack.DoError, Code: code, Times: -1})
		b.fault(t, localstack.Fault{Operation: "PutItem", Contains: "note#b", Do: localstack.DoError, Code: code, Times: -1})
		errs := b.Put(t.Context(), []dlqbridge.Evidence{
			{Record: "r_1", Item: dlqbridge.Note{Name: "a"}}, {Record: "r_1", Item: dlqbridge.Note{Name: "b"}}, {Record: "r_1", Item: dlqbridge.Note{Name: "c"}},
		})
		if errs[0] != nil || errs[1] == nil || errs[2] != nil {
			t.Errorf("%s: got %v, want only the second to fail", code, errs)
		}
	}
}

func TestTheSameKeyTwiceInOnePutIsWrittenOnce(t *testing.T) {
	b := open(t)
	must(t, b.Put(t.Context(), []dlqbridge.Evidence{
		{Record: "r_1", Item: dlqbridge.Note{Name: "a", Reason: "first"}},
		{Record: "r_1", Item: dlqbridge.Note{Name: "a", Reason: "last"}},
		{Record: "r_1", Item: dlqbridge.Note{Name: "b"}},
	})...)
	diff(t, "calls", map[string]int64{"BatchWriteItem": 1}, b.cloud.Counters().Calls["dynamodb"])
	b.create(t, func() dlqbridge.Control { c := record(1); c.ID = "r_1"; return c }())
	got, err := b.Case(t.Context(), "r_1")
	must(t, err)
	if len(got.Notes) != 2 || got.Notes[0].Reason != "last" {
		t.Errorf("got %+v", got.Notes)
	}
}

func TestADoubtNeverOverwritesANote(t *testing.T) {
	b := open(t)
	send := dlqbridge.Send{N: 1, Job: "j", MessageID: "m", Outcome: dlqbridge.OutcomeSent, Tries: 1}
	doubt := dlqbridge.Send{N: 1, Job: "j", Outcome: dlqbridge.OutcomeInDoubt, Tries: 1}
	must(t, b.PutDoubt(t.Context(), "r_2", doubt))
	if err := b.PutDoubt(t.Context(), "r_2", doubt); !errors.Is(err, dlqbridge.ErrExists) {
		t.Errorf("got %v, want ErrExists", err)
	}
	must(t, b.Put(t.Context(), []dlqbridge.Evidence{{Record: "r_1", Item: send}})...)
	if err := b.PutDoubt(t.Context(), "r_1", doubt); !errors.Is(err, dlqbridge.ErrExists) {
		t.Errorf("got %v, want ErrExists", err)
	}
	got, err := b.Sends(t.Context(), map[string]int{"r_1": 1, "r_2": 1})
	must(t, err)
	diff(t, "sends", map[string]dlqbridge.Send{"r_1": send, "r_2": doubt}, got)

	b.fault(t, localstack.Fault{Operation: "PutItem", Do: localstack.DoDropAfter})
	must(t, b.PutDoubt(t.Context(), "r_3", doubt)) // its own first try is no other's note
}

// C71.
func TestTwoLettersOfOneInstantAreTwoArrivalsInAStableOrder(t *testing.T) {
	b := open(t)
	c := record(1)
	b.create(t, c)
	first := dlqbridge.Arrival{Key: "aaaa", MessageID: "m1", SentAt: start}
	second := dlqbridge.Arrival{Key: "bbbb", MessageID: "m2", SentAt: start}
	must(t, b.Put(t.Context(), []dlqbridge.Evidence{{Record: c.ID, Item: second}, {Record: c.ID, Item: first}})...)
	for range 5 {
		got, err := b.Case(t.Context(), c.ID)
		must(t, err)
		diff(t, "arrivals", []dlqbridge.Arrival{first, second}, got.Arrivals)
	}
}
