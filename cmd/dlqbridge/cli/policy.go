package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/spf13/cobra"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/screen"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/wire"
	"github.com/dlqbridge/dlqbridge/enrich"
)

func (s *session) policy() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Try a configuration's rules on stored records",
		RunE:  group,
		Args:  cobra.ArbitraryArgs,
	}
	cmd.AddCommand(s.policyTest())
	return cmd
}

// changeDoc is one record that would be decided otherwise.
type changeDoc struct {
	ID    string         `json:"id"`
	Route string         `json:"route"`
	File  *string        `json:"file"`
	From  enrich.Verdict `json:"from"`
	To    enrich.Verdict `json:"to"`
}

// policyDoc counts what a test of the policy came to.
type policyDoc struct {
	Since   *string        `json:"since"`
	Tested  int            `json:"tested"`
	Changed int            `json:"changed"`
	Summary []changesDoc   `json:"summary"`
	Skipped map[string]int `json:"skipped"`
}

// changesDoc counts the changes of one kind.
type changesDoc struct {
	From  changedTo `json:"from"`
	To    changedTo `json:"to"`
	Count int       `json:"count"`
}

type changedTo struct {
	Cause  dlqbridge.Cause  `json:"cause"`
	Lane   dlqbridge.Lane   `json:"lane"`
	Action dlqbridge.Action `json:"action"`
}

