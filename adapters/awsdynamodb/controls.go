package awsdynamodb

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dlqbridge/dlqbridge"
)

// Create implements dlqbridge.Controls.
func (s *Store) Create(ctx context.Context, controls []dlqbridge.Control) []dlqbridge.Created {
	answers := make([]dlqbridge.Created, len(controls))
	encoded := make([]encodedControl, len(controls))
	wides := newSideWrites(len(controls))
	for i, c := range controls {
		if err := s.enroll(ctx, c.Route); err != nil {
			answers[i].Err = fmt.Errorf("create record %s: %w", c.ID, err)
			continue
		}
		if c.ID == "" || keyPart(c.ID) != c.ID || c.Version != 1 {
			answers[i].Err = fmt.Errorf("create record %q: %w: it has version %d, want an id and version 1", c.ID, dlqbridge.ErrInvalid, c.Version)
			continue
		}
		encoded[i], answers[i].Err = s.encodeControl(c, newToken())
		if encoded[i].wide != nil {
			wides.add(i, newWrite(s.records, encoded[i].wide))
		}
	}
	for i, err := range wides.put(ctx, s) {
		if err != nil && answers[i].Err == nil {
			answers[i].Err = fmt.Errorf("create record %s: %w", controls[i].ID, err)
		}
	}
	s.parallel(len(controls), func(i int) {
		if answers[i].Err == nil {
			answers[i] = s.create(ctx, controls[i], encoded[i].item)
		}
	})
	return answers
}

func (s *Store) create(ctx context.Context, c dlqbridge.Control, it item) dlqbridge.Created {
	err := s.putIf(ctx, it, s.absent())
	refused, ok := errors.AsType[*refusedError](err)
	if !ok {
		if err != nil {
			err = fmt.Errorf("create record %s: %w", c.ID, err)
		}
		return dlqbridge.Created{Err: err}
	}
	existing, err := s.decode(ctx, refused.existing)
	if err != nil {
		return dlqbridge.Created{Err: fmt.Errorf("create record %s: read what is there: %w", c.ID, err)}
	}
	was, err := s.was(ctx, existing, c.Move, 1, c.ID)
	if err != nil || was {
		return dlqbridge.Created{Err: err}
	}
	return dlqbridge.Created{Existing: &existing, Err: s.explain(controlKey(c.ID), dlqbridge.ErrExists, fmt.Sprintf("version %d", existing.Version))}
}

// was says whether a move was carried out although the record has moved on
// since: our answer was lost and somebody went on from what we wrote. The next
// mover left our entry in history.
func (s *Store) was(ctx context.Context, now dlqbridge.Control, move dlqbridge.Move, version int, id string) (bool, error) {
	if now.Version <= version {
		return false, nil
	}
	mine, err := eventItem(id, version, move)
	if err != nil {
		return false, err
	}
	k := eventKey(id, version)
	there, err := s.get(ctx, k)
	if err != nil {
		return false, fmt.Errorf("read history of record %s: %w", id, err)
	}
	return textOf(there, attrDoc) == textOf(mine, attrDoc), nil
}

// eventItem is the item of a history entry: the same bytes whoever writes it.
func eventItem(id string, version int, m dlqbridge.Move) (item, error) {
	m.At = bounded(m.At).UTC().Truncate(timeUnit)
	it, err := docItem(eventKey(id, version), m)
	if err != nil {
		return nil, fmt.Errorf("encode history of record %s: %w: %w", id, dlqbridge.ErrInvalid, err)
	}
	return it, nil
}

// Move implements dlqbridge.Controls.
//
// If the process dies before the history entries are written, nothing has
// happened. If it dies between them and the move, the entry stands twice: in
// the control item and, alike, in history; readers take the first.
func (s *Store) Move(ctx context.Context, steps []dlqbridge.Step) []error {
	errs := make([]error, len(steps))
	encoded := make([]encodedControl, len(steps))
	before := newSideWrites(len(steps))
	for i, step := range steps {
		from, to := step.From, step.To
		if from.ID != to.ID || from.Version < 1 || to.Version != from.Version+1 {
			errs[i] = fmt.Errorf("%w: from %q version %d to %q version %d is no step", dlqbridge.ErrInvalid, from.ID, from.Version, to.ID, to.Version)
			continue
		}
		event, err := eventItem(from.ID, from.Version, from.Move)
		if err != nil {
			errs[i] = err
			continue
		}
		if encoded[i], errs[i] = s.encodeControl(to, newToken()); errs[i] != nil {
			continue
		}
		before.add(i, newWrite(s.records, event))
		if encoded[i].wide != nil {
			before.add(i, newWrite(s.records, encoded[i].wide))
		}
	}
	for i, err := range before.put(ctx, s) {
		errs[i] = worse(errs[i], err)
	}
	s.parallel(len(steps), func(i int) {
		if errs[i] == nil {
			errs[i] = s.move(ctx, steps[i], encoded[i].item)
		}
		if errs[i] != nil {
			errs[i] = fmt.Errorf("move record %s: %w", steps[i].From.ID, errs[i])
		}
	})
	return errs
}

