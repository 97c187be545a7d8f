package triage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/wire"
	"github.com/dlqbridge/dlqbridge/enrich"
	"github.com/dlqbridge/dlqbridge/enrich/jsonpatch"
)

// Bounds are what a repaired payload is held against before it is written.
type Bounds interface {
	// Task reads the task out of a payload as intake would out of that letter.
	Task(c dlqbridge.Control, a dlqbridge.Arrival, p dlqbridge.Payload) (dlqbridge.Task, error)
	// Schema checks a body against the schema of a route's type of task; nil is
	// fine, or that there is none.
	Schema(route, taskType string, body []byte) error
	// Fits says whether the destination takes the payload with our mark. Note is
	// what could not be found out.
	Fits(ctx context.Context, c dlqbridge.Control, idempotencyKey string, p dlqbridge.Payload) (note string, err error)
}

// RepairRequest is how the next payload version is made.
type RepairRequest struct {
	// Patch changes the body; nil takes it as it is.
	Patch *jsonpatch.Patch
	// Arrival or Version is what it is made from: a letter by its key, or a
	// version; without both what would be sent now.
	Arrival string
	Version int
}

// Repaired is what a repair changes.
type Repaired struct {
	Before  Sum                `json:"before"`
	After   Sum                `json:"after"`
	Form    string             `json:"form,omitempty"`
	Patch   string             `json:"patchSha256,omitempty"`
	Changes []jsonpatch.Change `json:"ops"`
	// SameBody: the bodies are the same byte for byte. Without it and without
	// changes they differ in spelling only.
	SameBody bool `json:"sameBody"`
	// Attributes are the names of those that differ, and Group says that the
	// group or ordering key does: another letter may have others.
	Attributes []string `json:"attributes,omitempty"`
	Group      bool     `json:"group,omitempty"`
}

// compare says what another payload changes.
func (r *Repaired) compare(before, after dlqbridge.Payload) {
	r.Changes, r.SameBody, r.Group = jsonpatch.Changes(before.Body, after.Body), bytes.Equal(before.Body, after.Body), before.GroupKey != after.GroupKey
	for _, a := range slices.Concat(before.Attributes, after.Attributes) {
		was, had := before.Attribute(a.Name)
		is, has := after.Attribute(a.Name)
		if had != has || was.Type != is.Type || !bytes.Equal(was.Value, is.Value) {
			r.Attributes = append(r.Attributes, a.Name)
		}
	}
	slices.Sort(r.Attributes)
	r.Attributes = slices.Compact(r.Attributes)
}

// Sum is a payload version in numbers.
type Sum struct {
	Version int    `json:"version"`
	SHA256  string `json:"sha256"`
	Bytes   int    `json:"bytes"`
}

// RefusedError is a record that cannot be repaired so, for a reason of its own.
type RefusedError struct {
	ID string
	// Code is for machines.
	Code, Why string
}

// Error says why.
func (e *RefusedError) Error() string { return "repair " + e.ID + ": " + e.Why }

// Unwrap gives it its meaning.
func (e *RefusedError) Unwrap() error { return dlqbridge.ErrInvalid }

// otherPayload says whether something else would be sent now.
func otherPayload(a, b dlqbridge.Control) bool {
	return a.PayloadVersion != b.PayloadVersion || a.PayloadName() != b.PayloadName()
}

// repair makes the next payload version: key, attributes and group stay, and
// all earlier versions.
func (m Mover) repair(ctx context.Context, c dlqbridge.Case, r Request, p plan) (plan, error) {
	k := c.Control
	no := func(code, format string, args ...any) (plan, error) {
		return p, &RefusedError{ID: k.ID, Code: code, Why: fmt.Sprintf(format, args...)}
	}
	base, err := basis(c, r.Repair)
	if err != nil {
		return p, err
	}
	payload, err := m.Store.Payload(ctx, k.ID, base.name)
	switch {
	case wire.Absent(err):
		return no("payload_expired", "the payload of %s is gone", base.what)
	case err != nil:
		return p, fmt.Errorf("read the payload of %s: %w", k.ID, err)
	}
	made := dlqbridge.Repair{
		Version: k.PayloadVersion + 1, Payload: base.name, Was: k.PayloadName(), Base: base.name, BaseSHA256: payload.Hash(), Chosen: base.chosen,
	}
	before := payload
	if patch := r.Repair.Patch; patch != nil {
		made.Form, made.PatchSHA256 = patch.Form, patch.SHA256
		if payload, err = m.patched(k, base.letter, payload, patch); err != nil {
			return p, err
		}
		made.Payload = dlqbridge.RepairedName(k.ID, payload)
		p.payload = &dlqbridge.StoredPayload{Arrival: made.Payload, Payload: payload}
		// The input is what was corrected, which is a verifiable change.
		p.note.Fix = &dlqbridge.Fix{Kind: "data", Text: fmt.Sprintf("payload version %d", made.Version)}
	}
	made.SHA256, made.Bytes = payload.Hash(), payload.Size()
	now := current(c)
	if made.SHA256 == now.SHA256 && !k.Conflict {
		return no("unchanged", "that is what would be sent already, version %d", k.PayloadVersion)
	}
	note, err := m.Bounds.Fits(ctx, k, base.letter.Task.IdempotencyKey, payload)
	switch {
	case errors.Is(err, dlqbridge.ErrTooLarge):
		return no("too_large", "it could not be sent: %v", err)
	case errors.Is(err, dlqbridge.ErrInvalid):
		return no("not_sendable", "it could not be sent: %v", err)
	case err != nil:
		return p, fmt.Errorf("repair %s: can it be sent? %w", k.ID, err)
	}
	p.note.Repair = &made
	p.repaired = &Repaired{
		Before: now, After: Sum{made.Version, made.SHA256, made.Bytes}, Form: string(made.Form), Patch: made.PatchSHA256,
	}
	if base.name != k.PayloadName() { // a person is shown what changes against what would be sent
		if sent, err := m.Store.Payload(ctx, k.ID, k.PayloadName()); err == nil {
			before = sent
		}
	}
	p.repaired.compare(before, payload)
	p.to.Payload, p.to.PayloadVersion = made.Payload, made.Version
	if p, err = m.judged(ctx, c, p); err != nil {
		return p, err
	}
	if base.chosen && p.to.Conflict {
		return no("conflict", "its letters differ in task type or idempotency key, which no payload settles: complete it by hand (`dlqbridge triage complete-manually %s`) or reject it", k.ID)
	}
	if note != "" {
		p.sentence += " " + note
	}
	return p, nil
}

