package enrich_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/enrich"
	"github.com/dlqbridge/dlqbridge/localstack"
)

// cut is where in a call the process dies.
type cut string

const (
	cutBefore cut = "before"
	cutAfter  cut = "after"
	cutHalf   cut = "half" // of a batch is carried out
)

// dying wraps ports: at call number at the process dies, and nothing is carried
// out from then on.
type dying struct {
	ports
	at   int
	how  cut
	kill func()

	mu    sync.Mutex
	calls []string
	dead  bool
}

var errDead = fmt.Errorf("%w: the process is dead", dlqbridge.ErrUnavailable)

// call runs one call of n members; do carries out the first k of them.
func (d *dying) call(name string, n int, do func(k int)) (dead bool) {
	d.mu.Lock()
	defer d.mu.Unlock() // one call at a time: positions must mean the same in each run
	if d.dead {
		return true
	}
	d.calls = append(d.calls, name)
	if len(d.calls) != d.at {
		do(n)
		return false
	}
	d.dead = true
	defer d.kill()
	switch d.how {
	case cutBefore:
	case cutHalf:
		do(n / 2)
	case cutAfter:
		do(n)
	}
	return true
}

func all(n int) []error { return slices.Repeat([]error{errDead}, n) }

func (d *dying) Place() string { return d.letters.Place() }

func (d *dying) Receive(ctx context.Context, limit int, wait time.Duration) (letters []dlqbridge.Letter, err error) {
	if d.call("receive", 1, func(k int) {
		if k > 0 {
			letters, err = d.letters.Receive(ctx, limit, wait)
		}
	}) {
		return nil, errDead
	}
	return letters, err
}

func (d *dying) Delete(ctx context.Context, letters []dlqbridge.Letter) (errs []error) {
	if d.call("delete", len(letters), func(k int) { errs = d.letters.Delete(ctx, letters[:k]) }) {
		return all(len(letters))
	}
	return errs
}

func (d *dying) Hide(ctx context.Context, letters []dlqbridge.Letter, by time.Duration) (errs []error) {
	if d.call("hide", len(letters), func(k int) { errs = d.letters.Hide(ctx, letters[:k], by) }) {
		return all(len(letters))
	}
	return errs
}

func (d *dying) Depth(ctx context.Context) (depth dlqbridge.Depth, err error) {
	if d.call("depth", 1, func(int) { depth, err = d.letters.Depth(ctx) }) {
		return depth, errDead
	}
	return depth, err
}

func (d *dying) Put(ctx context.Context, items []dlqbridge.Evidence) (errs []error) {
	if d.call("put", len(items), func(k int) { errs = d.evidence.Put(ctx, items[:k]) }) {
		return all(len(items))
	}
	return errs
}

func (d *dying) PutDoubt(context.Context, string, dlqbridge.Send) error { return errDead }

func (d *dying) Create(ctx context.Context, controls []dlqbridge.Control) (out []dlqbridge.Created) {
	if d.call("create", len(controls), func(k int) { out = d.controls.Create(ctx, controls[:k]) }) {
		return slices.Repeat([]dlqbridge.Created{{Err: errDead}}, len(controls))
	}
	return out
}

func (d *dying) Move(ctx context.Context, steps []dlqbridge.Step) (errs []error) {
	if d.call("move", len(steps), func(k int) { errs = d.controls.Move(ctx, steps[:k]) }) {
		return all(len(steps))
	}
	return errs
}

func (d *dying) Read(ctx context.Context, ids []string) (out map[string]dlqbridge.Control, err error) {
	if d.call("read", 1, func(int) { out, err = d.controls.Read(ctx, ids) }) {
		return nil, errDead
	}
	return out, err
}

func (d *dying) Case(ctx context.Context, id string) (c dlqbridge.Case, err error) {
	if d.call("case", 1, func(int) { c, err = d.cases.Case(ctx, id) }) {
		return c, errDead
	}
	return c, err
}

func (d *dying) Payload(ctx context.Context, id, arrival string) (dlqbridge.Payload, error) {
	return d.cases.Payload(ctx, id, arrival)
}

func (d *dying) Sends(ctx context.Context, ns map[string]int) (out map[string]dlqbridge.Send, err error) {
	if d.call("sends", 1, func(int) { out, err = d.cases.Sends(ctx, ns) }) {
		return nil, errDead
	}
	return out, err
}

func (d *dying) RecordsByMessage(ctx context.Context, ids []string) (out map[string]string, err error) {
	if d.call("find", 1, func(int) { out, err = d.messages.RecordsByMessage(ctx, ids) }) {
		return nil, errDead
	}
	return out, err
}

