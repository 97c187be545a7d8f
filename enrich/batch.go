package enrich

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// parcel is one letter in hand on its way into a record.
type parcel struct {
	letter  dlqbridge.Letter
	arrival dlqbridge.Arrival
	// copies are the same letter received again in the same batch, newest last.
	copies []dlqbridge.Letter
	at     time.Time

	unit     unit
	episode  int
	previous string
	// record is where it goes. returned is set when that record sent this
	// message, as number n of a job: then it is known to exist.
	record   string
	returned *returned
	resolved bool
	// put is the record under which its payload and arrival are durable.
	put string
	// uncertain: an earlier write of ours may have been carried out.
	uncertain bool
	bare      bool

	done bool
	err  error
	// lost: its time in hand is over.
	lost atomic.Bool
}

// returned says which of a record's sends a letter is the return of.
type returned struct {
	job string
	n   int
}

// handle brings one batch into records and deletes what is durable. It tries
// again, keeping the letters in hand, while the store refuses for now. The
// error is for a store that cannot be written at all.
func (r *reading) handle(ctx, finish context.Context, letters []dlqbridge.Letter) error {
	open := r.parcels(letters)
	k := keep(finish, r.letters, open)
	defer k.stop()
	for tries := 1; ; tries++ {
		r.pass(finish, open)
		if err := r.delete(finish, open); err != nil {
			r.giveBack(finish, withoutDone(open))
			return err
		}
		var failed []*parcel
		open, failed = sort(open, tries)
		if err := r.refused(open, failed); err != nil {
			r.giveBack(finish, append(open, failed...))
			return err
		}
		for _, p := range failed {
			r.quarantine(finish, p)
		}
		open = r.withoutLost(open)
		k.set(open)
		if len(open) == 0 {
			return nil
		}
		if ctx.Err() != nil || finish.Err() != nil {
			// Stopping: what could not be stored now is for the next process, which
			// should not have to wait for the visibility timeout.
			r.giveBack(finish, open)
			return nil
		}
		r.observe(Event{Kind: EventHeld, N: len(open)})
		if tries == 1 {
			r.log.LogAttrs(ctx, slog.LevelWarn, "store refuses for now, letters wait in hand",
				slog.Int("letters", len(open)), slog.String("reason", open[0].err.Error()))
		}
		wait(ctx, backoff(tries))
	}
}

// withoutDone lists the parcels that are still in hand.
func withoutDone(all []*parcel) []*parcel {
	return slices.DeleteFunc(slices.Clone(all), func(p *parcel) bool { return p.done })
}

// parcels extracts letters; copies of one letter make one parcel.
func (r *reading) parcels(letters []dlqbridge.Letter) []*parcel {
	out := make([]*parcel, 0, len(letters))
	for _, l := range letters {
		a := r.enricher.Extract(l)
		if i := slices.IndexFunc(out, func(p *parcel) bool { return p.arrival.Key == a.Key }); i >= 0 {
			out[i].copies = append(out[i].copies, l)
			continue
		}
		p := &parcel{letter: l, arrival: a, at: l.ReceivedAt, unit: r.enricher.unitOf(l, a)}
		if p.at.IsZero() {
			p.at = r.in.o.Now()
		}
		p.at = saneTime(p.at)
		p.record = p.unit.id(0)
		out = append(out, p)
	}
	return out
}

// sort splits the parcels that are not done into those to try again and those
// that failed for good.
func sort(all []*parcel, tries int) (open, failed []*parcel) {
	for _, p := range all {
		switch {
		case p.done:
		case errors.Is(p.err, dlqbridge.ErrCredentials) && tries >= credentialTries:
			failed = append(failed, p)
		case passing(p.err):
			open = append(open, p)
		default:
			failed = append(failed, p)
		}
	}
	return open, failed
}

