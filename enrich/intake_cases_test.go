package enrich_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/enrich"
	"github.com/dlqbridge/dlqbridge/localstack"
)

func tasks(n int) []message {
	var out []message
	for i := range n {
		out = append(out, task(fmt.Sprintf("t-%03d", i), ""))
	}
	return out
}

func recordOf(id string) string {
	return dlqbridge.RecordID(dlqbridge.IdentityTask, arn("orders"), "", id, 0)
}

// refusing refuses control items of some records; nothing of it is carried out.
type refusing struct {
	dlqbridge.Controls
	err    error
	refuse func(dlqbridge.Control) bool
}

func (r refusing) Create(ctx context.Context, controls []dlqbridge.Control) []dlqbridge.Created {
	out := make([]dlqbridge.Created, len(controls))
	var pass []dlqbridge.Control
	var at []int
	for i, c := range controls {
		if r.refuse(c) {
			out[i].Err = fmt.Errorf("create record %s: %w", c.ID, r.err)
			continue
		}
		pass, at = append(pass, c), append(at, i)
	}
	for i, answer := range r.Controls.Create(ctx, pass) {
		out[at[i]] = answer
	}
	return out
}

// C01: a letter whose record is refused stays, and is never deleted.
func TestC01RefusedLetterStays(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.send(tasks(10)...)
		w.die()
		w.fault(localstack.Fault{Service: "dynamodb", Contains: recordOf("t-004"), Do: localstack.DoError, Code: "AccessDeniedException", Status: 400, Times: -1})
		counts := w.drain()
		if want := (enrich.Counts{Letters: 10, Records: 9, Arrivals: 9, Unstored: 1}); counts != want {
			t.Errorf("counts: got %+v, want %+v", counts, want)
		}
		if n := w.depth(w.dlq); n != 1 {
			t.Errorf("%d letters left, want 1", n)
		}
		if n := len(w.cases()); n != 9 {
			t.Errorf("%d records, want 9", n)
		}
		// It becomes visible again, and with the right given back it is stored.
		w.ClearFaults()
		w.Clock().Advance(time.Hour)
		if counts := w.drain(); counts.Records != 1 || w.depth(w.dlq) != 0 {
			t.Errorf("afterwards: %+v, %d left", counts, w.depth(w.dlq))
		}
	})
}

// C02: a failed entry of a delete is deleted again, the others once.
func TestC02FailedDeleteEntry(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.send(tasks(10)...)
		w.die()
		w.fault(localstack.Fault{Service: "sqs", Operation: "DeleteMessageBatch", Do: localstack.DoFailEntries, Entries: localstack.Entries{Positions: []int{3}}, Code: "InternalError"})
		w.ForgetRequests()
		w.drain()
		entries := 0
		for _, r := range w.requests("sqs", "DeleteMessageBatch") {
			entries += len(r["Entries"].([]any))
		}
		if entries != 11 || w.depth(w.dlq) != 0 {
			t.Errorf("%d deleted entries, %d letters left; want 11 and 0", entries, w.depth(w.dlq))
		}
	})
}