// redriven claims a record and notes that its number 1 went out as a message,
// as a job would.
func (w *world) redriven(c dlqbridge.Control, messageID string) dlqbridge.Control {
	w.t.Helper()
	now := w.Clock().Now().Truncate(time.Millisecond)
	c = w.move(c, dlqbridge.VerbAuthorize, func(to *dlqbridge.Control) {
		to.Status = dlqbridge.StatusAuthorized
		to.Authorized = &dlqbridge.Authorization{By: "test", At: now, Action: dlqbridge.ActionRetry}
	})
	c = w.move(c, dlqbridge.VerbClaim, func(to *dlqbridge.Control) {
		to.Status, to.Redrives, to.LastSend = dlqbridge.StatusRedriving, c.Redrives+1, now
		to.Claim = &dlqbridge.Claim{Job: "j_job", N: c.Redrives + 1, Until: now.Add(time.Minute)}
	})
	if messageID != "" {
		must(w.t, w.store.Put(w.t.Context(), []dlqbridge.Evidence{{Record: c.ID, Item: dlqbridge.Send{
			N: c.Redrives, Job: "j_job", Action: dlqbridge.ActionRetry, At: now, MessageID: messageID, Outcome: dlqbridge.OutcomeSent, Marked: true, Tries: 1,
		}}})...)
	}
	return c
}

func markOf(c dlqbridge.Control) string {
	return fmt.Sprintf(`{"rec":%q,"job":"j_job","n":%d,"act":"retry"}`, c.ID, c.Redrives)
}

// scene fills a world with one letter of every kind.
func scene(w *world) {
	full := message{body: "ten", attributes: map[string]string{}}
	for i := range 10 {
		full.attributes[fmt.Sprintf("a%d", i)] = "x"
	}
	first := w.send(task("open", ""), task("redriving", ""), task("late", ""), task("closed", ""), full)
	w.die()
	w.drain()
	before := w.cases()
	marked := task("redriving", "")
	marked.attributes[dlqbridge.MarkName] = markOf(w.redriven(before["redriving"].Control, "m-unknown"))
	w.redriven(before["late"].Control, "m-other")
	w.move(before["closed"].Control, dlqbridge.VerbReject, func(to *dlqbridge.Control) {
		to.Status, to.ClosedAt = dlqbridge.StatusRejected, w.Clock().Now().Truncate(time.Millisecond)
	})
	ids := w.send(task("new", ""), task("twice", ""), task("twice", ""), message{body: "plain"}, task("open", ""), marked, task("late", ""), task("closed", ""), full)
	// The message with ten attributes went home without a mark; its id is noted.
	w.redriven(before[first[4]].Control, ids[8])
	w.die()
}

// outcome is what must be the same however often intake died.
type outcome struct {
	Status   dlqbridge.Status
	Verbs    []dlqbridge.Verb
	Arrivals int
	Letters  int // stored
	Flags    string
}

func (w *world) outcomes() map[string]outcome {
	out := map[string]outcome{}
	for key, c := range w.cases() {
		if c.Control.TaskID == "" {
			// Message ids are random, so by body instead.
			p, err := w.store.Payload(w.t.Context(), c.Control.ID, c.Arrivals[0].Key)
			must(w.t, err)
			key = "body " + string(p.Body)
		}
		letters := 0
		for _, m := range c.History {
			if m.Arrival == "" {
				continue
			}
			if c.Arrival(m.Arrival) == nil {
				w.t.Errorf("%s: history names an arrival that is not there", key)
			}
			if _, err := w.store.Payload(w.t.Context(), c.Control.ID, m.Arrival); err != nil {
				w.t.Errorf("%s: payload: %v", key, err)
			}
			if m.Context != "" && c.Context(m.Context) == nil {
				w.t.Errorf("%s: history names a context that is not there", key)
			}
			letters++
		}
		if c.Control.Version != len(c.History) {
			w.t.Errorf("%s: version %d with %d history entries", key, c.Control.Version, len(c.History))
		}
		out[key] = outcome{
			c.Control.Status, verbs(c), c.Control.Arrivals, letters,
			fmt.Sprintf("late=%v conflict=%v recurrences=%d previous=%v", c.Control.Late, c.Control.Conflict, c.Control.Recurrences, c.Control.Previous != ""),
		}
	}
	return out
}

