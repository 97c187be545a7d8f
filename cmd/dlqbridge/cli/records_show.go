package cli

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/screen"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/triage"
	"github.com/dlqbridge/dlqbridge/enrich"
)

func (s *session) recordsShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show ID",
		Short: "Show one record: task, effect, failure, decision, letters, redrives",
		Example: `  dlqbridge records show r_…
  dlqbridge records show r_… -o json | jq '.effect.findings'`,
		Args: oneRecord,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.record(cmd, args[0])
			if err != nil {
				return err
			}
			d := enrich.Show(c, enrich.Around{Now: s.p.Now(), AuthorizeTTL: time.Duration(s.cfg.Redrive.AuthorizeTTL)})
			if closed := c.Control.ClosedAt; !closed.IsZero() {
				d.Payload.ExpiresAt = at(closed.Add(time.Duration(s.cfg.Payloads.Retention)))
			}
			return s.print(d, func(out *screen.Screen) { printRecord(out, d) })
		},
	}
}

// line prints one fact unless there is none.
func line(out *screen.Screen, name string, values ...*string) {
	var known []string
	for _, v := range values {
		if v != nil && *v != "" {
			known = append(known, *v)
		}
	}
	if len(known) > 0 {
		out.Printf("  %s %s\n", fmt.Sprintf("%-14s", name), strings.Join(known, "  "))
	}
}

func text[T ~string](v T) *string { return orNull(string(v)) }

func printRecord(out *screen.Screen, d enrich.Document) {
	head := func(s string) { out.Printf("%s\n", screen.Styled{Style: screen.Bold, Text: s}) }
	out.Printf("%s  %s  version %d\n", screen.Styled{Style: screen.Bold, Text: d.ID}, statusCell(d.Status), d.Version)
	line(out, "route", text(d.Route), d.Source.URN)
	line(out, "continues", d.Previous)
	line(out, "seen", d.FirstSeen, d.LastSeen)

	head("decision")
	line(out, "action", text(d.Decision.Action), text("("+d.Decision.Rule+")"))
	line(out, "because", d.Decision.Reason)
	line(out, "restriction", d.Decision.Restriction)
	line(out, "by", d.Decision.By, d.Decision.At)
	line(out, "owner", d.Decision.Owner)
	line(out, "triage by", d.Decision.TriageBy)
	line(out, "not before", d.Decision.NotBefore)
	line(out, "judged again", d.RecheckAt)
	line(out, "fix", d.Fix)
	for _, a := range d.Approvals {
		line(out, "approved", text("by "+a.String()))
	}
	if a := d.Authorization; a != nil {
		line(out, "authorised", text("by "+a.By), a.At, text("to "+a.Action))
		if a.Lapsed != nil {
			line(out, "", text(a.Lapsed.String()))
		}
	}
	if d.Conflict {
		line(out, "conflict", text("its letters differ where they must not; triage repair --arrival KEY says which payload is right"))
	}

	head("task")
	line(out, "task", d.Task.TaskID, d.Task.TaskType)
	line(out, "run", d.Task.RunID)
	line(out, "tenant", d.Task.Tenant)
	line(out, "key", d.Task.IdempotencyKey)
	line(out, "deadline", d.Task.Deadline)
	line(out, "valid until", d.Task.ValidUntil)

	head("effect")
	out.Printf("  %s", effectCell(d.Effect.State))
	if d.Effect.Uncovered != d.Effect.State {
		out.Printf(", beyond the checkpoint %s", effectCell(d.Effect.Uncovered))
	}
	if d.Effect.RepeatSafe {
		out.Printf(", repeating is declared safe")
	}
	out.Printf("\n")
	for _, f := range d.Effect.Findings {
		line(out, f.Store, text("step "+f.Step), f.Run, text(f.State), text("by "+f.Proof), f.Receipt, f.Detail)
	}
	if d.Checkpoint != nil {
		line(out, "checkpoint", text(d.Checkpoint.Ref), d.Checkpoint.Step, d.Checkpoint.Run)
	}

	head("failure")
	line(out, "cause", text(d.Failure.Cause), text("("+d.Failure.Lane+")"))
	line(out, "where", d.Failure.Phase, d.Failure.Step, d.Failure.Tool, d.Failure.Dependency)
	line(out, "code", d.Failure.Code)
	line(out, "message", d.Failure.Message)
	line(out, "signature", d.Failure.Signature)

	head("letters")
	for _, a := range d.Arrivals {
		late := ""
		if a.Late {
			late = "late"
		}
		line(out, "letter", text(a.MessageID), a.SentAt, text(late))
		if len(d.Arrivals) > 1 {
			line(out, "key", text(a.Key), text("payload "+short(a.PayloadSHA256)))
		}
		line(out, "lost at", a.LostAt)
		for _, c := range a.Conflicts {
			line(out, "disagrees", text(c.Field), text(c.Selector), text(c.Value))
		}
	}
	repaired := map[bool]string{true: fmt.Sprintf("version %d", d.Payload.Version)}[d.Payload.Version > 1]
	line(out, "payload", text(fmt.Sprintf("%d bytes with attributes", d.Payload.Bytes)), d.Payload.SHA256, text(repaired))
	if len(d.Redrives) > 0 {
		head("redrives")
	}
	for _, r := range d.Redrives {
		line(out, fmt.Sprintf("number %d", r.N), text(r.Job), text(r.Action), r.At, text(r.Outcome), r.MessageID)
		if r.Settled != nil {
			line(out, "", text(r.Settled.String()))
		}
	}
	line(out, "recurrences", text(map[bool]string{true: itoa(d.Recurrences)}[d.Recurrences > 0]))
}