// patched applies a patch and holds the result against what must stay and what
// the route demands.
func (m Mover) patched(k dlqbridge.Control, letter dlqbridge.Arrival, payload dlqbridge.Payload, patch *jsonpatch.Patch) (dlqbridge.Payload, error) {
	no := func(code, format string, args ...any) (dlqbridge.Payload, error) {
		return payload, &RefusedError{ID: k.ID, Code: code, Why: fmt.Sprintf(format, args...)}
	}
	if why := enrich.Unpatchable(letter, payload.Body); why != "" {
		return no("not_patchable", "%s", why)
	}
	body, err := patch.Apply(payload.Body)
	if refused, ok := errors.AsType[*jsonpatch.Error](err); ok && refused.Body {
		return no("not_patchable", "%v", err)
	}
	if err != nil {
		return no("does_not_apply", "%v", err)
	}
	was, err := m.Bounds.Task(k, letter, payload)
	if err != nil {
		return payload, err
	}
	payload.Body = body
	is, err := m.Bounds.Task(k, letter, payload)
	if err != nil {
		return payload, err
	}
	// Whoever changes these makes another task of it, whose effects nobody knows.
	for _, one := range []struct{ what, was, is string }{
		{"task id", was.TaskID, is.TaskID},
		{"idempotency key", was.IdempotencyKey, is.IdempotencyKey},
		{"task type", was.TaskType, is.TaskType},
		{"tenant", was.Tenant, is.Tenant},
	} {
		if one.was != one.is {
			return no("task_changed", "the patch would change the %s, which must stay", one.what)
		}
	}
	if err := m.Bounds.Schema(k.Route, letter.Task.TaskType, body); err != nil {
		if errors.Is(err, dlqbridge.ErrInvalid) {
			return no("schema", "%v", err)
		}
		return payload, err
	}
	return payload, nil
}

// source is what a version is made from.
type source struct {
	// name is the payload's, letter what its envelope and task are read from.
	name   string
	letter dlqbridge.Arrival
	// chosen: the person named it. what is how it is called.
	chosen bool
	what   string
}

func basis(c dlqbridge.Case, r RepairRequest) (source, error) {
	k := c.Control
	no := func(code, format string, args ...any) (source, error) {
		return source{}, &RefusedError{ID: k.ID, Code: code, Why: fmt.Sprintf(format, args...)}
	}
	out := source{name: k.PayloadName(), what: fmt.Sprintf("version %d", k.PayloadVersion)}
	versions := c.PayloadVersions()
	if a := c.Arrival(k.Newest); a != nil {
		out.letter = *a
	}
	switch {
	case r.Arrival != "":
		a := c.Arrival(r.Arrival)
		if a == nil || !c.Reflects(r.Arrival) {
			return no("no_such_arrival", "it has no letter %q; it has %s", r.Arrival, strings.Join(keys(c), ", "))
		}
		return source{name: a.Key, letter: *a, chosen: true, what: "letter " + a.Key}, nil
	case r.Version != 0:
		for _, v := range versions {
			if v.Version == r.Version {
				out.name, out.chosen, out.what = v.Payload, true, fmt.Sprintf("version %d", v.Version)
				return out, nil
			}
		}
		return no("no_such_version", "it has no payload version %d; it is at version %d", r.Version, k.PayloadVersion)
	case k.Conflict:
		return no("conflict", "its letters differ, so it is not clear what to change: say which one is right by --arrival, one of %s", strings.Join(keys(c), ", "))
	case r.Patch != nil:
		// So that a command that was cut off can be given again.
		if v := madeBy(versions, out.name, r.Patch.SHA256); v != 0 {
			return no("already_repaired", "this very patch made version %d already, which version %d comes from; name a version by --version to apply it again", v, k.PayloadVersion)
		}
	}
	return out, nil
}

// madeBy finds the version that a patch made among those that a payload descends
// from; 0 is none. A version that was taken as it is descends from what made it,
// and a letter from nothing.
func madeBy(versions []dlqbridge.PayloadVersion, payload, patch string) int {
	for _, v := range slices.Backward(versions) {
		if v.Repair == nil || v.Payload != payload || v.Repair.PatchSHA256 == "" {
			continue
		}
		if v.Repair.PatchSHA256 == patch {
			return v.Version
		}
		payload = v.Repair.Base
	}
	return 0
}

// keys lists the letters that count.
func keys(c dlqbridge.Case) []string {
	var out []string
	for _, m := range c.History {
		if m.Arrival != "" && c.Arrival(m.Arrival) != nil {
			out = append(out, m.Arrival)
		}
	}
	return out
}

// current is what would be sent now.
func current(c dlqbridge.Case) Sum {
	p := enrich.Show(c, enrich.Around{}).Payload
	out := Sum{Version: p.Version, Bytes: p.Bytes}
	if p.SHA256 != nil {
		out.SHA256 = *p.SHA256
	}
	return out
}