// C03, I2: what cannot be stored whole is stored bare, in its own time.
func TestC03UnstorableLetterIsStoredBare(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.send(append([]message{task("bad", "")}, tasks(200)...)...)
		w.die()
		w.fault(localstack.Fault{Service: "dynamodb", Contains: recordOf("bad"), Do: localstack.DoError, Code: "ValidationException", Status: 400, Times: -1})
		seen := &watch{}
		o := w.options(w.ports())
		o.Observer = seen
		began := w.Clock().Now()
		counts, err := w.intake(o)
		must(t, err)
		if want := (enrich.Counts{Letters: 201, Records: 201, Arrivals: 201}); counts != want {
			t.Errorf("counts: got %+v, want %+v", counts, want)
		}
		if took := w.Clock().Now().Sub(began); took > 30*time.Second {
			t.Errorf("took %s", took)
		}
		if n := seen.count(enrich.EventBare); n != 1 {
			t.Errorf("%d stored bare, want 1", n)
		}
		var bare []dlqbridge.Case
		for _, c := range w.cases() {
			if c.Control.Why == enrich.WhyBare {
				bare = append(bare, c)
			}
		}
		if len(bare) != 1 || bare[0].Control.Cause != dlqbridge.CauseUnclassified || bare[0].Control.Status != dlqbridge.StatusUnderInvestigation {
			t.Fatalf("bare records: %+v", bare)
		}
		p, err := w.store.Payload(t.Context(), bare[0].Control.ID, bare[0].Control.Newest)
		must(t, err)
		if string(p.Body) != `{"order":"bad"}` || len(p.Attributes) != 1 {
			t.Errorf("payload: %+v", p)
		}
		// A restart does not bring the stall back.
		w.send(task("bad", ""))
		w.sendTo(w.source, tasks(250)[200:]...)
		w.die()
		if counts := w.drain(); counts.Letters != 51 || counts.Unstored != 0 {
			t.Errorf("afterwards: %+v", counts)
		}
	})
}

// I2: a letter that can be written in no form blocks nobody, is not received in
// a hot loop, and ends a one-shot run as unstored.
func TestUnstoredLetterIsBackedOff(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.send(append([]message{task("bad", "")}, tasks(20)...)...)
		w.die()
		p := w.ports()
		var key atomic.Value // several savers ask at once
		p.controls = refusing{w.store, dlqbridge.ErrInvalid, func(c dlqbridge.Control) bool {
			if c.ID == recordOf("bad") {
				key.Store(c.Newest)
			}
			return c.Newest == key.Load()
		}}
		seen := &watch{}
		o := w.options(p)
		o.Observer = seen
		counts, err := w.intake(o)
		must(t, err)
		if want := (enrich.Counts{Letters: 21, Records: 20, Arrivals: 20, Unstored: 1}); counts != want {
			t.Errorf("counts: got %+v, want %+v", counts, want)
		}
		// As a service, over an hour: received a handful of times.
		in, err := enrich.NewIntake(o)
		must(t, err)
		ctx, stop := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() {
			if err := in.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		before := seen.count(enrich.EventReceived)
		time.Sleep(time.Hour) // virtual
		stop()
		done.Wait()
		if n := seen.count(enrich.EventReceived) - before; n < 2 || n > 12 {
			t.Errorf("received %d times in an hour", n)
		}
	})
}

// A store that can be written by nobody is an error that names what is missing.
func TestRunWithoutRightsIsAnError(t *testing.T) {
	for _, n := range []int{1, 10, 25} {
		inWorld(t, func(t *testing.T, w *world) {
			w.send(tasks(n)...)
			w.die()
			w.fault(localstack.Fault{Service: "dynamodb", Operation: "BatchWriteItem", Do: localstack.DoError, Code: "AccessDeniedException", Message: "no", Status: 400, Times: -1})
			w.fault(localstack.Fault{Service: "dynamodb", Operation: "PutItem", Do: localstack.DoError, Code: "AccessDeniedException", Message: "no", Status: 400, Times: -1})
			_, err := w.intake(w.options(w.ports()))
			if !errors.Is(err, dlqbridge.ErrDenied) || !strings.Contains(err.Error(), "dynamodb:") {
				t.Errorf("%d letters: got %v, want ErrDenied with the right's name", n, err)
			}
			in, err := enrich.NewIntake(w.options(w.ports()))
			must(t, err)
			w.Clock().Advance(time.Hour)
			if err := in.Run(t.Context()); !errors.Is(err, dlqbridge.ErrDenied) { // the service ends too, in minutes
				t.Errorf("%d letters: the service ended with %v, want ErrDenied", n, err)
			}
			if left := w.depth(w.dlq); left != n {
				t.Errorf("%d of %d letters left", left, n)
			}
		})
	}
	inWorld(t, func(t *testing.T, w *world) {
		w.fault(localstack.Fault{Service: "sqs", Operation: "ReceiveMessage", Do: localstack.DoError, Code: "AccessDenied", Message: "no", Status: 403, Times: -1})
		if _, err := w.intake(w.options(w.ports())); !errors.Is(err, dlqbridge.ErrDenied) || !strings.Contains(err.Error(), "orders-dlq") {
			t.Errorf("got %v, want ErrDenied with the queue's name", err)
		}
		in, err := enrich.NewIntake(w.options(w.ports()))
		must(t, err)
		if err := in.Run(t.Context()); !errors.Is(err, dlqbridge.ErrDenied) {
			t.Errorf("service: got %v, want ErrDenied", err)
		}
	})
}

