package redrive

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// A plan is also a document: written by one person, read by another, run as it
// stands. It names its environment and the exact version of each record, and
// its hash covers all of it. What has changed since is refused record by
// record; a file that was changed, or that belongs elsewhere, is refused whole.

// PlanFormat is the version of the plan's form.
const PlanFormat = 1

// Estimate says what a plan's run will take, roughly and rather too much.
type Estimate struct {
	// Seconds is how long sending takes under the pace, ObserveSeconds how long
	// canary steps are waited for at most.
	Seconds        int `json:"seconds"`
	ObserveSeconds int `json:"observe_seconds"`
	// Calls counts provider calls. CostUSD is what they cost on demand in
	// us-east-1; other regions and a broker's free share are not looked at.
	Calls   int    `json:"calls"`
	CostUSD string `json:"costUsd"`
}

// What one message takes, measured on the local cloud: from gate to note, to
// authorise it, and to ask a store of agent context about it once.
const (
	callsToSend      = 1.7
	callsToAuthorize = 1.2
	callsToAsk       = 1.0
	// Units of 1 KB and 4 KB. The control item stands in two indexes, and a move
	// between partitions writes each twice: 5 units for a move, 1 each for the
	// replaced entry, the note, the message id and a share of the journal.
	writeUnits = 9
	readUnits  = 6
)

// Prices in US dollars per million ("Amazon DynamoDB pricing", on-demand
// standard tables, and "Amazon SQS pricing", standard queues, both us-east-1,
// as of 2026-11).
const (
	usdWriteUnits = 0.625
	usdReadUnits  = 0.125
	usdRequests   = 0.40
)

// estimate sums up a plan.
func (c *Controller) estimate(p Plan) (Estimate, error) {
	var e Estimate
	calls, moves, asks := 0.0, 0, 0
	for _, j := range p.Jobs {
		n := j.Members.Len()
		e.Seconds += int(math.Ceil(float64(n) / max(p.Rate.PerSecond(), 1e-9)))
		left := n
		for _, size := range p.Canary {
			if left -= size; left <= 0 {
				break
			}
			e.ObserveSeconds += int(j.window / time.Second)
		}
		moves += n
		calls += callsToSend * float64(n)
		for m, err := range j.Members.All() {
			if err != nil {
				return e, err
			}
			if !m.Authorized {
				moves++
				calls += callsToAuthorize
				asks++
			}
			asks++
		}
	}
	calls += callsToAsk * float64(asks)
	e.Calls = int(math.Ceil(calls))
	usd := float64(moves)*writeUnits*usdWriteUnits + float64(asks)*readUnits*usdReadUnits + float64(p.Selected)*usdRequests/10
	e.CostUSD = fmt.Sprintf("%.4f", usd/1e6)
	return e, nil
}

