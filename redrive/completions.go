package redrive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"
	"unicode/utf8"

	"github.com/dlqbridge/dlqbridge"
)

// A completion message is a worker's word that the work it was sent is done. It
// is believed only where the record that it names has a noted send of that
// number on the route that reads it, and it ends that number and no other.
//
// Crash before the move: the message stays where it is and is read again. After
// the move and before the message is deleted: it is read again, found to be
// done, and deleted then.

// CompletionMessage is what a worker writes. Its JSON form is public.
type CompletionMessage struct {
	// Record and N are those of the mark. Without a record TaskID, and Tenant
	// where the task has one, say which, as long as the task has one record.
	// Beside a record they must be its own; an empty one says nothing.
	Record string `json:"record"`
	N      int    `json:"n"`
	TaskID string `json:"taskId"`
	Tenant string `json:"tenant"`
	// State is completed, or compensated for a compensation.
	State string `json:"state"`
	// Run and At are for the evidence; both may be left out.
	Run string    `json:"run"`
	At  time.Time `json:"at,omitzero"`
}

// Confirmations counts what became of completion messages. Its JSON form is public.
type Confirmations struct {
	// Completed ended a redrive, Repeated say what is known already; both are
	// deleted. Waiting cannot be believed yet, Unknown at all: both stay.
	Completed int `json:"completed"`
	Repeated  int `json:"repeated"`
	Waiting   int `json:"waiting"`
	Unknown   int `json:"unknown"`
}

// Add adds another count.
func (n *Confirmations) Add(o Confirmations) {
	n.Completed += o.Completed
	n.Repeated += o.Repeated
	n.Waiting += o.Waiting
	n.Unknown += o.Unknown
}

// Bounds of one look at a place.
const (
	completionBatch = 10
	completionLooks = 200 // a look ends, however fast workers are
	completionWait  = time.Second
	// What cannot be believed yet comes again soon; what will not be is left to
	// the place's own redrive policy or retention, without a hot loop.
	completionSoon  = 30 * time.Second
	completionLater = 10 * time.Minute
	maxCompletion   = 16 << 10
)

// Completions reads a route's completion messages until there are none, or
// enough for one look.
func (c *Controller) Completions(ctx context.Context, route string, place dlqbridge.DeadLetters) (Confirmations, error) {
	var sum Confirmations
	for range completionLooks {
		letters, err := place.Receive(ctx, completionBatch, completionWait)
		if err != nil {
			return sum, fmt.Errorf("completion messages of route %s: %w", route, err)
		}
		if len(letters) == 0 {
			return sum, nil
		}
		n, err := c.confirmAll(ctx, route, place, letters)
		sum.Add(n)
		if err != nil {
			return sum, fmt.Errorf("completion messages of route %s: %w", route, err)
		}
	}
	return sum, nil
}

// verdict is what becomes of one message.
type verdict int

const (
	verdictUnknown verdict = iota
	verdictWaiting
	verdictRepeated
	verdictCompleted
)

func (c *Controller) confirmAll(ctx context.Context, route string, place dlqbridge.DeadLetters, letters []dlqbridge.Letter) (Confirmations, error) {
	var n Confirmations
	var done, soon, later []dlqbridge.Letter
	var failed error
	for _, l := range letters {
		v, why, err := c.confirm(ctx, route, l)
		switch {
		case err != nil: // it comes again after the place's own timeout
			failed = errors.Join(failed, err)
			continue
		case v == verdictCompleted:
			n.Completed++
			done = append(done, l)
		case v == verdictRepeated:
			n.Repeated++
			done = append(done, l)
		case v == verdictWaiting:
			n.Waiting++
			soon = append(soon, l)
		default:
			n.Unknown++
			later = append(later, l)
			c.o.Log.WarnContext(ctx, "a completion message is not believed and stays in its place",
				slog.String("route", route), slog.String("place", place.Place()), slog.String("message_id", l.MessageID), slog.String("why", why))
		}
	}
	if len(done) > 0 {
		failed = errors.Join(failed, errors.Join(place.Delete(ctx, done)...))
	}
	for _, one := range []struct {
		letters []dlqbridge.Letter
		after   time.Duration
	}{{soon, completionSoon}, {later, completionLater}} {
		if len(one.letters) > 0 {
			_ = errors.Join(place.Hide(ctx, one.letters, one.after)...) // or it comes again after the place's own timeout
		}
	}
	return n, failed
}

// confirm deals with one message, again where somebody else moves its record.
func (c *Controller) confirm(ctx context.Context, route string, l dlqbridge.Letter) (verdict, string, error) {
	m, why := readCompletion(l.Payload.Body)
	if why != "" {
		return verdictUnknown, why, nil
	}
	id, why, err := c.recordOf(ctx, route, m)
	if err != nil || why != "" {
		return verdictUnknown, why, err
	}
	for range c.o.Tries {
		controls, err := c.read(ctx, []string{id})
		if err != nil {
			return verdictUnknown, "", err
		}
		notes, err := c.sends(ctx, map[string]int{id: m.N})
		if err != nil {
			return verdictUnknown, "", err
		}
		ctl, ok := controls[id]
		switch {
		case !ok || ctl.Route != route:
			return verdictUnknown, "its route has no such record", nil
		case m.TaskID != "" && ctl.TaskID != dlqbridge.Short(m.TaskID), m.Tenant != "" && ctl.Tenant != dlqbridge.Short(m.Tenant):
			return verdictUnknown, "its record is of another task or tenant", nil
		}
		note, noted := notes[id]
		v, why := believed(ctl, note, noted, m)
		if v != verdictCompleted {
			return v, why, nil
		}
		if err := c.confirmed(ctx, ctl, note, m, l); !errors.Is(err, dlqbridge.ErrConflict) {
			return v, "", err
		}
	}
	return verdictWaiting, "", nil
}

