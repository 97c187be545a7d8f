package redrive_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/redrive"
)

// spoken is a place of completion messages.
type spoken struct {
	left    []dlqbridge.Letter
	taken   map[string]bool
	deleted []string
	hidden  map[string]time.Duration
}

func say(bodies ...string) *spoken {
	s := &spoken{taken: map[string]bool{}, hidden: map[string]time.Duration{}}
	for i, b := range bodies {
		s.left = append(s.left, dlqbridge.Letter{MessageID: fmt.Sprint("m", i), Payload: dlqbridge.Payload{Body: []byte(b)}, SentAt: time.Now()})
	}
	return s
}

func (s *spoken) Place() string { return "done" }
func (s *spoken) Receive(context.Context, int, time.Duration) (out []dlqbridge.Letter, err error) {
	for _, l := range s.left {
		if !s.taken[l.MessageID] {
			s.taken[l.MessageID] = true
			out = append(out, l)
		}
	}
	return out, nil
}

func (s *spoken) Delete(_ context.Context, letters []dlqbridge.Letter) []error {
	for _, l := range letters {
		s.deleted = append(s.deleted, l.MessageID)
	}
	return make([]error, len(letters))
}

func (s *spoken) Hide(_ context.Context, letters []dlqbridge.Letter, d time.Duration) []error {
	for _, l := range letters {
		s.hidden[l.MessageID] = d
	}
	return make([]error, len(letters))
}

func (s *spoken) Depth(context.Context) (dlqbridge.Depth, error) { return dlqbridge.Depth{}, nil }

// A message ends its own number of its own record, once; what cannot be believed
// stays where it is.
func TestACompletionMessageIsBelievedOfItsOwnNumber(t *testing.T) {
	const one, two = "r_aaaaaaaaaaaaaaaaaaaaaaaaaa", "r_bbbbbbbbbbbbbbbbbbbbbbbbbb"
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.charged(redrive.Route{}, two)
		w.add(one, nil)
		p, c := w.start(t, nil)
		res, err := c.Run(ctx, request())
		if err != nil || res.Sent != 2 {
			t.Fatalf("%v, %+v", err, res)
		}
		for body, want := range map[string]redrive.Confirmations{
			`not json`: {Unknown: 1},
			`{"record":"` + one + `","n":1,"state":"failed"}`:                     {Unknown: 1},
			`{"record":"` + one + `","n":2,"state":"completed"}`:                  {Unknown: 1}, // never sent
			`{"record":"r_cccccccccccccccccccccccccc","n":1,"state":"completed"}`: {Unknown: 1},
			`{"record":"` + one + `","taskId":"other","n":1,"state":"completed"}`: {Unknown: 1},
			`{"record":"` + one + `","n":1,"state":"compensated"}`:                {Unknown: 1}, // no compensation
			`{"n":1,"state":"completed","taskId":"task-` + one + `"}`:             {Unknown: 1}, // the route has no one source
			// It contradicts its record.
			`{"record":"` + one + `","tenant":"other","n":1,"state":"completed"}`:                            {Unknown: 1},
			`{"record":"` + one + `","taskId":"task-` + one + `","tenant":"ACME","n":1,"state":"completed"}`: {Unknown: 1},
			// It contradicts itself, or is none.
			`{"record":"` + two + `","record":"` + one + `","n":1,"state":"completed"}`:   {Unknown: 1},
			`{"record":"` + one + `","n":2,"n":1,"state":"completed"}`:                    {Unknown: 1},
			`{"record":"` + one + `","n":1,"state":"completed","\u0073tate":"completed"}`: {Unknown: 1},
			`{"record":"` + one + `","Record":"` + one + `","n":1,"state":"completed"}`:   {Unknown: 1},
			`{"Record":"` + one + `","N":1,"State":"completed"}`:                          {Unknown: 1},
			`{"record":"` + one + `","n":1,"state":"completed"}{"x":1}`:                   {Unknown: 1},
			`{"record":"` + one + `","n":1,"state":"completed"} x`:                        {Unknown: 1},
			`{"record":"` + one + `","n":1,"state":"completed"`:                           {Unknown: 1},
			`{"record":"` + one + `","n":1,"state":"completed","task":"other"}`:           {Unknown: 1},
			`[{"record":"` + one + `","n":1,"state":"completed"}]`:                        {Unknown: 1},
			`null`: {Unknown: 1},
			`{"record":"` + one + `","n":1,"state":"completed","run":"` + "\xff" + `"}`: {Unknown: 1},
		} {
			place := say(body)
			got, err := c.Completions(ctx, "orders", place)
			if err != nil || got != want || len(place.deleted) != 0 || place.hidden["m0"] == 0 {
				t.Errorf("%s: %v, %+v, deleted %v, hidden %v", body, err, got, place.deleted, place.hidden)
			}
		}
		word := `{"record":"` + one + `","taskId":"task-` + one + `","tenant":"acme","n":1,"state":"completed","run":"run-7"}` + "\n"
		if got, err := c.Completions(ctx, "other", say(word)); err != nil || got.Unknown != 1 {
			t.Errorf("another route: %v, %+v", err, got)
		}
		// Its note is on its way: it waits.
		note := w.sends[one][1]
		delete(w.sends[one], 1)
		place := say(word)
		if got, err := c.Completions(ctx, "orders", place); err != nil || got.Waiting != 1 || len(place.deleted) != 0 {
			t.Errorf("before the note: %v, %+v", err, got)
		}
		note.Outcome = dlqbridge.OutcomeInDoubt
		w.sends[one][1] = note
		// It is deleted only when its move is stored, however often it comes.
		p.fault = func(op string) error {
			if op == "move" {
				return dlqbridge.ErrDenied
			}
			return nil
		}
		place = say(word)
		if _, err := c.Completions(ctx, "orders", place); !errors.Is(err, dlqbridge.ErrDenied) || len(place.deleted) != 0 {
			t.Errorf("deleted %v although its move was not stored: %v", place.deleted, err)
		}
		p.fault = nil
		p.late = func(op string) error { // carried out, and the answer is lost
			if op == "move" {
				return dlqbridge.ErrUnclear
			}
			return nil
		}
		place = say(word)
		_, _ = c.Completions(ctx, "orders", place)
		p.late = nil
		place = say(word, word)
		if got, err := c.Completions(ctx, "orders", place); err != nil || got.Repeated != 2 || len(place.deleted) != 2 {
			t.Errorf("again: %v, %+v", err, got)
		}
		k := w.control(one)
		if k.Status != dlqbridge.StatusCompleted || k.Claim != nil || k.Move.N != 1 || k.Move.Job != res.Job || w.sends[one][1].Outcome != dlqbridge.OutcomeSent {
			t.Errorf("%+v, note %+v", k, w.sends[one][1])
		}
		// A compensation's closes as compensated, also when its observation is over.
		time.Sleep(time.Hour)
		if _, err := c.Observe(ctx, redrive.ObserveRequest{}); err != nil || w.control(two).Status != dlqbridge.StatusAwaitingOperationalDecision {
			t.Fatalf("%v, %+v", err, w.control(two))
		}
		place = say(`{"record":"` + two + `","n":1,"state":"compensated"}`)
		if got, err := c.Completions(ctx, "orders", place); err != nil || got.Completed != 1 || len(place.deleted) != 1 || w.control(two).Status != dlqbridge.StatusCompensated {
			t.Errorf("%v, %+v, %+v", err, got, w.control(two))
		}
	})
}