// sum is the hash over everything in a plan but the hash itself.
func (p Plan) sum() (string, error) {
	p.Hash = ""
	p, lists := p.Apart()
	text, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("hash the plan: %w", err)
	}
	sum := sha256.New()
	if err := lists.Write(sum, text, compactly); err != nil {
		return "", fmt.Errorf("hash the plan: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Check refuses a plan that was changed since it was made, or that this
// program does not understand.
func (p Plan) Check() error {
	sum, err := p.sum()
	actions := knownActions(p.Actions)
	switch {
	case err != nil:
		return err
	case p.Format != PlanFormat:
		return fmt.Errorf("plan: %w: its format is %d, this version reads %d", dlqbridge.ErrInvalid, p.Format, PlanFormat)
	case p.Hash != sum:
		return fmt.Errorf("plan: %w: it was changed after it was made: its content hashes to %s, it says %s", dlqbridge.ErrInvalid, sum, p.Hash)
	case !p.Cause.Valid():
		return fmt.Errorf("plan: %w: cause %q is not known", dlqbridge.ErrInvalid, p.Cause)
	case actions != nil:
		return fmt.Errorf("plan: %w", actions)
	case !(p.Rate.PerSecond() > 0) || p.Burst < 1 || p.MaxInFlight < 0:
		return fmt.Errorf("plan: %w: its pace is %s, burst %d, %d in flight", dlqbridge.ErrInvalid, p.Rate, p.Burst, p.MaxInFlight)
	}
	return nil
}

// belongs refuses a plan of another environment: other tables, or a destination
// that the route it names does not lead to here.
func (c *Controller) belongs(p Plan) error {
	if p.Environment != c.o.Environment {
		return fmt.Errorf("plan: %w: it was made for %s, this is %s", dlqbridge.ErrInvalid, p.Environment, c.o.Environment)
	}
	for _, j := range p.Jobs {
		if j.Route == "" {
			continue // several routes lead there; each record is looked at
		}
		route, ok := c.o.Route(j.Route)
		target := cmp.Or(route.Target, route.Source)
		switch {
		case !ok:
			return fmt.Errorf("plan: %w: its route %s is not configured here", dlqbridge.ErrInvalid, j.Route)
		case target != "" && target != j.Destination && !route.besides(j.Destination):
			return fmt.Errorf("plan: %w: route %s leads to %s here, to %s in the plan", dlqbridge.ErrInvalid, j.Route, target, j.Destination)
		}
	}
	return nil
}

// frozen turns a plan back into what a run starts from: each member as it was
// planned, if its record is still at that version and leads to the same place.
func (c *Controller) frozen(ctx context.Context, p Plan, only string) (*survey, error) {
	s := &survey{seen: idSet{}, aside: idSet{}, now: c.clock()}
	for _, j := range p.Jobs {
		if only != "" && j.Destination != only {
			continue
		}
		read := func(ctx context.Context, chunk []PlannedMember) (frozenChunk, error) {
			ids := make([]string, len(chunk))
			for i, m := range chunk {
				ids[i] = m.ID
			}
			controls, err := c.read(ctx, ids)
			return frozenChunk{chunk, controls}, err
		}
		for got, err := range ahead(ctx, chunks(j.Members.All(), readChunk), chunksAtOnce, read) {
			if err != nil {
				return nil, err
			}
			for _, m := range got.members {
				if err := c.freeze(ctx, s, j.Destination, m, got.controls); err != nil {
					return nil, err
				}
			}
		}
	}
	return s, ctx.Err()
}

type frozenChunk struct {
	members  []PlannedMember
	controls map[string]dlqbridge.Control
}

// freeze takes one planned member over, or says what has changed about it.
func (c *Controller) freeze(ctx context.Context, s *survey, destination string, m PlannedMember, controls map[string]dlqbridge.Control) error {
	changed := func(detail string) {
		s.excluded.Add(dlqbridge.Exclusion{ID: m.ID, Reason: dlqbridge.ExcludeChanged, Detail: detail})
	}
	ctl, ok := controls[m.ID]
	switch {
	case s.seen.has(m.ID):
		return nil
	case !ok:
		changed("the record is gone")
		return nil
	case ctl.Status.Closed():
		s.excluded.Add(dlqbridge.Exclusion{ID: m.ID, Reason: dlqbridge.ExcludeClosed, Detail: string(ctl.Status)})
		return nil
	case ctl.Version != m.Version:
		changed(fmt.Sprintf("it was planned at version %d and is at %d: %s by %s", m.Version, ctl.Version, ctl.Move.Verb, ctl.Move.By))
		return nil
	}
	s.seen.add(m.ID)
	t, x, err := c.target(ctx, s, ctl, m.Action, destination)
	switch {
	case err != nil:
		return err
	case x != nil:
		s.excluded.Add(*x)
	case t == nil:
		changed("it does not lead to " + destination + " any more")
	case t.missing:
		s.excluded.Add(dlqbridge.Exclusion{ID: m.ID, Reason: dlqbridge.ExcludeTargetMissing, Detail: "destination " + t.urn + " does not exist"})
	default:
		if x := c.alone(ctl, t); x != nil {
			t.excluded.Add(*x)
			return nil
		}
		t.claimed = t.claimed || ctl.Claim != nil
		t.members.Add(m)
	}
	return nil
}

// follow takes over from a plan what a request leaves to it.
func (r Request) follow(p Plan) Request {
	r.Cause, r.Fix, r.Policy, r.Actions = p.Cause, p.Fix, p.Policy, slices.Clone(p.Actions)
	r.Rate, r.Burst, r.MaxInFlight = p.Rate, p.Burst, p.MaxInFlight
	r.canary, r.SkipUndeliverable, r.SendOvertaken = slices.Clone(p.Canary), p.SkipUndeliverable, p.SendOvertaken
	return r
}
