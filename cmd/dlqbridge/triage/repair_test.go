package triage_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awsdynamodb"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/config"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/triage"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/wire"
	"github.com/dlqbridge/dlqbridge/enrich/jsonpatch"
	"github.com/dlqbridge/dlqbridge/localstack"
)

// disturbed is a store in which something happens around a move.
type disturbed struct {
	*awsdynamodb.Store
	// before runs once before the first move; failing fails every move, as if
	// the process died before it.
	before  func()
	failing bool
}

var errDied = errors.New("died")

func (d *disturbed) Move(ctx context.Context, steps []dlqbridge.Step) []error {
	if run := d.before; run != nil {
		d.before = nil
		run()
	}
	if d.failing {
		return []error{errDied}
	}
	return d.Store.Move(ctx, steps)
}

// workshop is one record on a local cloud, whose body is {"n":1}.
type workshop struct {
	t      *testing.T
	store  *disturbed
	bridge *wire.Bridge
	id     string
}

func inWorkshop(t *testing.T, do func(*workshop)) {
	file := filepath.Join(t.TempDir(), "dlqbridge.yaml")
	text := `
tables: {records: dlqbridge-records, payloads: dlqbridge-payloads, ledger: agent-ledger}
routes: [{name: orders, sqs: {dead_letter_queue: orders-dlq, source_queue: orders}, effects: none}]
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		cloud := localstack.New(localstack.Options{})
		defer cloud.Close()
		queues := sqs.NewFromConfig(cloud.AWSConfig())
		for _, name := range []string{"orders", "orders-dlq"} {
			if _, err := queues.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name}); err != nil {
				t.Fatal(err)
			}
		}
		c, err := config.Load(config.Source{File: file, Env: func(string) (string, bool) { return "", false }})
		if err != nil {
			t.Fatal(err)
		}
		b, err := wire.New(wire.Options{Config: c, AWS: cloud.AWSConfig(), Now: time.Now, Log: slog.New(slog.DiscardHandler), Env: func(string) (string, bool) { return "", false }})
		if err != nil {
			t.Fatal(err)
		}
		if err := awsdynamodb.CreateTables(t.Context(), b.DynamoDB, awsdynamodb.TableNames{Records: c.Tables.Records, Payloads: c.Tables.Payloads, Ledger: c.Tables.Ledger}); err != nil {
			t.Fatal(err)
		}
		w := &workshop{t: t, store: &disturbed{Store: b.Store}, bridge: b, id: dlqbridge.RecordID(dlqbridge.IdentityTask, "s", "", "t-1", 0)}
		w.receive("m-1", `{"n":1}`)
		do(w)
	})
}

// receive makes the record of a letter, or adds one as intake does.
func (w *workshop) receive(message, body string) {
	w.t.Helper()
	now := time.Now().UTC().Truncate(time.Millisecond)
	p := dlqbridge.Payload{Body: []byte(body), Attributes: []dlqbridge.Attribute{{Name: "agent.ctx", Type: "String", Value: []byte(`{"v":1,"task":"t-1","type":"bill","cause":"invalid_input"}`)}}}
	a := dlqbridge.Arrival{
		Key: dlqbridge.Fingerprint(message), MessageID: message, Place: "arn:aws:sqs:us-east-1:000000000000:orders-dlq", SentAt: now, Task: dlqbridge.Task{TaskID: "t-1", TaskType: "bill"},
		Failure: dlqbridge.Failure{Cause: dlqbridge.CauseInvalidInput}, PayloadSHA256: p.Hash(), PayloadBytes: p.Size(),
	}
	c, err := w.store.Case(w.t.Context(), w.id)
	if err != nil {
		c.Control = dlqbridge.Control{
			ID: w.id, Identity: dlqbridge.IdentityTask, Route: "orders", Provider: dlqbridge.SQS, Source: "arn:aws:sqs:us-east-1:000000000000:orders", TaskID: "t-1", TaskType: "bill",
			Status: dlqbridge.StatusAwaitingInputCorrection, Cause: dlqbridge.CauseInvalidInput, Effect: dlqbridge.EffectNone, Uncovered: dlqbridge.EffectNone,
			Action: dlqbridge.ActionRepair, Why: dlqbridge.WhyFixable, PayloadVersion: 1, FirstSeen: now,
		}
	}
	to := c.Control
	to.Version++
	to.Arrivals++
	to.Newest, to.LastSeen = a.Key, now
	to.Move = dlqbridge.Move{Version: to.Version, At: now, By: "policy", Verb: dlqbridge.VerbReceive, From: c.Control.Status, To: to.Status, Arrival: a.Key}
	for _, err := range w.store.Put(w.t.Context(), []dlqbridge.Evidence{{Record: w.id, Item: a}, {Record: w.id, Item: dlqbridge.StoredPayload{Arrival: a.Key, Payload: p}}}) {
		if err != nil {
			w.t.Fatal(err)
		}
	}
	if err != nil {
		err = w.store.Create(w.t.Context(), []dlqbridge.Control{to})[0].Err
	} else {
		err = w.store.Store.Move(w.t.Context(), []dlqbridge.Step{{From: c.Control, To: to}})[0]
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *workshop) mover(s triage.Store) triage.Mover {
	return triage.Mover{Store: s, Judge: w.bridge.JudgeCase, Now: time.Now, Bounds: w.bridge.Bounds()}
}

func (w *workshop) repair(s triage.Store, who, patch string) (triage.Done, error) {
	w.t.Helper()
	p, err := jsonpatch.Parse([]byte(patch))
	if err != nil {
		w.t.Fatal(err)
	}
	return w.mover(s).Move(w.t.Context(), w.id, triage.Request{
		Verb: dlqbridge.VerbRepair, Actor: dlqbridge.Actor{Name: who, Authenticated: true}, Reason: "x", Repair: triage.RepairRequest{Patch: p},
	})
}

// sent is what a send would take.
func (w *workshop) sent() (dlqbridge.Control, string) {
	w.t.Helper()
	c, err := w.store.Case(w.t.Context(), w.id)
	if err != nil {
		w.t.Fatal(err)
	}
	p, err := w.store.Payload(w.t.Context(), w.id, c.Control.PayloadName())
	if err != nil {
		w.t.Fatal(err)
	}
	return c.Control, string(p.Body)
}

// Two repair the same record at the same moment: one wins, the other is told
// and has changed nothing, whatever else moved meanwhile.
func TestTwoRepairsAtOnce(t *testing.T) {
	inWorkshop(t, func(w *workshop) {
		w.store.before = func() {
			if _, err := w.repair(w.store.Store, "bob", `{"n":3}`); err != nil {
				t.Error(err)
			}
		}
		_, err := w.repair(w.store, "ann", `{"n":2}`)
		if refused, ok := errors.AsType[*triage.RefusedError](err); !ok || refused.Code != "changed" {
			t.Errorf("the second was told %v", err)
		}
		if c, body := w.sent(); body != `{"n":3}` || c.PayloadVersion != 2 || c.Move.By != "bob" {
			t.Errorf("%s, %+v", body, c)
		}
		// Another move is no reason to give up.
		w.store.before = func() {
			if _, err := w.mover(w.store.Store).Move(w.t.Context(), w.id, triage.Request{Verb: dlqbridge.VerbAssign, Owner: "team", Reason: "x"}); err != nil {
				t.Error(err)
			}
		}
		if _, err := w.repair(w.store, "ann", `{"n":4}`); err != nil {
			t.Error(err)
		}
		if c, body := w.sent(); body != `{"n":4}` || c.PayloadVersion != 3 || c.Owner != "team" {
			t.Errorf("%s, %+v", body, c)
		}
		// A letter that differs is one.
		w.store.before = func() { w.receive("m-2", `{"n":9}`) }
		if _, err := w.repair(w.store, "ann", `{"n":5}`); err != nil {
			t.Error(err)
		}
		if c, _ := w.sent(); !c.Conflict || c.Status != dlqbridge.StatusUnderInvestigation {
			t.Errorf("a letter that nobody had seen is overlooked: %+v", c)
		}
	})
}

// A crash between the payload and the move that names it leaves the version
// that was in force, and what was written is never sent.
func TestARepairThatDiesLeavesTheOldVersion(t *testing.T) {
	inWorkshop(t, func(w *workshop) {
		w.store.failing = true
		if _, err := w.repair(w.store, "ann", `{"n":2}`); !errors.Is(err, errDied) {
			t.Fatal(err)
		}
		if c, body := w.sent(); body != `{"n":1}` || c.PayloadVersion != 1 || c.Version != 1 {
			t.Errorf("%s, %+v", body, c)
		}
		made := dlqbridge.Payload{}
		c, err := w.store.Case(w.t.Context(), w.id)
		if err != nil {
			t.Fatal(err)
		}
		if made, err = w.store.Payload(w.t.Context(), w.id, c.Control.Newest); err != nil {
			t.Fatal(err)
		}
		made.Body = []byte(`{"n":2}`)
		if _, err := w.store.Payload(w.t.Context(), w.id, dlqbridge.RepairedName(w.id, made)); err != nil {
			t.Errorf("the payload was not written before the move: %v", err)
		}
		if v := c.PayloadVersions(); len(v) != 1 {
			t.Errorf("%+v", v)
		}
		// Given again it is the same version.
		w.store.failing = false
		for n := range 2 {
			done, err := w.repair(w.store, "ann", `{"n":2}`)
			if n == 0 && (err != nil || done.Repaired.After.Version != 2) {
				t.Fatal(done, err)
			}
			if refused, ok := errors.AsType[*triage.RefusedError](err); n == 1 && (!ok || refused.Code != "already_repaired") {
				t.Errorf("%v", err)
			}
		}
		if c, body := w.sent(); body != `{"n":2}` || c.PayloadVersion != 2 || c.Payload == "" {
			t.Errorf("%s, %+v", body, c)
		}
	})
}

// A patch given again is refused however many came after it and however it is
// laid out, since adding to a list twice is another task. Whoever names a
// version says from where, and goes back to a letter that no patch made.
func TestAPatchGivenTwice(t *testing.T) {
	inWorkshop(t, func(w *workshop) {
		const list, add, other = `{"list":[]}`, `[{"op":"add","path":"/list/-","value":1}]`, `{"other":true}`
		repair := func(version int, patch, code, want string) {
			t.Helper()
			var r triage.RepairRequest
			if r.Version = version; patch != "" {
				p, err := jsonpatch.Parse([]byte(patch))
				if err != nil {
					t.Fatal(err)
				}
				r.Patch = p
			}
			_, err := w.mover(w.store).Move(w.t.Context(), w.id, triage.Request{Verb: dlqbridge.VerbRepair, Actor: dlqbridge.Actor{Name: "ann", Authenticated: true}, Reason: "x", Repair: r})
			refused, _ := errors.AsType[*triage.RefusedError](err)
			if code == "" && err != nil || code != "" && (refused == nil || refused.Code != code) {
				t.Errorf("version %d, %q: %v", version, patch, err)
			}
			if _, body := w.sent(); body != want {
				t.Errorf("version %d, %q: %s, want %s", version, patch, body, want)
			}
		}
		repair(0, list, "", `{"n":1,"list":[]}`)                // version 2
		repair(0, add, "", `{"n":1,"list":[1]}`)                // version 3
		repair(0, other, "", `{"n":1,"list":[1],"other":true}`) // version 4
		repair(0, add, "already_repaired", `{"n":1,"list":[1],"other":true}`)
		repair(0, " "+add+"\n", "already_repaired", `{"n":1,"list":[1],"other":true}`)
		repair(0, "{ \"other\" :\ttrue }\n", "already_repaired", `{"n":1,"list":[1],"other":true}`)
		repair(2, "", "", `{"n":1,"list":[]}`) // version 5
		repair(0, list, "already_repaired", `{"n":1,"list":[]}`)
		repair(0, add, "", `{"n":1,"list":[1]}`)                // version 6
		repair(0, other, "", `{"n":1,"list":[1],"other":true}`) // version 7
		repair(3, "", "", `{"n":1,"list":[1]}`)                 // version 8
		repair(0, add, "already_repaired", `{"n":1,"list":[1]}`)
		repair(3, add, "", `{"n":1,"list":[1,1]}`) // version 9, as it was asked
		repair(1, "", "", `{"n":1}`)               // version 10
		repair(0, list, "", `{"n":1,"list":[]}`)
	})
}