func wantOutcomes() map[string]outcome {
	const (
		receive = dlqbridge.VerbReceive
		looked  = dlqbridge.StatusUnderInvestigation
	)
	quiet := "late=false conflict=false recurrences=0 previous=false"
	return map[string]outcome{
		"new":        {looked, []dlqbridge.Verb{receive}, 1, 1, quiet},
		"twice":      {looked, []dlqbridge.Verb{receive, receive}, 2, 2, quiet},
		"body plain": {looked, []dlqbridge.Verb{receive}, 1, 1, quiet},
		"open":       {looked, []dlqbridge.Verb{receive, receive}, 2, 2, quiet},
		"redriving": {
			looked,
			[]dlqbridge.Verb{receive, dlqbridge.VerbAuthorize, dlqbridge.VerbClaim, dlqbridge.VerbRecur},
			2, 2,
			"late=false conflict=false recurrences=1 previous=false",
		},
		"body ten": {
			looked,
			[]dlqbridge.Verb{receive, dlqbridge.VerbAuthorize, dlqbridge.VerbClaim, dlqbridge.VerbRecur},
			2, 2,
			"late=false conflict=false recurrences=1 previous=false",
		},
		"late": {
			dlqbridge.StatusRedriving,
			[]dlqbridge.Verb{receive, dlqbridge.VerbAuthorize, dlqbridge.VerbClaim, receive},
			2, 2,
			"late=true conflict=false recurrences=0 previous=false",
		},
		"closed":   {dlqbridge.StatusRejected, []dlqbridge.Verb{receive, dlqbridge.VerbReject}, 1, 1, quiet},
		"closed#1": {looked, []dlqbridge.Verb{receive}, 1, 1, "late=false conflict=false recurrences=0 previous=true"},
	}
}

// I1, I3, C01, C59: wherever intake dies, the next one completes what was begun,
// nothing is lost and nothing is there twice.
func TestIntakeMayDieAnywhere(t *testing.T) {
	total := 0
	synctest.Test(t, func(t *testing.T) { // first without dying: how many calls there are
		w := newWorld(t, "")
		scene(w)
		d := &dying{ports: w.ports(), kill: func() {}}
		o := w.options(ports{d, d, d, d, d})
		o.Pollers = 1
		counts, err := w.intake(o)
		must(t, err)
		if want := (enrich.Counts{Letters: 9, Records: 4, Arrivals: 9}); counts != want {
			t.Errorf("counts: got %+v, want %+v", counts, want)
		}
		if diff := cmp.Diff(wantOutcomes(), w.outcomes()); diff != "" {
			t.Error(diff)
		}
		total = len(d.calls)
		t.Logf("%d calls: %v", total, d.calls)
	})
	if t.Failed() {
		return
	}
	for at := 1; at <= total; at++ {
		for _, how := range []cut{cutBefore, cutHalf, cutAfter} {
			t.Run(fmt.Sprintf("%s call %d", how, at), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { dieAndGoOn(t, at, how) })
			})
		}
	}
}

func dieAndGoOn(t *testing.T, at int, how cut) {
	w := newWorld(t, "")
	scene(w)
	ctx, cancel := context.WithCancel(t.Context())
	d := &dying{ports: w.ports(), at: at, how: how, kill: cancel}
	o := w.options(ports{d, d, d, d, d})
	o.Pollers = 1
	in, err := enrich.NewIntake(o)
	must(t, err)
	if _, err := in.UntilEmpty(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	// I1: what is no longer in the queue stands on a record.
	stored := 0
	for _, o := range w.outcomes() {
		stored += o.Letters
	}
	if left := w.depth(w.dlq); left+stored < 5+9 {
		t.Errorf("after dying: %d letters in the queue and %d stored, want at least %d", left, stored, 5+9)
	}
	w.Clock().Advance(time.Minute) // letters that were in hand come again
	w.drain()
	if n := w.depth(w.dlq); n != 0 {
		t.Errorf("%d letters left", n)
	}
	if diff := cmp.Diff(wantOutcomes(), w.outcomes()); diff != "" {
		t.Errorf("calls until then %v: %s", d.calls, diff)
	}
}

// The same with lost answers: the call is carried out and nobody hears of it.
func TestC59LostAnswers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for i := range 50 {
			w.send(task(fmt.Sprint("t-", i), ""))
		}
		w.die()
		w.fault(localstack.Fault{Service: "dynamodb", Operation: "PutItem", Do: localstack.DoDropAfter, Times: 5, Skip: 7})
		w.fault(localstack.Fault{Service: "dynamodb", Operation: "BatchWriteItem", Do: localstack.DoDropAfter, Times: 2, Skip: 1})
		w.fault(localstack.Fault{Service: "sqs", Operation: "DeleteMessageBatch", Do: localstack.DoDropAfter, Times: 2})
		counts := w.drain()
		if counts.Records != 50 || counts.Arrivals != 50 || counts.Unstored != 0 {
			t.Errorf("counts: %+v", counts)
		}
		if n := len(w.cases()); n != 50 {
			t.Errorf("%d records", n)
		}
	})
}