// twice hands every letter out twice, with two handles, as at-least-once
// delivery may.
type twice struct{ dlqbridge.DeadLetters }

func (d twice) Receive(ctx context.Context, limit int, wait time.Duration) ([]dlqbridge.Letter, error) {
	letters, err := d.DeadLetters.Receive(ctx, limit/2, wait)
	return slices.Concat(letters, letters), err
}

// C06: the same message twice in one batch.
func TestC06TheSameLetterTwiceInOneBatch(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.send(tasks(5)...)
		w.die()
		p := w.ports()
		p.letters = twice{p.letters}
		w.ForgetRequests()
		counts, err := w.intake(w.options(p))
		must(t, err)
		if want := (enrich.Counts{Letters: 5, Records: 5, Arrivals: 5}); counts != want || w.depth(w.dlq) != 0 {
			t.Errorf("counts: got %+v, want %+v; %d left", counts, want, w.depth(w.dlq))
		}
	})
}

// C17, C19, C21: bodies are kept byte for byte.
func TestC17BodiesAreKeptAsTheyAre(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		bodies := []string{
			"deadbeef", "SGVsbG8=", "1234", "abcd", `{"k":1}`, "\xEF\xBB\xBF{\"task\":\"resize\",\"task_id\":17}", `{"k":"\ud800"}`, `{"a":1,"a":2}`,
			strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40), `{"order_id":616581622363398142,"neg":-6221876622438591526}`, " \t{}\n",
		}
		for _, b := range bodies {
			w.send(message{body: b})
		}
		w.die()
		w.drain()
		var got []string
		for _, c := range w.cases() {
			p, err := w.store.Payload(t.Context(), c.Control.ID, c.Control.Newest)
			must(t, err)
			got = append(got, string(p.Body))
			if a := c.Arrivals[0]; a.PayloadSHA256 != p.Hash() || a.PayloadBytes != len(p.Body) {
				t.Errorf("arrival says %s, %d bytes", a.PayloadSHA256, a.PayloadBytes)
			}
		}
		slices.Sort(bodies)
		slices.Sort(got)
		if !slices.Equal(bodies, got) {
			t.Errorf("got %q, want %q", got, bodies)
		}
	})
}

// C64: a delete that fails is tried again when the letter comes again; a new
// death after a redrive is a new arrival, not a duplicate.
func TestC64RedeliveryAndNewFailure(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.send(task("t", ""))
		w.die()
		p := w.ports()
		p.letters = &undeletable{DeadLetters: p.letters, times: 3}
		counts, err := w.intake(w.options(p))
		must(t, err)
		if want := (enrich.Counts{Letters: 1, Records: 1, Arrivals: 1, Duplicates: 3}); counts != want || w.depth(w.dlq) != 0 {
			t.Errorf("counts: got %+v, want %+v", counts, want)
		}
		c := w.redriven(w.cases()["t"].Control, "m-1")
		again := task("t", "")
		again.attributes[dlqbridge.MarkName] = markOf(c)
		w.send(again)
		w.die()
		if counts := w.drain(); counts.Arrivals != 1 || counts.Duplicates != 0 {
			t.Errorf("after the redrive: %+v", counts)
		}
		got := w.cases()["t"]
		wantVerbs(t, got, dlqbridge.VerbReceive, dlqbridge.VerbAuthorize, dlqbridge.VerbClaim, dlqbridge.VerbRecur)
		if len(got.Arrivals) != 2 || got.Control.Recurrences != 1 || got.Control.Claim != nil {
			t.Errorf("record: %+v", got.Control)
		}
		if d := enrich.Show(got, enrich.Around{}); len(d.Redrives) != 1 || d.Redrives[0].Outcome != dlqbridge.OutcomeRecurred || len(d.Arrivals) != 2 {
			t.Errorf("document: %+v", d.Redrives)
		}
	})
}

