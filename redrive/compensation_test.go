package redrive_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/redrive"
)

const compensations = "arn:aws:sqs:us-east-1:000000000000:compensations"

// charged makes records whose effect is confirmed, on a route that names where
// compensations go.
func (w *world) charged(route redrive.Route, ids ...string) {
	route.Name, route.CompensateTo = "orders", compensations
	w.routes["orders"] = route
	if w.queues[compensations] == nil {
		w.queues[compensations] = newQueue(compensations, false)
	}
	for _, id := range ids {
		w.add(id, nil)
		w.knows[id] = knowledge{effect: dlqbridge.EffectConfirmed}
	}
}

func compensationIn(t *testing.T, a arrival) redrive.Compensation {
	t.Helper()
	var c redrive.Compensation
	if err := json.Unmarshal(a.out.Payload.Body, &c); err != nil {
		t.Fatalf("%s: %v", a.out.Payload.Body, err)
	}
	return c
}

// A compensation is a message of its own, with the receipts and keys of its own,
// sent where the route says and nowhere else.
func TestACompensationNamesWhatItUndoes(t *testing.T) {
	for _, fifo := range []bool{false, true} {
		t.Run(fmt.Sprintf("fifo %v", fifo), func(t *testing.T) {
			in(t, func(t *testing.T, ctx context.Context, w *world) {
				w.queues[compensations] = newQueue(compensations, fifo)
				w.charged(redrive.Route{}, "r_1")
				delete(w.payloads, "r_1/a-r_1") // of which it carries nothing
				w.add("r_2", nil)
				_, c := w.start(t, nil)
				res, err := c.Run(ctx, request())
				if err != nil || res.Sent != 2 || !res.Clean() {
					t.Fatalf("%v, %+v", err, res)
				}
				if n := w.queues[orders].bodies(); len(n) != 1 || n["body of r_2"] != 1 {
					t.Errorf("at the source: %v", n)
				}
				a := w.queues[compensations].all()[0]
				got := compensationIn(t, a)
				if got.IdempotencyKey == "" || len(got.Effects) != 1 || got.Effects[0].IdempotencyKey == "" || got.Agent.Task != got.IdempotencyKey {
					t.Fatalf("%+v", got)
				}
				mark := markOf(t, a)
				if want := (dlqbridge.Mark{Record: "r_1", Job: got.Job, N: 1, Action: dlqbridge.ActionCompensate, Idem: got.IdempotencyKey}); mark != want {
					t.Errorf("mark %+v, want %+v", mark, want)
				}
				if fifo != (a.out.DedupID == "r_1.1" && a.out.Payload.GroupKey == "r_1") {
					t.Errorf("deduplication id %q, group %q", a.out.DedupID, a.out.Payload.GroupKey)
				}
				want := redrive.Compensation{
					Kind: "dlqbridge.compensation", Format: 1, Record: "r_1", Job: mark.Job, N: 1, IdempotencyKey: got.IdempotencyKey, Route: "orders", Cause: "timeout",
					Task: redrive.CompensatedTask{TaskID: "task-r_1", IdempotencyKey: "idem-r_1"},
					Effects: []redrive.UndoneEffect{{
						Step: "0003#charge", Run: "run-1", Receipts: []string{"ch_r_1"}, AsOf: dlqbridge.FormatTime(w.control("r_1").FirstSeen), IdempotencyKey: got.Effects[0].IdempotencyKey,
					}},
					Agent: got.Agent,
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
				if k := w.control("r_1"); k.Compensations != 1 || k.Redrives != 1 || w.sends["r_1"][1].Action != dlqbridge.ActionCompensate {
					t.Errorf("%+v, note %+v", k, w.sends["r_1"][1])
				}
			})
		})
	}
}

// Without a place for them nothing is compensated, and the key to configure is named.
func TestWithoutAPlaceNothingIsCompensated(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.add("r_1", nil)
		w.knows["r_1"] = knowledge{effect: dlqbridge.EffectConfirmed}
		_, c := w.start(t, nil)
		res, err := c.Run(ctx, request())
		if err != nil || res.Sent != 0 || reasons(res.Excluded)["r_1"] != dlqbridge.ExcludeNeedsCompensation || !strings.Contains(whole(res.Excluded)[0].Detail, "compensate_to") {
			t.Errorf("%v, %+v", err, res)
		}
	})
}