func (s *session) recordsExplain() *cobra.Command {
	return &cobra.Command{
		Use:   "explain ID",
		Short: "Say why a record was decided so, and what would change that",
		Long: `Says which rule decided, what each store said and what that is worth, what was
sent and until when its outcome is waited for, which holds stop it, what would
lead to another decision, and which moves are possible now.`,
		Example: "  dlqbridge records explain r_…",
		Args:    oneRecord,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.record(cmd, args[0])
			if err != nil {
				return err
			}
			a, err := s.around(cmd.Context(), c)
			if err != nil {
				return err
			}
			e := enrich.Explain(c, a)
			return s.print(e, func(out *screen.Screen) { printExplanation(out, e) })
		},
	}
}

// around finds what an explanation needs besides the record: holds, mutes, and how
// long an outcome is waited for. Without the latter it is said as not known.
func (s *session) around(ctx context.Context, c dlqbridge.Case) (enrich.Around, error) {
	a, k := enrich.Around{Now: s.p.Now(), AuthorizeTTL: time.Duration(s.cfg.Redrive.AuthorizeTTL)}, c.Control
	b, err := s.open(ctx, nil)
	if err != nil {
		return a, err
	}
	if k.Status.Closed() {
		a.Newer, err = triage.Newer(ctx, b.Store, c)
		return a, err
	}
	if a.Holds, err = b.Store.ListHolds(ctx); err != nil {
		return a, fmt.Errorf("list holds: %w", err)
	}
	if a.Mutes, err = b.Store.ListMutes(ctx); err != nil {
		return a, err
	}
	a.Compensates = b.Compensates(k.Route)
	if r, ok := b.Config.Route(k.Route); ok {
		if err := b.ResolveAsides(ctx, r); err != nil {
			b.Log.LogAttrs(ctx, slog.LevelDebug, "where it is sent is not known", slog.Any("error", err))
		}
	}
	control := b.Controller()
	a.Destination = control.SendsTo(k)
	if k.Status != dlqbridge.StatusRedriving {
		return a, nil
	}
	if a.Window, a.Absence, err = control.ObserveFor(ctx, k); err != nil {
		b.Log.LogAttrs(ctx, slog.LevelDebug, "how long is observed is not known", slog.Any("error", err))
	}
	return a, nil
}

func printExplanation(out *screen.Screen, e enrich.Explanation) {
	out.Printf("%s  %s  %s\n", screen.Styled{Style: screen.Bold, Text: e.ID}, statusCell(e.Status), string(e.Action))
	out.Printf("  rule %s, cause %s", string(e.Rule), string(e.Cause))
	if e.CauseRule != "" {
		out.Printf(" (%s)", e.CauseRule)
	}
	out.Printf(", effect %s, beyond the checkpoint %s", string(e.Effect), string(e.Uncovered))
	if e.RepeatSafe {
		out.Printf(", repeating is declared safe")
	}
	out.Printf("\n")
	for _, section := range e.Sections() {
		out.Printf("%s\n", screen.Styled{Style: screen.Bold, Text: section.Title})
		for _, l := range section.Lines {
			out.Printf("  - %s\n", l)
		}
	}
	if len(e.Verbs) > 0 {
		out.Printf("%s\n  %s\n", screen.Styled{Style: screen.Bold, Text: "moves that are possible now, by what is on record (dlqbridge triage …)"}, join[dlqbridge.Verb](e.Verbs))
	}
}