// passing says whether an error may pass by itself. A lost answer is among
// them: every write of intake is safe to repeat.
func passing(err error) bool {
	return dlqbridge.Retryable(err) || errors.Is(err, dlqbridge.ErrUnclear) || errors.Is(err, dlqbridge.ErrConflict) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// pass tries to store all parcels. Letters of one record go one after the
// other, in the order they came; different records go together.
func (r *reading) pass(ctx context.Context, open []*parcel) {
	for _, p := range open {
		p.err = nil
	}
	r.resolve(ctx, open)
	for _, p := range open {
		if p.err == nil && !p.bare && isCompensation(&p.arrival) {
			p.err = r.died(ctx, p)
		}
	}
	left := slices.DeleteFunc(slices.Clone(open), func(p *parcel) bool { return p.err != nil })
	for len(left) > 0 {
		var round, later []*parcel
		taken := map[string]bool{}
		for _, p := range left {
			if taken[p.record] {
				later = append(later, p)
				continue
			}
			taken[p.record] = true
			round = append(round, p)
		}
		r.store(ctx, round)
		for _, p := range round {
			if p.err != nil && !passing(p.err) {
				r.storeAlone(ctx, p)
			}
		}
		left = later
	}
}

// storeAlone tries a letter again that was refused for good in company, and
// then stores its bytes only. A refusal for lack of rights is not its fault.
func (r *reading) storeAlone(ctx context.Context, p *parcel) {
	p.err, p.put = nil, ""
	r.store(ctx, []*parcel{p})
	if p.err == nil || passing(p.err) || fatal(p.err) {
		return
	}
	r.log.LogAttrs(ctx, slog.LevelWarn, "letter stored bare", slog.String("letter_id", p.arrival.MessageID), slog.String("reason", p.err.Error()))
	p.strip()
	r.store(ctx, []*parcel{p})
	if p.done {
		r.observe(Event{Kind: EventBare, N: 1})
	}
}

// store takes parcels of different records through evidence, record and, where
// the record exists, the move that names the letter.
func (r *reading) store(ctx context.Context, round []*parcel) {
	now := saneTime(r.in.o.Now())
	fresh := slices.DeleteFunc(slices.Clone(round), func(p *parcel) bool { return p.returned != nil })
	subjects := make([]Subject, len(fresh))
	for i, p := range fresh {
		subjects[i] = Subject{Arrival: &p.arrival, Payload: &p.letter.Payload, Deliveries: p.letter.Deliveries, Previous: p.previous}
	}
	judged := r.enricher.Judge(ctx, now, subjects)
	contexts := make(map[*parcel]*dlqbridge.Context, len(fresh))
	for i, p := range fresh {
		if p.bare {
			judged[i] = judged[i].stripped()
		}
		contexts[p] = &judged[i].Context
	}
	// Evidence first: nothing counts until the control item names it, so dying
	// from here on leaves nothing that says anything.
	r.putEvidence(ctx, round, contexts)

	controls := make([]dlqbridge.Control, 0, len(fresh))
	creating := make([]*parcel, 0, len(fresh))
	for i, p := range fresh {
		if p.err == nil {
			controls = append(controls, r.open(p, judged[i], now))
			creating = append(creating, p)
		}
	}
	existing := map[*parcel]*dlqbridge.Control{}
	if len(controls) > 0 {
		for i, answer := range r.in.o.Controls.Create(ctx, controls) {
			p := creating[i]
			switch {
			case answer.Err == nil:
				r.made(p, &controls[i])
			case errors.Is(answer.Err, dlqbridge.ErrExists):
				existing[p] = answer.Existing
			default:
				p.uncertain = p.uncertain || errors.Is(answer.Err, dlqbridge.ErrUnclear)
				p.err = answer.Err
			}
		}
	}
	var joining sync.WaitGroup
	for _, p := range round {
		if p.err == nil && !p.done {
			joining.Go(func() { p.err = r.join(ctx, p, existing[p]) })
		}
	}
	joining.Wait()
}

// putEvidence makes payloads, arrivals and contexts durable, all in one call.
func (r *reading) putEvidence(ctx context.Context, round []*parcel, contexts map[*parcel]*dlqbridge.Context) {
	items := make([]dlqbridge.Evidence, 0, 3*len(round))
	owners := make([]*parcel, 0, 3*len(round))
	add := func(p *parcel, item dlqbridge.Item) {
		items = append(items, dlqbridge.Evidence{Record: p.record, Item: item})
		owners = append(owners, p)
	}
	for _, p := range round {
		if p.put != p.record {
			add(p, dlqbridge.StoredPayload{Arrival: p.arrival.Key, Payload: p.letter.Payload})
			add(p, p.arrival)
		}
		if c, ok := contexts[p]; ok {
			add(p, *c)
		}
	}
	if len(items) == 0 {
		return
	}
	for _, p := range round {
		p.put = p.record
	}
	for i, err := range r.in.o.Evidence.Put(ctx, items) {
		if p := owners[i]; err != nil {
			p.put = ""
			if p.err == nil || passing(p.err) {
				p.err = err
			}
		}
	}
}

// open is the control item of a new record with its first history entry.
func (r *reading) open(p *parcel, j Judgement, now time.Time) dlqbridge.Control {
	c := j.Apply(r.enricher.opened(p.unit, p.episode, p.previous, p.letter, p.arrival, p.at))
	if p.bare {
		c.Identity = dlqbridge.IdentityMessage
	}
	c.Move = dlqbridge.Move{
		Version: 1, At: now, By: j.By, Verb: dlqbridge.VerbReceive, To: c.Status, Why: string(c.Why),
		Arrival: p.arrival.Key, Context: c.Context,
	}
	return c
}

// made notes a new record.
func (r *reading) made(p *parcel, c *dlqbridge.Control) {
	p.done = true
	r.in.count(func(n *Counts) { n.Letters++; n.Records++; n.Arrivals++ })
	kind := EventRecord
	if c.Previous != "" {
		kind = EventLinked
	}
	r.observe(Event{Kind: kind, N: 1, Control: c, Lag: p.lag()})
}

// moved notes a letter that joined a record.
func (r *reading) moved(p *parcel, kind EventKind, c *dlqbridge.Control) {
	p.done = true
	r.in.count(func(n *Counts) { n.Letters++; n.Arrivals++ })
	r.observe(Event{Kind: kind, N: 1, Control: c, Lag: p.lag()})
}

// known notes a letter that history names already.
func (r *reading) known(p *parcel, c *dlqbridge.Control) {
	if p.uncertain { // by an earlier write of ours whose answer was lost
		if c.Version == 1 && c.Newest == p.arrival.Key {
			r.made(p, c)
			return
		}
		r.moved(p, EventArrival, c)
		return
	}
	p.done = true
	r.in.count(func(n *Counts) { n.Duplicates++ })
	r.observe(Event{Kind: EventDuplicate, N: 1})
}

func (p *parcel) lag() time.Duration {
	if p.arrival.SentAt.IsZero() {
		return 0
	}
	return max(p.at.Sub(p.arrival.SentAt), 0)
}