// undeletable fails the first deletes.
type undeletable struct {
	dlqbridge.DeadLetters
	times int
}

func (d *undeletable) Delete(ctx context.Context, letters []dlqbridge.Letter) []error {
	if d.times > 0 {
		d.times--
		return slices.Repeat([]error{dlqbridge.ErrUnavailable}, len(letters))
	}
	return d.DeadLetters.Delete(ctx, letters)
}

// C68: what the table did not process is not deleted before it was written.
func TestC68UnprocessedItems(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.send(tasks(25)...)
		w.die()
		w.fault(localstack.Fault{Service: "dynamodb", Operation: "BatchWriteItem", Do: localstack.DoUnprocessed, Count: 6, Times: 4})
		if counts := w.drain(); counts.Records != 25 || w.depth(w.dlq) != 0 {
			t.Errorf("counts %+v, %d left", counts, w.depth(w.dlq))
		}
		w.outcomes() // checks that everything named is there
	})
}

// C71: two letters of one task in the same instant are two arrivals.
func TestC71TwoLettersInOneInstant(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.send(task("t", ""), task("t", "")) // virtual time stands still between the two
		w.die()
		w.drain()
		c := w.cases()["t"]
		if len(c.Arrivals) != 2 || !c.Arrivals[0].SentAt.Equal(c.Arrivals[1].SentAt) {
			t.Errorf("arrivals: %+v", c.Arrivals)
		}
		wantVerbs(t, c, dlqbridge.VerbReceive, dlqbridge.VerbReceive)
	})
}

// On FIFO an unstorable letter blocks its group and nobody else's, and the
// one-shot run still ends.
func TestUnstoredOnFIFOBlocksItsGroupOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ".fifo")
		for i := range 30 {
			m := task(fmt.Sprintf("t-%03d", i), "")
			m.group = fmt.Sprint("g", i%3)
			w.send(m)
		}
		w.die()
		bad := dlqbridge.RecordID(dlqbridge.IdentityTask, arn("orders.fifo"), "", "t-000", 0)
		w.fault(localstack.Fault{Service: "dynamodb", Contains: bad, Do: localstack.DoError, Code: "AccessDeniedException", Status: 400, Times: -1})
		counts := w.drain()
		if counts.Unstored != 1 || counts.Records < 20 {
			t.Errorf("counts: %+v", counts)
		}
		for i := range 30 {
			if _, ok := w.cases()[fmt.Sprintf("t-%03d", i)]; !ok && i%3 != 0 {
				t.Errorf("t-%03d of another group has no record", i)
			}
		}
	})
}

// A mark is believed only with our own job and number, for the same work.
func TestForgedMarks(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.send(task("mine", `,"tenant":"a"`), task("other", `,"tenant":"a"`))
		w.die()
		w.drain()
		mine := w.redriven(w.cases()["mine"].Control, "m-1")
		for i, mark := range []string{
			strings.Replace(markOf(mine), "j_job", "j_forged", 1),
			strings.Replace(markOf(mine), `"n":1`, `"n":2`, 1),
			strings.Replace(markOf(mine), mine.ID, recordOf("nobody"), 1),
		} {
			m := task("mine", `,"tenant":"a"`)
			m.body += strings.Repeat(" ", i) // another message each time
			m.attributes[dlqbridge.MarkName] = mark
			w.send(m)
		}
		foreign := task("theirs", `,"tenant":"b"`) // the right mark on somebody else's task
		foreign.attributes[dlqbridge.MarkName] = markOf(mine)
		w.send(foreign)
		w.die()
		w.drain()
		got := w.cases()
		if c := got["mine"].Control; c.Status != dlqbridge.StatusRedriving || !c.Late || c.Recurrences != 0 || c.Claim == nil || c.Arrivals != 4 {
			t.Errorf("record: %+v", c)
		}
		if c := got["theirs"].Control; c.Arrivals != 1 || c.Version != 1 {
			t.Errorf("the other tenant's record: %+v", c)
		}
	})
}

