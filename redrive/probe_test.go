package redrive_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/redrive"
)

// A probe that does not pass pauses the job before anything is claimed; to
// continue asks it again.
func TestAProbeGoesBeforeTheFirstMessage(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.addMany(20)
		up, asked := false, 0
		p, c := w.start(t, func(_ *process, o *redrive.Options) {
			o.Probe = func(_ context.Context, route string) error {
				if asked++; route != "orders" {
					t.Errorf("asked about %q", route)
				}
				if !up {
					return errors.New("GET payments/health: 503")
				}
				return nil
			}
		})
		res, err := c.Run(ctx, request())
		if err != nil || res.State != dlqbridge.JobPaused || res.Sent != 0 || res.Clean() || !strings.Contains(res.Reason, "503") {
			t.Fatalf("%+v, %v", res, err)
		}
		if p.counted("send") > 0 || w.count(dlqbridge.StatusAuthorized) != 20 {
			t.Error("something was sent, or is not authorised any more")
		}
		up = true
		if res, err = c.Continue(ctx, res.Job, bob, "payments is back"); err != nil || res.Sent != 20 || asked != 2 {
			t.Errorf("%+v, %v, asked %d times", res, err, asked)
		}
	})
}

// Where several routes lead to a destination, each one's probe is asked, and
// again when the job is continued.
func TestTheProbesOfAllRoutesAreAsked(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.routes["bills"] = redrive.Route{Name: "bills"}
		w.add("r_1", nil)
		w.add("r_2", func(c *dlqbridge.Control, _ *dlqbridge.Payload) { c.Route = "bills" })
		asked, down := map[string]int{}, "orders"
		_, c := w.start(t, func(_ *process, o *redrive.Options) {
			o.Probe = func(_ context.Context, route string) error {
				if asked[route]++; route == down {
					return errors.New("GET payments/health: 503")
				}
				return nil
			}
		})
		res, err := c.Run(ctx, request())
		if err != nil || res.State != dlqbridge.JobPaused || res.Sent != 0 || asked["bills"] != 1 || asked["orders"] != 1 {
			t.Fatalf("%+v, %v, asked %v", res, err, asked)
		}
		down = "bills"
		if res, err = c.Continue(ctx, res.Job, bob, "orders is back"); err != nil || res.State != dlqbridge.JobPaused || res.Sent != 0 {
			t.Fatalf("%+v, %v, asked %v", res, err, asked)
		}
		down = ""
		if res, err = c.Continue(ctx, res.Job, bob, "bills too"); err != nil || res.Sent != 2 || asked["orders"] != 2 || asked["bills"] != 3 {
			t.Errorf("%+v, %v, asked %v", res, err, asked)
		}
	})
}

// What has lost its sense is closed when a run comes to it, authorised or not,
// but only where its route says that policy may. Planning closes nothing.
func TestExpiredWorkIsCancelledWherePolicyMay(t *testing.T) {
	for name, may := range map[string]bool{"the route says so": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, ctx context.Context, w *world) {
				w.routes["orders"] = redrive.Route{Name: "orders", CancelExpired: may}
				past := func(c *dlqbridge.Control, _ *dlqbridge.Payload) { c.ValidUntil = time.Now().Add(-time.Hour) }
				w.add("r_waiting", past)
				w.add("r_allowed", func(c *dlqbridge.Control, p *dlqbridge.Payload) {
					past(c, p)
					c.Status = dlqbridge.StatusAuthorized
					c.Authorized = &dlqbridge.Authorization{By: "alice", At: time.Now(), Action: dlqbridge.ActionRetry}
				})
				w.add("r_fine", nil)
				for _, id := range []string{"r_waiting", "r_allowed"} {
					w.knows[id] = knowledge{expired: true}
				}
				_, c := w.start(t, nil)
				if _, err := c.Plan(ctx, request()); err != nil {
					t.Fatal(err)
				}
				if n := w.count(dlqbridge.StatusCancelledExpired); n != 0 {
					t.Errorf("planning has closed %d", n)
				}
				res, err := c.Run(ctx, request())
				if err != nil || res.Sent != 1 || reasons(res.Excluded)["r_waiting"] != dlqbridge.ExcludeExpired || reasons(res.Excluded)["r_allowed"] != dlqbridge.ExcludeExpired {
					t.Fatalf("%+v, %v", res, err)
				}
				want := map[bool]int{true: 2, false: 0}[may]
				if n := w.count(dlqbridge.StatusCancelledExpired); n != want {
					t.Errorf("%d were closed, want %d", n, want)
				}
				for _, id := range []string{"r_waiting", "r_allowed"} {
					ctl := w.control(id)
					if may && (ctl.ClosedAt.IsZero() || ctl.Authorized != nil || ctl.Action != dlqbridge.ActionNone) {
						t.Errorf("%+v", ctl)
					}
				}
			})
		})
	}
}

// One that expires between its authorisation and the gate is closed there.
func TestExpiredAtTheGate(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.routes["orders"] = redrive.Route{Name: "orders", CancelExpired: true}
		w.addMany(2)
		_, c := w.start(t, func(p *process, _ *redrive.Options) {
			p.late = func(op string) error {
				if op == "create-job" {
					w.mu.Lock()
					w.knows["r_00001"] = knowledge{expired: true}
					w.mu.Unlock()
				}
				return nil
			}
		})
		res, err := c.Run(ctx, request())
		if err != nil || res.Sent != 1 || reasons(res.Excluded)["r_00001"] != dlqbridge.ExcludeExpired {
			t.Fatalf("%+v, %v", res, err)
		}
		if s := w.control("r_00001").Status; s != dlqbridge.StatusCancelledExpired {
			t.Errorf("it is %s", s)
		}
	})
}
