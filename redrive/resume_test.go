package redrive_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/redrive"
)

const resumes = "arn:aws:sqs:us-east-1:000000000000:orders-resume"

// resumable makes a record whose effects all lie before its checkpoint.
func (w *world) resumable(id, ref string, change func(*dlqbridge.Control, *dlqbridge.Payload)) {
	w.add(id, change)
	w.knows[id] = knowledge{effect: dlqbridge.EffectConfirmed, uncovered: dlqbridge.EffectNone, checkpoint: ref}
}

func markOf(t *testing.T, a arrival) dlqbridge.Mark {
	t.Helper()
	var m dlqbridge.Mark
	if err := json.Unmarshal([]byte(a.mark), &m); err != nil {
		t.Fatalf("%q is no mark: %v", a.mark, err)
	}
	return m
}

// A resume is the original message with the checkpoint in its mark, sent to the
// source, or to the place that the route names for resumes; a retry of the same
// run goes to the source all the same.
func TestAResumeNamesItsCheckpoint(t *testing.T) {
	for _, to := range []string{"", resumes} {
		t.Run(to, func(t *testing.T) {
			in(t, func(t *testing.T, ctx context.Context, w *world) {
				w.queues[resumes] = newQueue(resumes, false)
				w.routes["orders"] = redrive.Route{Name: "orders", ResumeTo: to}
				w.resumable("r_1", "s3://state/ck-1", nil)
				w.add("r_2", nil)
				_, c := w.start(t, nil)
				res, err := c.Run(ctx, request())
				if err != nil || res.Sent != 2 || !res.Clean() {
					t.Fatalf("%v, %+v", err, res)
				}
				at := map[string]string{}
				for _, q := range []string{orders, resumes} {
					for _, a := range w.queues[q].all() {
						m := markOf(t, a)
						at[m.Record] = q
						want := dlqbridge.Mark{Record: m.Record, Job: m.Job, N: 1, Action: dlqbridge.ActionRetry, Idem: "idem-" + m.Record}
						if m.Record == "r_1" {
							want.Action, want.From = dlqbridge.ActionResume, "s3://state/ck-1"
						}
						if m != want || string(a.out.Payload.Body) != "body of "+m.Record {
							t.Errorf("got %+v with %s, want %+v", m, a.out.Payload.Body, want)
						}
					}
				}
				if home := map[string]string{"": orders, resumes: resumes}[to]; at["r_1"] != home || at["r_2"] != orders {
					t.Errorf("sent to %v", at)
				}
				if s := w.sends["r_1"][1]; s.Action != dlqbridge.ActionResume || s.Outcome != dlqbridge.OutcomeSent {
					t.Errorf("note %+v", s)
				}
			})
		})
	}
}

// What cannot carry the checkpoint is not sent: the worker would begin anew.
// The key gives way first.
func TestC11AResumeWithoutItsMarkIsNotSent(t *testing.T) {
	full := func(_ *dlqbridge.Control, p *dlqbridge.Payload) {
		for i := range 9 {
			p.Attributes = append(p.Attributes, dlqbridge.Attribute{Name: fmt.Sprintf("x%d", i), Type: "String", Value: []byte("v")})
		}
	}
	for name, c := range map[string]struct {
		ref    string
		change func(*dlqbridge.Control, *dlqbridge.Payload)
		detail string
	}{
		"room":               {"ck", nil, ""},
		"room for the mark":  {strings.Repeat("c", 945), nil, ""}, // without its key
		"ten attributes":     {"ck", full, "no place for the mark"},
		"a long reference":   {strings.Repeat("c", 1000), nil, "(1000 bytes)"},
		"no character of it": {"ck\uFFFE", nil, "no place in the mark"},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, ctx context.Context, w *world) {
				w.resumable("r_1", c.ref, c.change)
				w.add("r_2", full) // a retry goes without the mark
				_, controller := w.start(t, nil)
				res, err := controller.Run(ctx, request())
				if err != nil {
					t.Fatal(err)
				}
				if c.detail == "" {
					m := markOf(t, w.queues[orders].all()[0])
					if m.Record != "r_1" {
						m = markOf(t, w.queues[orders].all()[1])
					}
					if res.Sent != 2 || m.From != c.ref || len(c.ref) > 900 != (m.Idem == "") {
						t.Errorf("sent %d, excluded %+v, mark %+v", res.Sent, res.Excluded, m)
					}
					return
				}
				if res.Sent != 1 || res.Excluded.Len() != 1 || reasons(res.Excluded)["r_1"] != dlqbridge.ExcludeMarkImpossible ||
					!strings.Contains(whole(res.Excluded)[0].Detail, c.detail) {
					t.Errorf("sent %d, excluded %+v", res.Sent, res.Excluded)
				}
				if s := w.control("r_1").Status; s != dlqbridge.StatusAuthorized {
					t.Errorf("it is %s", s)
				}
			})
		})
	}
}