func (s *session) policyTest() *cobra.Command {
	var since string
	var routes, fixtures []string
	var open bool
	cmd := &cobra.Command{
		Use:   "test",
		Short: "Say which records this configuration would decide otherwise",
		Long: `Decides the stored records of a time once more by the configuration that is given
(rules, causes, declarations of routes) and says which would get another cause,
lane or action, and by which rule. Each is decided from what was known when it
was decided last: no store is asked, nothing is written, and what letters carry
is taken as it was read then. Closed records are tested too, by what was known of
their failure before they ended, which reads the whole table; --open tests open
ones only.

With --fixture, or just with files, it decides what ` + "`records export`" + ` wrote, without
any cloud, and fails (exit code 1) if something comes out otherwise than the
fixture expects. Its expect is what was decided then; change cause, lane or action
there to what a new rule should lead to, or leave out what does not matter.`,
		Example: `  dlqbridge --config new.yaml policy test --since 7d
  dlqbridge --config new.yaml policy test --since 24h --route orders --open -o json
  dlqbridge policy test --fixture testdata/payments-outage.json
  dlqbridge policy test --fixture testdata/*.json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			fixtures = append(fixtures, args...) // --fixture *.json is several words
			if (since == "") == (len(fixtures) == 0) {
				return usagef("add --since 7d, or --fixture FILE", "say what to test: the records of a time, or fixtures")
			}
			now := s.p.Now()
			d, err := span("--since", since)
			if err != nil {
				return err
			}
			t := policyRun{s: s, doc: policyDoc{Summary: []changesDoc{}, Skipped: map[string]int{}}, kinds: map[[2]changedTo]int{}}
			if len(fixtures) > 0 {
				return t.fixtures(cmd.Context(), fixtures)
			}
			b, err := s.open(cmd.Context(), nil)
			if err != nil {
				return err
			}
			filter := dlqbridge.Filter{Routes: routes, Closed: !open, Now: now}
			if err := s.listRoutes(cmd.Context(), b.Store, filter); err != nil {
				return err
			}
			from := now.Add(-d)
			t.doc.Since = at(from)
			return t.records(cmd.Context(), b, filter, from)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&since, "since", "", "the records with a letter since this span, such as 7d")
	flags.StringSliceVar(&routes, "route", nil, "only these routes")
	flags.BoolVar(&open, "open", false, "open records only")
	flags.StringSliceVar(&fixtures, "fixture", nil, "test these fixtures instead of stored records; further files may follow")
	return cmd
}

// policyRun is one test of a policy. Changes are printed as they are found, so
// that a test of any length needs no memory.
type policyRun struct {
	s       *session
	doc     policyDoc
	kinds   map[[2]changedTo]int
	printed int
}

// replayedAtOnce is how many records are read together.
const replayedAtOnce = 100

func (t *policyRun) records(ctx context.Context, b *wire.Bridge, f dlqbridge.Filter, since time.Time) error {
	var waiting []dlqbridge.Control
	flush := func() error {
		out, err := b.Replay(ctx, waiting)
		if err != nil {
			return err
		}
		for i, r := range out {
			if err := t.note(changeDoc{ID: waiting[i].ID, Route: waiting[i].Route}, r); err != nil {
				return err
			}
		}
		waiting = waiting[:0]
		return nil
	}
	for l, err := range b.Store.List(ctx, f) {
		if err != nil {
			return t.end(err)
		}
		if l.Control.LastSeen.Before(since) {
			continue
		}
		if waiting = append(waiting, l.Control); len(waiting) == replayedAtOnce {
			if err := flush(); err != nil {
				return t.end(err)
			}
		}
	}
	if len(waiting) > 0 {
		if err := flush(); err != nil {
			return t.end(err)
		}
	}
	return t.end(nil)
}

func (t *policyRun) fixtures(ctx context.Context, files []string) error {
	c, err := t.s.config(nil)
	if err != nil {
		return err
	}
	// No call is made, so neither a region nor credentials are needed.
	b, err := wire.New(wire.Options{Config: c, AWS: aws.Config{Region: "none"}, Env: t.s.p.Env, PubSub: t.s.p.PubSub, Now: t.s.p.Now, Log: t.s.log(c)})
	if err != nil {
		return err
	}
	t.s.closeAtEnd(ctx, b)
	for _, file := range files {
		f, err := readFixture(file)
		if err != nil {
			return t.end(err)
		}
		c, payload := f.Case()
		r := b.ReplayCase(c, payload)
		r.Was = expected(f.Expect, r.Is)
		if err := t.note(changeDoc{ID: f.Record, Route: f.Control.Route, File: &file}, r); err != nil {
			return t.end(err)
		}
	}
	err = t.end(nil)
	if t.doc.Changed > 0 {
		err = errSaid
	}
	return err
}

// expected is what a fixture wants, which a person may have changed. What it
// leaves out may be anything.
func expected(want, is enrich.Verdict) enrich.Verdict {
	want.Cause, want.Lane, want.Action = cmp.Or(want.Cause, is.Cause), cmp.Or(want.Lane, is.Lane), cmp.Or(want.Action, is.Action)
	return want
}

const fixtureHint = "`dlqbridge records export ID > FILE` writes one"

func readFixture(name string) (enrich.Fixture, error) {
	file, err := os.Open(name) //nolint:gosec // the person names the file
	if err != nil {
		return enrich.Fixture{}, &usageError{err.Error(), fixtureHint}
	}
	defer func() { _ = file.Close() }() // only read
	f, err := enrich.ReadFixture(file)
	if err != nil {
		return f, &usageError{name + ": " + err.Error(), fixtureHint}
	}
	return f, nil
}

func (t *policyRun) note(d changeDoc, r wire.Replayed) error {
	if r.Skipped != "" {
		t.doc.Skipped[r.Skipped]++
		return nil
	}
	t.doc.Tested++
	kind := [2]changedTo{{r.Was.Cause, r.Was.Lane, r.Was.Action}, {r.Is.Cause, r.Is.Lane, r.Is.Action}}
	if kind[0] == kind[1] {
		return nil
	}
	t.doc.Changed++
	t.kinds[kind]++
	d.From, d.To = r.Was, r.Is
	if t.s.json() {
		return t.change(d)
	}
	t.s.screen.Printf("%s  %s  %s -> %s\n", d.ID, d.Route, verdictWords(d.From), verdictWords(d.To))
	return t.s.stdout.err
}

func verdictWords(v enrich.Verdict) string {
	return fmt.Sprintf("%s, %s (%s, rule %s)", v.Cause, v.Action, v.CauseRule, v.Rule)
}

// change writes one change into the document that end closes.
func (t *policyRun) change(d changeDoc) error {
	text, err := screen.CompactJSON(d)
	if err != nil {
		return err
	}
	before := ",\n"
	if t.printed == 0 {
		before = "{\"changes\":[\n"
	}
	t.printed++
	_, err = t.s.stdout.Write(append([]byte(before), text...))
	return err
}

// end prints the counts. If the test broke off, the document is still closed,
// with the error.
func (t *policyRun) end(failed error) error {
	if failed != nil && t.printed == 0 {
		return failed // the error can be the document
	}
	for kind, n := range t.kinds {
		t.doc.Summary = append(t.doc.Summary, changesDoc{kind[0], kind[1], n})
	}
	slices.SortFunc(t.doc.Summary, func(a, b changesDoc) int {
		return cmp.Or(b.Count-a.Count, cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	})
	err := t.print(failed)
	switch {
	case failed != nil:
		return failed
	case err != nil:
		return err
	case len(t.doc.Skipped) > 0:
		return errPartial
	}
	return nil
}

func (t *policyRun) print(failed error) error {
	if !t.s.json() {
		t.text()
		return t.s.stdout.err
	}
	tail := struct {
		policyDoc
		Error *failure `json:"error,omitempty"`
	}{policyDoc: t.doc}
	if failed != nil {
		said, _ := describe(failed)
		tail.Error = &said
	}
	text, err := screen.CompactJSON(tail)
	if err != nil {
		return err
	}
	before := "\n],"
	if t.printed == 0 {
		before = "{\"changes\":[],"
	}
	_, err = t.s.stdout.Write(append([]byte(before), append(text[1:], '\n')...))
	return err
}

func (t *policyRun) text() {
	out := t.s.screen
	for _, k := range t.doc.Summary {
		out.Printf("%s: %s, %s -> %s, %s\n", plural(k.Count, "record"), k.From.Cause, k.From.Action, k.To.Cause, k.To.Action)
	}
	for _, reason := range slices.Sorted(maps.Keys(t.doc.Skipped)) {
		out.Printf("%s not tested (%s): %s\n", plural(t.doc.Skipped[reason], "record"), reason, wire.SkippedWords(reason))
	}
	out.Printf("%s tested, %d would be decided otherwise\n", plural(t.doc.Tested, "record"), t.doc.Changed)
}
