package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/screen"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/triage"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/wire"
	"github.com/dlqbridge/dlqbridge/enrich/jsonpatch"
)

// repairFlags are those of `triage repair`.
type repairFlags struct {
	list           listFlags
	patch, arrival string
	version        int
	dryRun         bool
}

// repair is the one verb that takes a selection too: one patch often corrects a
// whole group of failures.
func (s *session) repair(rule dlqbridge.MoveRule) *cobra.Command {
	var f repairFlags
	a := triage.Request{Verb: rule.Verb}
	cmd := &cobra.Command{
		Use:   "repair [ID…]",
		Short: strings.ToUpper(rule.Does[:1]) + rule.Does[1:],
		Long: `Corrects the body of records by a patch: a JSON Patch (RFC 6902, a list of
operations) or a merge patch (RFC 7386, an object), one for all that are named
or selected. Each gets a new payload version; key, attributes and group stay,
and so do all earlier versions (records payload ID --version 1). The repair is
the record's fix; what was authorised before is authorised no longer.

A record that the patch does not fit is listed with its reason and left as it
is, the others go on, and the exit code is 3: no plain JSON in its body, another
task id, key, type or tenant after it, against the route's schema, too large or
with characters that its queue does not take.

--arrival takes a letter of the record and --version an earlier version, with or
without a patch: to undo a repair, or to say which one is right where the
letters of a record differ. Look first with --dry-run.`,
		Example: `  dlqbridge triage repair r_… --patch fix.json --dry-run
  dlqbridge triage repair --signature sg_… --patch fix.json --reason "currency was missing"
  echo '[{"op":"replace","path":"/customer/id","value":"c_7"}]' | dlqbridge triage repair r_… --patch - --reason "…"
  dlqbridge triage repair r_… --version 1 --reason "the patch was wrong"`,
		Args: func(_ *cobra.Command, args []string) error { return recordIDs(args) },
		RunE: func(cmd *cobra.Command, ids []string) error {
			if err := said("--reason", a.Reason, dlqbridge.MaxReason, !f.dryRun, "whoever reads the history must know why"); err != nil {
				return err
			}
			if err := said("--evidence", a.Evidence, dlqbridge.MaxEvidence, false, ""); err != nil {
				return err
			}
			if err := f.check(cmd, ids); err != nil {
				return err
			}
			patch, err := f.read(cmd.InOrStdin())
			if err != nil {
				return err
			}
			a.Repair = triage.RepairRequest{Patch: patch, Arrival: f.arrival, Version: f.version}
			return s.repairAll(cmd.Context(), a, f, ids)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.patch, "patch", "", "file with the patch; - is standard input")
	flags.StringVar(&f.arrival, "arrival", "", "start from this letter of the record (records show -o json names them)")
	flags.IntVar(&f.version, "version", 0, "start from this payload version; 1 is the letter as it came")
	flags.BoolVar(&f.dryRun, "dry-run", false, "only show what would change")
	flags.StringVar(&a.Reason, "reason", "", "why, for whoever reads the history (required, at most 500 bytes)")
	flags.StringVar(&a.Evidence, "evidence", "", "where it can be seen (at most 2,000 bytes)")
	f.list.add(cmd)
	flags.IntVar(&f.list.limit, "limit", 0, "at most this many of the selected, most urgent first; 0 is all")
	return cmd
}

// selecting are the flags that select records.
var selecting = []string{"route", "cause", "status", "lane", "signature", "tenant", "task-type", "effect", "owner", "overdue", "near-deadline"}

func (f *repairFlags) check(cmd *cobra.Command, ids []string) error {
	selects := slices.ContainsFunc(selecting, cmd.Flags().Changed)
	switch {
	case len(ids) == 0 && !selects:
		return usagef("name records, or select them such as by --signature sg_… (`dlqbridge records groups` lists them)", "which records are to be repaired?")
	case len(ids) > 0 && (selects || cmd.Flags().Changed("limit") || f.list.all):
		return usagef("keep one of them", "records and a selection contradict each other")
	case f.list.limit < 0:
		return usagef("0 is all", "--limit cannot be negative")
	case cmd.Flags().Changed("version") && f.version < 1:
		return usagef("versions count from 1, which is the letter as it came", "--version %d is none", f.version)
	case f.patch == "" && f.arrival == "" && f.version == 0:
		return usagef("give --patch FILE, or say which payload is right by --arrival or --version", "it is not said what to change")
	case f.arrival != "" && f.version != 0:
		return usagef("keep one of them", "--arrival and --version contradict each other")
	case f.arrival != "" && len(ids) != 1:
		return usagef("name that record", "--arrival is a letter of one record")
	}
	return nil
}

// read reads the patch before anything is looked at.
func (f *repairFlags) read(stdin io.Reader) (*jsonpatch.Patch, error) {
	if f.patch == "" {
		return nil, nil
	}
	in, name := stdin, "standard input"
	if f.patch != "-" {
		file, err := os.Open(f.patch)
		if err != nil {
			return nil, usagef("", "--patch: %v", err)
		}
		defer func() { _ = file.Close() }() // it was only read
		in, name = file, f.patch
	}
	text, err := io.ReadAll(io.LimitReader(in, jsonpatch.MaxBytes+1))
	if err != nil {
		return nil, usagef("", "--patch: %v", err)
	}
	patch, err := jsonpatch.Parse(text)
	if err != nil {
		return nil, usagef(`write a list such as [{"op":"replace","path":"/customer/id","value":"c_7"}], or an object to merge such as {"customer":{"id":"c_7"}}`,
			"--patch %s: %v", name, err)
	}
	return patch, nil
}

// repairAll repairs each record by itself: one that is refused stops no other.
func (s *session) repairAll(ctx context.Context, a triage.Request, f repairFlags, ids []string) error {
	b, err := s.open(ctx, nil)
	if err != nil {
		return err
	}
	named := len(ids) > 0
	if !named {
		if ids, err = s.selected(ctx, b, f.list); err != nil {
			return err
		}
	}
	if err := b.ResolveSources(ctx); err != nil && !errors.Is(err, dlqbridge.ErrDenied) {
		return err
	}
	mover := triage.Mover{Store: b.Store, Judge: b.JudgeCase, Compensates: b.Compensates, Now: s.p.Now, Bounds: b.Bounds()}
	do := mover.Preview
	if !f.dryRun {
		if a.Actor, err = s.actor(ctx); err != nil {
			return err
		}
		do = mover.Move
	}
	results, failed, first := each(ids, func(id string) (triage.Done, error) { return do(ctx, id, a) })
	if named && len(results) == 1 && failed == 1 {
		return first // one record: its refusal is the answer
	}
	doc := repairDoc{DryRun: f.dryRun, Repaired: len(results) - failed, Refused: failed, Records: results}
	if err := s.print(doc, func(out *screen.Screen) { printRepaired(out, doc) }); err != nil {
		return err
	}
	if failed > 0 {
		return errPartial
	}
	return nil
}

// selected lists the records that the flags select.
func (s *session) selected(ctx context.Context, b *wire.Bridge, f listFlags) ([]string, error) {
	filter, err := f.filter(s.p.Now())
	if err != nil {
		return nil, err
	}
	if err := s.listRoutes(ctx, b.Store, filter); err != nil {
		return nil, err
	}
	var ids []string
	_, err = listed(ctx, b.Store, filter, f.limit, func(c dlqbridge.Control) error {
		ids = append(ids, c.ID)
		return nil
	})
	return ids, err
}

// repairDoc is a repair for machines. With dryRun nothing was written, and
// status, action and repair say what would be.
type repairDoc struct {
	DryRun   bool    `json:"dryRun"`
	Repaired int     `json:"repaired"`
	Refused  int     `json:"refused"`
	Records  []moved `json:"records"`
}

// What a person is shown of one record at most; -o json has all.
const (
	maxShownChanges = 20
	maxShownValue   = 160
)

func printRepaired(out *screen.Screen, d repairDoc) {
	for _, r := range d.Records {
		if r.Error != nil {
			out.Printf("%s  %s\n", r.ID, screen.Styled{Style: screen.Red, Text: r.Error.Message})
			continue
		}
		line := "%s  payload version %d (%d bytes with attributes, was %d)  %s  next: %s\n"
		if d.DryRun {
			line = "%s  would get payload version %d (%d bytes with attributes, now %d) and be %s  next would be: %s\n"
		}
		out.Printf(line, r.ID, r.Repair.After.Version, r.Repair.After.Bytes, r.Repair.Before.Bytes, statusCell(r.Status), string(r.Action))
		if d.DryRun {
			printChanges(out, *r.Repair)
		}
		if r.Note != "" && (d.DryRun || len(d.Records) == 1) {
			out.Printf("  %s\n", r.Note)
		}
	}
	if len(d.Records) == 0 {
		out.Printf("no record matches the selection: `dlqbridge records list` and `dlqbridge records groups` show what there is\n")
	}
	done := "repaired"
	if d.DryRun {
		done = "would be repaired"
	}
	out.Printf("%s %s, %d refused\n", plural(d.Repaired, "record"), done, d.Refused)
}

// printChanges shows a difference field by field, as a diff does.
func printChanges(out *screen.Screen, r triage.Repaired) {
	switch {
	case r.SameBody:
		out.Printf("  the same body, byte for byte\n")
	case len(r.Changes) == 0:
		out.Printf("  the same fields, in another order or spelling, or with another byte order mark\n")
	}
	for i, c := range r.Changes {
		if i == maxShownChanges {
			out.Printf("  and %d more\n", len(r.Changes)-i)
			break
		}
		path := c.Path
		if path == "" {
			path = "the whole body"
		}
		if c.Op != "add" {
			out.Printf("  %s\n", screen.Styled{Style: screen.Red, Text: "- " + path + "  " + shown(c.Before)})
		}
		if c.Op != "remove" {
			out.Printf("  %s\n", screen.Styled{Style: screen.Green, Text: "+ " + path + "  " + shown(c.After)})
		}
	}
	if len(r.Attributes) > 0 {
		out.Printf("  attributes that differ: %s\n", strings.Join(r.Attributes, ", "))
	}
	if r.Group {
		out.Printf("  another group or ordering key\n")
	}
}

func shown(value []byte) string {
	if value == nil {
		return "(not JSON; `dlqbridge records payload` shows it)"
	}
	if len(value) <= maxShownValue {
		return string(value)
	}
	return fmt.Sprintf("%s… (%d bytes)", dlqbridge.CutText(string(value), maxShownValue), len(value))
}