// What was authorised to be undone is what is undone: another effect that shows
// before the gate takes the authorisation back.
func TestACompensationUndoesWhatWasAuthorised(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.charged(redrive.Route{}, "r_1")
		receipt := "ref_2"
		_, c := w.start(t, func(p *process, _ *redrive.Options) {
			p.late = func(op string) error {
				if op == "create-job" {
					w.mu.Lock()
					defer w.mu.Unlock()
					w.knows["r_1"] = knowledge{effect: dlqbridge.EffectConfirmed, findings: []dlqbridge.Finding{
						{Store: "ledger", Step: "0004#mail", Run: "run-1", State: dlqbridge.EffectConfirmed, Proof: dlqbridge.ProofReceipt, Receipt: &receipt},
					}}
				}
				return nil
			}
		})
		res, err := c.Run(ctx, request())
		if err != nil || res.Sent != 0 || reasons(res.Excluded)["r_1"] != dlqbridge.ExcludeChanged || w.control("r_1").Authorized != nil {
			t.Errorf("%v, %+v", err, res)
		}
	})
}

// Two people stand behind a critical compensation, as behind any send.
func TestACriticalCompensationNeedsTwoPeople(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.charged(redrive.Route{}, "one", "two")
		second := dlqbridge.DefaultCausePolicy(dlqbridge.CauseTimeout)
		second.SecondPerson = true
		w.knows["one"] = knowledge{effect: dlqbridge.EffectConfirmed, policy: &second}
		w.knows["two"] = knowledge{effect: dlqbridge.EffectConfirmed, policy: &second, approvers: []string{bob.Name}}
		_, c := w.start(t, nil)
		res, err := c.Run(ctx, request())
		if err != nil || res.Sent != 1 || reasons(res.Excluded)["one"] != dlqbridge.ExcludeNeedsSecondPerson {
			t.Errorf("%v, %+v", err, res)
		}
	})
}

// A compensation whose answer is lost is repeated only where the route says that
// this does no harm, under the same number and key; a FIFO queue's memory alone
// is not enough, and neither are the task's own workers.
func TestACompensationInDoubtIsRepeatedOnlyIfDeclaredHarmless(t *testing.T) {
	for _, fifo := range []bool{false, true} {
		for _, idempotent := range []bool{false, true} {
			t.Run(fmt.Sprintf("fifo %v, idempotent %v", fifo, idempotent), func(t *testing.T) {
				in(t, func(t *testing.T, ctx context.Context, w *world) {
					w.queues[compensations] = newQueue(compensations, fifo)
					w.charged(redrive.Route{Kit: true, CompensateIdempotent: idempotent}, "r_1")
					first := true
					w.queues[compensations].lose = func(dlqbridge.Outgoing) bool { lost := first; first = false; return lost }
					_, c := w.start(t, nil)
					res, err := c.Run(ctx, request())
					if err != nil {
						t.Fatal(err)
					}
					again, err := c.Run(ctx, request())
					if err != nil {
						t.Fatal(err)
					}
					arrived := w.queues[compensations].all()
					sent := w.sends["r_1"][1]
					switch {
					case !idempotent:
						if len(arrived) != 1 || sent.Outcome != dlqbridge.OutcomeInDoubt || sent.Tries != 1 || reasons(again.Excluded)["r_1"] != dlqbridge.ExcludeInDoubt {
							t.Errorf("%d arrived, note %+v, then %+v", len(arrived), sent, again.Excluded)
						}
					case fifo:
						if len(arrived) != 1 || sent.Outcome != dlqbridge.OutcomeSent || res.Sent != 1 {
							t.Errorf("%d arrived, note %+v", len(arrived), sent)
						}
					default:
						if len(arrived) != 2 || arrived[0].mark != arrived[1].mark || string(arrived[0].out.Payload.Body) != string(arrived[1].out.Payload.Body) || again.Sent != 1 {
							t.Errorf("%d arrived, then %+v", len(arrived), again)
						}
					}
				})
			})
		}
	}
}