// readCompletion reads a message's body; why says what is wrong with it, without
// repeating it.
func readCompletion(body []byte) (m CompletionMessage, why string) {
	if len(body) > maxCompletion {
		return m, "it is too long"
	}
	if decodeCompletion(body, &m) != nil {
		return CompletionMessage{}, "its body is not the JSON of a completion message"
	}
	switch {
	case m.State != "completed" && m.State != "compensated":
		return m, "its state is neither completed nor compensated"
	case m.N < 1:
		return m, "it names no redrive number"
	case m.Record == "" && m.TaskID == "":
		return m, "it names neither a record nor a task"
	case m.Record != "" && !dlqbridge.ValidRecordID(m.Record):
		return m, "it names no record"
	}
	return m, ""
}

// decodeCompletion takes the documented fields and nothing else: each once, under
// its exact name. Whoever names a record twice, or says more than we understand,
// may mean another one.
func decodeCompletion(body []byte, m *CompletionMessage) error {
	if !utf8.Valid(body) {
		return errors.New("it is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	field := func(into any) func() error { return func() error { return d.Decode(into) } }
	rest, err := object(d, map[string]func() error{
		"record": field(&m.Record), "n": field(&m.N), "taskId": field(&m.TaskID), "tenant": field(&m.Tenant),
		"state": field(&m.State), "run": field(&m.Run), "at": field(&m.At),
	})
	if err != nil {
		return err
	}
	if len(rest) > len("{}") {
		return errors.New("it has fields that are not known")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something stands behind it")
	}
	return nil
}

// recordOf finds the record that a message is about. Redrive numbers count per
// record, so a task that has more than one must be named by the record.
func (c *Controller) recordOf(ctx context.Context, route string, m CompletionMessage) (id, why string, err error) {
	if m.Record != "" {
		return m.Record, "", nil
	}
	r, _ := c.o.Route(route)
	sources := r.Sources
	if r.Source != "" {
		sources = []string{r.Source}
	}
	if len(sources) != 1 {
		return "", "it names no record, and its route has no one source by which a task is known", nil
	}
	first := dlqbridge.RecordID(dlqbridge.IdentityTask, sources[0], m.Tenant, m.TaskID, 0)
	second := dlqbridge.RecordID(dlqbridge.IdentityTask, sources[0], m.Tenant, m.TaskID, 1)
	found, err := c.read(ctx, []string{first, second})
	switch _, more := found[second]; {
	case err != nil:
		return "", "", err
	case more:
		return "", "its task has several records; it must name one", nil
	}
	return first, "", nil
}

// believed says whether a message may end its redrive now.
func believed(c dlqbridge.Control, note dlqbridge.Send, noted bool, m CompletionMessage) (verdict, string) {
	switch mine := c.Claim != nil && c.Claim.N == m.N; {
	case mine && !noted: // a fast worker: the note is on its way
		return verdictWaiting, ""
	case !noted || note.Outcome == dlqbridge.OutcomeRefused || m.N > c.Redrives || mine && note.Job != c.Claim.Job:
		return verdictUnknown, "its record was not sent under that number"
	case (m.State == "compensated") != (note.Action == dlqbridge.ActionCompensate) && note.Action != dlqbridge.ActionCompensate:
		return verdictUnknown, "no compensation was sent under that number"
	case c.Status.Closed():
		return verdictRepeated, ""
	case c.Claim != nil && !mine, c.Status == dlqbridge.StatusIncidentOpen:
		return verdictWaiting, "" // another number is under way, or people look
	}
	return verdictCompleted, ""
}

// confirmed closes a record by a message: the evidence first, then the move that
// names it.
func (c *Controller) confirmed(ctx context.Context, ctl dlqbridge.Control, note dlqbridge.Send, m CompletionMessage, l dlqbridge.Letter) error {
	at := m.At.UTC().Truncate(time.Millisecond)
	if m.At.IsZero() || at.Year() < 2000 || at.Year() > 9999 {
		at = l.SentAt.UTC().Truncate(time.Millisecond)
	}
	undone := note.Action == dlqbridge.ActionCompensate
	by := &dlqbridge.Completion{Store: "completion message", Run: dlqbridge.CutText(m.Run, 256), At: at, RedriveN: m.N}
	j := c.judge(ctx, []Ask{{Control: ctl, Completed: by, Undone: undone}})[0]
	if j.Err != nil {
		return fmt.Errorf("judge %s: %w", ctl.ID, j.Err)
	}
	why := fmt.Sprintf("a completion message (%s) says so of redrive %d", l.MessageID, m.N)
	if note.Outcome == dlqbridge.OutcomeInDoubt {
		note.Outcome, note.Reason = dlqbridge.OutcomeSent, "settled: "+why
		if err := c.putOne(ctx, ctl.ID, note); err != nil {
			return err
		}
	}
	if err := c.putContext(ctx, ctl.ID, j); err != nil {
		return err
	}
	s := complete(ctl, j, dlqbridge.VerbComplete, Observer, why, c.clock())
	s.To.Move.Job, s.To.Move.N = note.Job, note.N
	if undone {
		s.To.Status, s.To.Why, s.To.Move.To = dlqbridge.StatusCompensated, dlqbridge.WhyCompensated, dlqbridge.StatusCompensated
	}
	if err := c.move(ctx, []dlqbridge.Step{s})[0]; err != nil {
		return fmt.Errorf("complete %s: %w", ctl.ID, err)
	}
	return nil
}