func (s *Store) move(ctx context.Context, step dlqbridge.Step, it item) error {
	id := step.From.ID
	if step.From.Route != step.To.Route {
		if err := s.enroll(ctx, step.To.Route); err != nil {
			return err
		}
	}
	put := s.putIf
	if step.From.Status.Closed() && !step.To.Status.Closed() {
		put = s.reopen
	}
	err := put(ctx, it, s.atVersion(step.From.Version))
	refused, ok := errors.AsType[*refusedError](err)
	if !ok {
		return err
	}
	if s.gone(refused.existing) {
		return s.explain(controlKey(id), dlqbridge.ErrConflict, "the record is gone")
	}
	now := dlqbridge.Control{Version: int(numberOf(refused.existing, attrVersion))}
	was, err := s.was(ctx, now, step.To.Move, step.To.Version, id)
	if err != nil || was {
		return err
	}
	return s.explain(controlKey(id), dlqbridge.ErrConflict, fmt.Sprintf("it is at version %d, not %d", now.Version, step.From.Version))
}

// Read implements dlqbridge.Controls.
func (s *Store) Read(ctx context.Context, ids []string) (map[string]dlqbridge.Control, error) {
	keys := make([]key, len(ids))
	for i, id := range ids {
		keys[i] = controlKey(id)
	}
	found, err := s.getAll(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("read records: %w", err)
	}
	items := make([]item, 0, len(found))
	for _, it := range found {
		items = append(items, it)
	}
	controls, err := s.decodeAll(ctx, items)
	if err != nil {
		return nil, fmt.Errorf("read records: %w", err)
	}
	byID := make(map[string]dlqbridge.Control, len(controls))
	for _, c := range controls {
		byID[c.ID] = c
	}
	return byID, nil
}

// decode reads a control item, with its texts where they stand apart.
func (s *Store) decode(ctx context.Context, it item) (dlqbridge.Control, error) {
	all, err := s.decodeAll(ctx, []item{it})
	if err != nil {
		return dlqbridge.Control{}, err
	}
	return all[0], nil
}

// decodeAll reads control items in their order and fetches the texts that stand apart.
func (s *Store) decodeAll(ctx context.Context, items []item) ([]dlqbridge.Control, error) {
	controls := make([]dlqbridge.Control, len(items))
	var apart []int
	var keys []key
	for i, it := range items {
		c, err := decodeControl(it, nil)
		switch {
		case errors.Is(err, errWide):
			apart, keys = append(apart, i), append(keys, wideKey(c.ID, wideName(it)))
		case err != nil:
			return nil, err
		}
		controls[i] = c
	}
	if len(apart) == 0 {
		return controls, nil
	}
	found, err := s.getAll(ctx, keys)
	if err != nil {
		return nil, err
	}
	for n, i := range apart {
		wide := found[keys[n]]
		if wide == nil {
			return nil, s.explain(keys[n], dlqbridge.ErrNotFound, "the texts of a control item are missing")
		}
		if controls[i], err = decodeControl(items[i], wide); err != nil {
			return nil, err
		}
	}
	return controls, nil
}

// sideWrites are the items that must be durable before members of a batch can
// go on, each with its member's position.
type sideWrites struct {
	writes []write
	owner  []int
	n      int
}

func newSideWrites(n int) *sideWrites { return &sideWrites{n: n} }

func (w *sideWrites) add(member int, x write) {
	w.writes, w.owner = append(w.writes, x), append(w.owner, member)
}

// put writes them and answers by member.
func (w *sideWrites) put(ctx context.Context, s *Store) []error {
	errs := make([]error, w.n)
	for n, err := range s.putAll(ctx, w.writes) {
		if err != nil {
			errs[w.owner[n]] = worse(errs[w.owner[n]], err)
		}
	}
	return slices.Clip(errs)
}