// The gate reads the checkpoint again: one that has moved is not what was
// authorised, and an effect beyond it is never sent.
func TestAResumeIsOfTheCheckpointThatWasAuthorised(t *testing.T) {
	for name, c := range map[string]struct {
		now  knowledge
		want dlqbridge.ExcludeReason
	}{
		"the same":        {knowledge{effect: dlqbridge.EffectConfirmed, uncovered: dlqbridge.EffectNone, checkpoint: "ck-1"}, ""},
		"a later one":     {knowledge{effect: dlqbridge.EffectConfirmed, uncovered: dlqbridge.EffectNone, checkpoint: "ck-2"}, dlqbridge.ExcludeChanged},
		"none":            {knowledge{effect: dlqbridge.EffectConfirmed}, dlqbridge.ExcludeNeedsCompensation},
		"unknown beyond":  {knowledge{effect: dlqbridge.EffectUnknown, checkpoint: "ck-1"}, dlqbridge.ExcludeEffectUnknown},
		"a run goes on":   {knowledge{running: time.Now().Add(time.Hour * 24 * 36500), checkpoint: "ck-1"}, dlqbridge.ExcludeStillRunning},
		"an effect after": {knowledge{effect: dlqbridge.EffectConfirmed, checkpoint: "ck-1"}, dlqbridge.ExcludeNeedsCompensation},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, ctx context.Context, w *world) {
				w.resumable("r_1", "ck-1", nil)
				_, controller := w.start(t, func(p *process, _ *redrive.Options) {
					p.late = func(op string) error {
						if op == "create-job" { // after the authorisation, before the gate
							w.mu.Lock()
							defer w.mu.Unlock()
							w.knows["r_1"] = c.now
						}
						return nil
					}
				})
				res, err := controller.Run(ctx, request())
				if err != nil {
					t.Fatal(err)
				}
				if c.want == "" {
					if res.Sent != 1 {
						t.Errorf("excluded %+v", res.Excluded)
					}
					return
				}
				if res.Sent != 0 || reasons(res.Excluded)["r_1"] != c.want || w.control("r_1").Authorized != nil {
					t.Errorf("sent %d, excluded %+v, authorised %+v", res.Sent, res.Excluded, w.control("r_1").Authorized)
				}
			})
		})
	}
}

// A place for resumes that is missing, or that others read too, keeps back what
// leads there and nothing else; nothing falls back to the source.
func TestAPlaceForResumesIsATargetLikeAnyOther(t *testing.T) {
	place := "projects/acme/topics/orders-resume"
	reader := "projects/acme/subscriptions/resumer"
	for name, c := range map[string]struct {
		receivers []string
		missing   bool
		accept    bool
		want      dlqbridge.ExcludeReason
	}{
		"one reader":             {receivers: []string{reader}},
		"it does not exist":      {missing: true, want: dlqbridge.ExcludeTargetMissing},
		"nobody reads it":        {receivers: []string{}, want: dlqbridge.ExcludeTargetMissing},
		"several":                {receivers: []string{mail, reader}, want: dlqbridge.ExcludeFanOut},
		"several, it is allowed": {receivers: []string{mail, reader}, accept: true},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, ctx context.Context, w *world) {
				// The redrive topic speaks for itself alone.
				onTopic(w, redrive.Route{Source: billing, Sources: []string{billing}, ResumeTo: place, FanOut: true, FanOutAside: c.accept}, billing, []string{billing, mail})
				w.queues[place] = newQueue(place, false)
				w.queues[place].facts.Receivers, w.queues[place].missing = c.receivers, c.missing
				w.resumable("r_2", "ck", func(c *dlqbridge.Control, _ *dlqbridge.Payload) { c.Provider, c.Source = dlqbridge.PubSub, billing })
				_, controller := w.start(t, nil)
				res, err := controller.Run(ctx, request())
				if err != nil {
					t.Fatal(err)
				}
				if got := reasons(res.Excluded)["r_2"]; got != c.want || len(w.queues[topic].all()) != 1 {
					t.Errorf("excluded %+v, %d went to the source", res.Excluded, len(w.queues[topic].all()))
				}
				arrived := w.queues[place].all()
				if (c.want == "") != (len(arrived) == 1) {
					t.Fatalf("%d arrived", len(arrived))
				}
				if c.want == "" {
					to, _ := arrived[0].out.Payload.Attribute(dlqbridge.MarkToName)
					if want := map[bool]string{true: "", false: "resumer"}[c.accept]; string(to.Value) != want {
						t.Errorf("it is for %q, want %q", to.Value, want)
					}
				}
			})
		})
	}
}

// A plan names the action, so a record that is decided otherwise by the time it
// would be authorised is left out: it would go elsewhere and mean another thing.
func TestAPlannedRetryIsNotResumed(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.routes["orders"] = redrive.Route{Name: "orders", ResumeTo: resumes}
		w.queues[resumes] = newQueue(resumes, false)
		w.add("r_1", nil)
		_, c := w.start(t, nil)
		plan, err := c.Plan(ctx, request())
		if err != nil || plan.Selected != 1 {
			t.Fatalf("%v, %+v", err, plan)
		}
		w.knows["r_1"] = knowledge{checkpoint: "ck"}
		res, err := c.Run(ctx, redrive.Request{Plan: &plan, Actor: alice, Reason: "agreed"})
		if err != nil || res.Sent != 0 || reasons(res.Excluded)["r_1"] != dlqbridge.ExcludeChanged {
			t.Errorf("%v, %+v", err, res)
		}
		if w.control("r_1").Authorized != nil {
			t.Error("it was authorised for what nobody planned")
		}
		// Planned as what it is now, it goes where resumes go.
		if plan, err = c.Plan(ctx, request()); err != nil || len(plan.Jobs) != 1 || plan.Jobs[0].Destination != resumes || whole(plan.Jobs[0].Members)[0].Action != dlqbridge.ActionResume {
			t.Fatalf("%v, %+v", err, plan)
		}
		if res, err = c.Run(ctx, redrive.Request{Plan: &plan, Actor: alice, Reason: "agreed"}); err != nil || res.Sent != 1 || len(w.queues[resumes].all()) != 1 {
			t.Errorf("%v, %+v", err, res)
		}
	})
}