// A worker that dead-letters by itself may leave the tenant out. With our mark on
// it, it is a return all the same, so that it counts and is sent by nobody under
// another record; and whose task it is stays what the record says.
func TestReturnWithoutItsTenant(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.send(task("mine", `,"tenant":"a"`), task("silent", ``))
		w.die()
		w.drain()
		var tenants []string
		o := w.options(w.ports())
		r := w.route()
		r.Stores = []dlqbridge.Store{listening{teller{"ledger", dlqbridge.Testimony{Task: &dlqbridge.Task{TaskID: "mine", Tenant: "b"}, Findings: []dlqbridge.Finding{notStarted}}}, &tenants}}
		o.Places[0].Enricher = enricher(t, r)
		mine := w.redriven(w.cases()["mine"].Control, "m-1")
		silent := w.redriven(w.cases()["silent"].Control, "m-2")

		forged := task("another", ``) // another task, and a number that nobody sent
		forged.attributes[dlqbridge.MarkName] = markOf(mine)
		unsent := task("mine", ``)
		unsent.body += " "
		unsent.attributes[dlqbridge.MarkName] = strings.Replace(markOf(mine), `"n":1`, `"n":2`, 1)
		named := task("silent", `,"tenant":"a"`) // a tenant that the record does not have
		named.attributes[dlqbridge.MarkName] = markOf(silent)
		w.send(forged, unsent, named)
		w.die()
		_, err := w.intake(o)
		must(t, err)
		if c := w.read(mine.ID).Control; c.Recurrences != 0 || c.Arrivals != 1 || c.Claim == nil {
			t.Errorf("moved by a mark that is not its own: %+v", c)
		}
		if c := w.read(silent.ID).Control; c.Recurrences != 0 || c.Arrivals != 1 {
			t.Errorf("joined by another tenant's letter: %+v", c)
		}

		back := task("mine", ``)
		back.attributes[dlqbridge.MarkName] = markOf(mine)
		w.send(back)
		w.die()
		tenants = nil
		counts, err := w.intake(o)
		must(t, err)
		if counts.Records != 0 || counts.Arrivals != 1 {
			t.Errorf("counts: %+v", counts)
		}
		c := w.read(mine.ID)
		wantVerbs(t, c, dlqbridge.VerbReceive, dlqbridge.VerbAuthorize, dlqbridge.VerbClaim, dlqbridge.VerbRecur)
		if k := c.Control; k.Recurrences != 1 || k.Claim != nil || k.Tenant != "a" || k.Why != dlqbridge.WhyConflict {
			t.Errorf("record: %+v", k)
		}
		if !slices.Equal(tenants, []string{"a"}) {
			t.Errorf("the store was asked about tenants %q", tenants)
		}
		if x := c.Contexts[len(c.Contexts)-1]; x.Task.Tenant != "a" || x.Tenants["ledger"] != "b" || x.Folded.State == dlqbridge.EffectNone {
			t.Errorf("another tenant's ledger is believed: %+v", x)
		}
	})
}

// listening notes the tenants that it is asked about.
type listening struct {
	teller
	tenants *[]string
}

func (s listening) Ask(ctx context.Context, questions []dlqbridge.Question) []dlqbridge.Testimony {
	for _, q := range questions {
		*s.tenants = append(*s.tenants, q.Tenant)
	}
	return s.teller.Ask(ctx, questions)
}

func (w *world) read(id string) dlqbridge.Case {
	w.t.Helper()
	c, err := w.store.Case(w.t.Context(), id)
	must(w.t, err)
	return c
}

