package enrich

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/dlqbridge/dlqbridge"
)

// FixtureForm names the form of fixtures; another form is refused.
const FixtureForm = "dlqbridge/fixture@1"

// Fixture is one record's last decision with all that it stood on, so that a
// case can become a test: the letter, what was read from it, what the stores and
// people said, and what was decided. ReadFixture reads it, and Replay decides
// once more from it.
type Fixture struct {
	Form string `json:"form"`
	// Scrubbed: what looked like a secret was replaced, and bytes that are no
	// text were left out.
	Scrubbed bool   `json:"scrubbed"`
	Record   string `json:"record"`
	Version  int    `json:"version"`
	// Expect is what was decided, or what somebody wants to be decided instead. It
	// is held to cause, lane and action; what it leaves out is not looked at.
	Expect   Verdict             `json:"expect"`
	Control  dlqbridge.Control   `json:"control"`
	History  []dlqbridge.Move    `json:"history"`
	Arrivals []dlqbridge.Arrival `json:"arrivals"`
	Notes    []dlqbridge.Note    `json:"notes"`
	Context  dlqbridge.Context   `json:"context"`
	// Payload is what the newest letter carried; null if it is gone.
	Payload *FixturePayload `json:"payload"`
}

// FixturePayload is a payload in a fixture.
type FixturePayload struct {
	Body       FixtureBytes       `json:"body"`
	Attributes []FixtureAttribute `json:"attributes"`
	GroupKey   string             `json:"groupKey"`
}

// FixtureAttribute is one user attribute in a fixture.
type FixtureAttribute struct {
	Name  string       `json:"name"`
	Type  string       `json:"type"`
	Value FixtureBytes `json:"value"`
}

// FixtureBytes are bytes as text where they are one, else in base64. Withheld
// counts those that a scrubbed fixture leaves out.
type FixtureBytes struct {
	Text     *string `json:"text,omitempty"`
	Base64   []byte  `json:"base64,omitempty"`
	Withheld int     `json:"withheld,omitempty"`
}

// Export makes the fixture of a record. Without raw, texts are scrubbed as error
// texts are, and bytes that are no text are withheld, since nobody can see what
// is in them. It says false where the record does not say any more what it was
// decided on.
func Export(c dlqbridge.Case, p *dlqbridge.Payload, raw bool) (f Fixture, ok bool) {
	x := replayable(c)
	if x == nil {
		return f, false
	}
	c = asOf(c, *x)
	f = Fixture{
		Form: FixtureForm, Scrubbed: !raw, Record: c.Control.ID, Version: c.Control.Version, Expect: verdictOf(*x),
		Control: c.Control, History: c.History, Arrivals: []dlqbridge.Arrival{}, Notes: nonNil(c.CountedNotes()), Context: *x,
	}
	for _, a := range c.Arrivals {
		if c.Reflects(a.Key) {
			f.Arrivals = append(f.Arrivals, a)
		}
	}
	if p != nil {
		f.Payload = &FixturePayload{Body: fixtureBytes(p.Body, raw), Attributes: []FixtureAttribute{}, GroupKey: p.GroupKey}
		for _, a := range p.Attributes {
			f.Payload.Attributes = append(f.Payload.Attributes, FixtureAttribute{a.Name, a.Type, fixtureBytes(a.Value, raw)})
		}
	}
	return f, true
}

func fixtureBytes(b []byte, raw bool) FixtureBytes {
	switch {
	case utf8.Valid(b):
		s := string(b)
		if !raw {
			s = scrubText(s)
		}
		return FixtureBytes{Text: &s}
	case raw:
		return FixtureBytes{Base64: b}
	}
	return FixtureBytes{Withheld: len(b)}
}

func (b FixtureBytes) bytes() []byte {
	if b.Text != nil {
		return []byte(*b.Text)
	}
	return b.Base64
}

// Encode writes the fixture as one JSON document. In a scrubbed one every text
// is scrubbed, also those that stood in it before: arrivals and notes are kept
// as people and producers wrote them.
func (f Fixture) Encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(f); err != nil {
		return nil, err
	}
	if !f.Scrubbed {
		return b.Bytes(), nil
	}
	var all any
	d := json.NewDecoder(&b)
	d.UseNumber()
	if err := d.Decode(&all); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	e = json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(scrubbed(all))
	return out.Bytes(), err
}

// scrubbed is a JSON value with its texts scrubbed.
func scrubbed(v any) any {
	switch v := v.(type) {
	case string:
		return scrubText(v)
	case []any:
		for i := range v {
			v[i] = scrubbed(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = scrubbed(v[name])
		}
	}
	return v
}

// maxFixture is far above any fixture: a payload is at most some MB.
const maxFixture = 64 << 20

// ReadFixture reads a fixture and refuses anything else.
func ReadFixture(r io.Reader) (Fixture, error) {
	var f Fixture
	d := json.NewDecoder(io.LimitReader(r, maxFixture))
	if err := d.Decode(&f); err != nil {
		return f, fmt.Errorf("no fixture: %w", err)
	}
	switch {
	case f.Form != FixtureForm:
		return f, fmt.Errorf("no fixture: its form is %q, not %q", f.Form, FixtureForm)
	case f.Control.Route == "" || f.Context.Name == "" || len(f.Arrivals) == 0 || len(f.History) == 0:
		return f, errors.New("no fixture: control, context, arrivals or history are missing")
	case f.Expect.Cause == "" && f.Expect.Lane == "" && f.Expect.Action == "":
		return f, errors.New("no fixture to test: expect names neither cause, lane nor action")
	}
	f.Control.ID, f.Control.Version = f.Record, f.Version
	for i := range f.History {
		f.History[i].Version = i + 1
	}
	return f, nil
}

// Case is the record of a fixture, for Replay.
func (f Fixture) Case() (dlqbridge.Case, *dlqbridge.Payload) {
	c := dlqbridge.Case{Control: f.Control, History: f.History, Arrivals: f.Arrivals, Notes: f.Notes, Contexts: []dlqbridge.Context{f.Context}}
	c.Control.Context = f.Context.Name
	if f.Payload == nil {
		return c, nil
	}
	p := dlqbridge.Payload{Body: f.Payload.Body.bytes(), GroupKey: f.Payload.GroupKey}
	for _, a := range f.Payload.Attributes {
		p.Attributes = append(p.Attributes, dlqbridge.Attribute{Name: a.Name, Type: a.Type, Value: a.Value.bytes()})
	}
	return c, &p
}