// After its observation a compensation has no outcome: a person decides, and no
// later run sends it again by itself. By absence it counts as compensated.
func TestACompensationWithoutAnOutcome(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.charged(redrive.Route{}, "r_1")
		_, c := w.start(t, nil)
		if res, err := c.Run(ctx, request()); err != nil || res.Sent != 1 {
			t.Fatalf("%v, %+v", err, res)
		}
		// That the task completed meanwhile is no outcome of its compensation.
		w.knows["r_1"] = knowledge{effect: dlqbridge.EffectConfirmed, completed: &dlqbridge.Completion{Store: "ledger", Run: "r9", At: time.Now().Add(5 * time.Minute)}}
		time.Sleep(9 * time.Minute)
		if seen, err := c.Observe(ctx, redrive.ObserveRequest{}); err != nil || seen.Waiting != 1 {
			t.Fatalf("%v, %+v", err, seen)
		}
		w.knows["r_1"] = knowledge{effect: dlqbridge.EffectConfirmed}
		time.Sleep(2 * time.Minute)
		if _, err := c.Observe(ctx, redrive.ObserveRequest{}); err != nil {
			t.Fatal(err)
		}
		if k := w.control("r_1"); k.Status != dlqbridge.StatusAwaitingOperationalDecision || k.Compensations != 1 {
			t.Fatalf("%+v", k)
		}
		res, err := c.Run(ctx, request())
		if err != nil || res.Sent != 0 || reasons(res.Excluded)["r_1"] != dlqbridge.ExcludeNeedsCompensation || !strings.Contains(whole(res.Excluded)[0].Detail, "triage compensated") {
			t.Errorf("%v, %+v", err, res)
		}
	})
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.charged(redrive.Route{Absence: true}, "r_1")
		_, c := w.start(t, nil)
		if res, err := c.Run(ctx, request()); err != nil || res.Sent != 1 {
			t.Fatalf("%v, %+v", err, res)
		}
		time.Sleep(11 * time.Minute)
		seen, err := c.Observe(ctx, redrive.ObserveRequest{})
		if k := w.control("r_1"); err != nil || k.Status != dlqbridge.StatusCompensated || k.Claim != nil || k.Why != dlqbridge.WhyCompensated || seen.Outcomes[dlqbridge.OutcomeCompleted] != 1 {
			t.Errorf("%v, %+v, %+v", err, seen, k)
		}
	})
}

// A run that carried the compensation's own number and completed has undone it.
func TestARunWithTheCompensationsNumberCompletesIt(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.charged(redrive.Route{}, "r_1")
		_, c := w.start(t, nil)
		if res, err := c.Run(ctx, request()); err != nil || res.Sent != 1 {
			t.Fatalf("%v, %+v", err, res)
		}
		w.knows["r_1"] = knowledge{effect: dlqbridge.EffectConfirmed, completed: &dlqbridge.Completion{Store: "ledger", Run: "r9", At: time.Now(), RedriveN: 1}}
		if _, err := c.Observe(ctx, redrive.ObserveRequest{}); err != nil || w.control("r_1").Status != dlqbridge.StatusCompensated {
			t.Errorf("%v, %+v", err, w.control("r_1"))
		}
	})
}

// A plan is for what was decided then: what is to be compensated by the time it
// runs is left out of a planned retry, and sent nowhere.
func TestAPlannedRetryIsNotCompensated(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.charged(redrive.Route{}, "r_1")
		w.knows["r_1"] = knowledge{}
		_, c := w.start(t, nil)
		plan, err := c.Plan(ctx, request())
		if err != nil || plan.Selected != 1 {
			t.Fatalf("%v, %+v", err, plan)
		}
		w.knows["r_1"] = knowledge{effect: dlqbridge.EffectConfirmed}
		res, err := c.Run(ctx, redrive.Request{Plan: &plan, Actor: alice, Reason: "agreed"})
		if err != nil || res.Sent != 0 || reasons(res.Excluded)["r_1"] != dlqbridge.ExcludeChanged || len(w.queues[compensations].all()) != 0 {
			t.Errorf("%v, %+v", err, res)
		}
	})
}