// C77, I12: nothing of a letter's content reaches the control item's texts or
// events, whatever it holds.
func TestControlItemHoldsNoContent(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := task("t", `,"code":"E1","msg":"secret-message"`)
		m.attributes["customer"] = "\x1b[2Jsecret-customer"
		delete(m.attributes, "customer") // SQS refuses control characters; the body may hold escaped ones
		m.body = `{"note":"secret-body"}`
		w.send(m)
		w.die()
		w.drain()
		for _, r := range w.Requests("dynamodb", 0) {
			if r.Operation == "PutItem" && strings.Contains(string(r.Request), "secret-") {
				t.Errorf("control item: %s", r.Request)
			}
		}
	})
}

// A letter that comes back after its observation has ended is a recurrence all
// the same: it counts, and the document says so of its send.
func TestReturnAfterTheObservation(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.send(task("t", ""))
		w.die()
		w.drain()
		c := w.redriven(w.cases()["t"].Control, "m-1")
		mark := markOf(c)
		w.move(c, dlqbridge.VerbUnconfirmed, func(to *dlqbridge.Control) {
			to.Status, to.Claim, to.Authorized = dlqbridge.StatusAwaitingOperationalDecision, nil, nil
			to.Move.Job, to.Move.N = "j_job", 1
		})
		m := task("t", "")
		m.attributes[dlqbridge.MarkName] = mark
		w.send(m)
		w.die()
		w.drain()
		got := w.cases()["t"]
		wantVerbs(t, got, dlqbridge.VerbReceive, dlqbridge.VerbAuthorize, dlqbridge.VerbClaim, dlqbridge.VerbUnconfirmed, dlqbridge.VerbReceive)
		if got.Control.Recurrences != 1 || got.Control.Late || got.Control.Conflict {
			t.Errorf("record: %+v", got.Control)
		}
		if d := enrich.Show(got, enrich.Around{}); d.Redrives[0].Outcome != dlqbridge.OutcomeRecurred {
			t.Errorf("outcome: %s", d.Redrives[0].Outcome)
		}
	})
}

// A record without task id is found by its mark, open or closed.
func TestReturnWithoutTaskID(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.send(message{body: "open"}, message{body: "closed"})
		w.die()
		w.drain()
		var again []message
		for _, c := range w.cases() {
			p, err := w.store.Payload(t.Context(), c.Control.ID, c.Control.Newest)
			must(t, err)
			k := w.redriven(c.Control, "m-"+string(p.Body))
			again = append(again, message{body: string(p.Body), attributes: map[string]string{dlqbridge.MarkName: markOf(k)}})
			if string(p.Body) == "closed" {
				w.move(k, dlqbridge.VerbComplete, func(to *dlqbridge.Control) {
					to.Status, to.Claim, to.Authorized, to.ClosedAt = dlqbridge.StatusCompleted, nil, nil, w.Clock().Now().Truncate(time.Millisecond)
				})
			}
		}
		w.send(again...)
		w.die()
		if counts := w.drain(); counts.Records != 1 || counts.Arrivals != 2 {
			t.Errorf("counts: %+v", counts)
		}
		linked := 0
		for _, c := range w.cases() {
			switch {
			case c.Control.Previous != "":
				linked++
				if c.Control.Why != dlqbridge.WhyLinked || c.Control.Status != dlqbridge.StatusUnderInvestigation {
					t.Errorf("linked: %+v", c.Control)
				}
			case c.Control.Status == dlqbridge.StatusCompleted:
				if c.Control.Arrivals != 1 {
					t.Errorf("the closed record was changed: %+v", c.Control)
				}
			default:
				wantVerbs(t, c, dlqbridge.VerbReceive, dlqbridge.VerbAuthorize, dlqbridge.VerbClaim, dlqbridge.VerbRecur)
			}
		}
		if linked != 1 {
			t.Errorf("%d linked records, want 1", linked)
		}
	})
}
