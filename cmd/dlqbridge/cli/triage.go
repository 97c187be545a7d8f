package cli

import (
	"context"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/screen"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/triage"
)

// verbHelp is what a verb's help teaches besides the table of moves.
var verbHelp = map[dlqbridge.Verb]struct{ long, example string }{
	dlqbridge.VerbAssign: {
		"Gives records to a team or person. Nothing else changes.",
		`  dlqbridge triage assign r_… --owner payments-team --reason "their connector"`,
	},
	dlqbridge.VerbClassify: {
		"Corrects the cause of a failure. The stores are read again and the decision is taken anew under that cause.",
		`  dlqbridge triage classify r_… --cause invalid_input --reason "the customer id never existed"`,
	},
	dlqbridge.VerbInvestigate: {
		"Reads the stores again, folds again and decides again. Use it when a worker has written its receipt late, or after a late arrival was looked at.",
		`  dlqbridge triage investigate r_… --reason "ledger was unreachable"`,
	},
	dlqbridge.VerbSettleEffect: {
		`States what really happened outside, from what you saw there. It speaks for what happened until now; each later send opens a new span,
and so does each further letter: it is the death of another run.

What contradicts an earlier person's statement about the same step is refused. If
that one was mistaken, --correct puts yours in its place: for one step, or with
--all-steps for every step that somebody spoke of. Both stay in the history, and
what stores found (a receipt) is corrected by nobody.`,
		`  dlqbridge triage settle-effect r_… --to none_confirmed --step '0003#charge' \
      --reason "looked at the card processor" --evidence "no charge for order 7 until 14:00, ticket OPS-12"
  dlqbridge triage settle-effect r_… --to confirmed --all-steps --reason "…" --evidence "charge ch_123"
  dlqbridge triage settle-effect r_… --to none_confirmed --step '0003#charge' --correct \
      --reason "ch_123 was another order" --evidence "no charge for order 7, ticket OPS-13"`,
	},
	dlqbridge.VerbSettleSend: {
		"States whether a send whose answer was lost went out. Without this, a message that may be in the queue is never sent again.",
		`  dlqbridge triage settle-send r_… --to not-sent --reason "…" --evidence "queue log of 14:02 has no such message"`,
	},
	dlqbridge.VerbFix: {
		"Records a verifiable change that removes the cause: KIND:TEXT, with " + fixKinds + ".",
		`  dlqbridge triage fix r_… --fix deploy:1.4.2 --reason "handles the new field"`,
	},
	dlqbridge.VerbAuthorize: {
		`Allows one send of each record, if what is known allows it: the action that the decision names, no unknown effect, a fix on record, no
conflict. Where two people are needed, the first call notes an approval and the second, by another authenticated person, authorises.`,
		`  dlqbridge triage authorize r_… --reason "checked with payments"`,
	},
	dlqbridge.VerbCompleteManually: {
		"Closes records whose work was done by hand.",
		`  dlqbridge triage complete-manually r_… --reason "booked by hand" --evidence "booking 4711"`,
	},
	dlqbridge.VerbCompensated: {
		"Closes records whose effect was undone.",
		`  dlqbridge triage compensated r_… --reason "refunded" --evidence "refund re_99"`,
	},
	dlqbridge.VerbReject: {
		"Closes records whose work is not to be done.",
		`  dlqbridge triage reject r_… --reason "duplicate order, customer agreed"`,
	},
	dlqbridge.VerbCancelExpired: {
		"Closes records whose work has lost its sense: past their valid_until.",
		`  dlqbridge triage cancel-expired r_… --reason "the offer ended yesterday"`,
	},
	dlqbridge.VerbOpenIncident: {
		"Opens an incident on records: nothing is sent until it is closed.",
		`  dlqbridge triage open-incident r_… --reason "two customers' data in one answer"`,
	},
	dlqbridge.VerbCloseIncident: {
		"Closes the incident; the records are then under investigation.",
		`  dlqbridge triage close-incident r_… --reason "…" --evidence "INC-31"`,
	},
	dlqbridge.VerbSnooze: {
		"Moves the triage deadline. Nothing else changes.",
		`  dlqbridge triage snooze r_… --until 4h --reason "waiting for the vendor"
  dlqbridge triage snooze r_… --until 2026-12-24T18:00:00Z --reason "waiting for the vendor"`,
	},
	dlqbridge.VerbReopen: {
		"Opens closed records again; they are then under investigation. A manual completion needs a second authenticated person.",
		`  dlqbridge triage reopen r_… --reason "rejected by mistake"`,
	},
}

func (s *session) triage() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "triage VERB ID…",
		Short: "Move records: classify, settle, fix, authorise, close",
		Long: `Moves records as a person. Each move needs --reason, and one that states a fact
also --evidence; both stand in the record's history for good, with who and when.
` + "`records explain ID`" + ` lists the moves that are possible on a record now.

No verb sends anything: what a record's action says is what ` + "`redrive run`" + ` would do
once it is authorised, so ` + "`redrive run --action compensate`" + ` sends compensations.
A verb that decides anew takes an authorisation back.
The actor is the principal that AWS confirms (STS), else the OS user, who never
counts as a second person; --actor adds a note.`,
		Example: `  dlqbridge triage moves
  dlqbridge triage fix r_… --fix deploy:1.4.2 --reason "handles the new field"
  dlqbridge records list --cause timeout --limit 0 -o json | jq -r '.records[].id' |
    xargs dlqbridge triage investigate --reason "ledger is back"`,
		RunE: group,
		Args: cobra.ArbitraryArgs,
	}
	for _, rule := range dlqbridge.Moves() {
		switch {
		case rule.Verb == dlqbridge.VerbRepair:
			cmd.AddCommand(s.repair(rule))
		case rule.Person:
			cmd.AddCommand(s.verb(rule))
		}
	}
	cmd.AddCommand(s.moves())
	return cmd
}

// verb is the command of one person's move.
func (s *session) verb(rule dlqbridge.MoveRule) *cobra.Command {
	var a triage.Request
	var fixText, until, to string
	help := verbHelp[rule.Verb]
	cmd := &cobra.Command{
		Use:     string(rule.Verb) + " ID…",
		Short:   strings.ToUpper(rule.Does[:1]) + rule.Does[1:],
		Long:    help.long,
		Example: help.example,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := recordKind.some(cmd, args); err != nil {
				return err
			}
			return recordIDs(args)
		},
		RunE: func(cmd *cobra.Command, ids []string) error {
			if err := said("--reason", a.Reason, dlqbridge.MaxReason, true, "whoever reads the history must know why"); err != nil {
				return err
			}
			if err := said("--evidence", a.Evidence, dlqbridge.MaxEvidence, rule.Evidence, "this move states a fact, so say where it can be seen"); err != nil {
				return err
			}
			if err := s.verbFlags(&a, rule.Verb, fixText, until, to); err != nil {
				return err
			}
			return s.moveAll(cmd.Context(), a, ids)
		},
	}
	a.Verb = rule.Verb
	flags := cmd.Flags()
	flags.StringVar(&a.Reason, "reason", "", "why, for whoever reads the history (required, at most 500 bytes)")
	evidence := "where the fact can be seen (at most 2,000 bytes)"
	if rule.Evidence {
		evidence = "where the fact can be seen (required, at most 2,000 bytes)"
	}
	flags.StringVar(&a.Evidence, "evidence", "", evidence)
	//exhaustive:ignore
	switch rule.Verb {
	case dlqbridge.VerbAssign:
		flags.StringVar(&a.Owner, "owner", "", "team or person (required)")
	case dlqbridge.VerbClassify:
		flags.StringVar((*string)(&a.Cause), "cause", "", "the right cause (required)")
	case dlqbridge.VerbSettleEffect:
		flags.StringVar(&to, "to", "", "none_confirmed or confirmed (required)")
		flags.StringVar(&a.Step, "step", "", "the step that you speak of, named as in records show")
		flags.BoolVar(&a.AllSteps, "all-steps", false, "you speak of every step of the task")
		flags.BoolVar(&a.Correct, "correct", false, "what people stated before about these steps was mistaken; yours takes its place")
	case dlqbridge.VerbSettleSend:
		flags.StringVar(&to, "to", "", "sent or not-sent (required)")
	case dlqbridge.VerbFix:
		flags.StringVar(&fixText, "fix", "", "the change, KIND:TEXT (required)")
	case dlqbridge.VerbSnooze:
		flags.StringVar(&until, "until", "", "new triage deadline: a time, or a span from now (required)")
	default:
	}
	return cmd
}

// maxOwner bounds --owner, in bytes.
const maxOwner = 128

// verbFlags reads what only one verb has.
func (s *session) verbFlags(a *triage.Request, verb dlqbridge.Verb, fixText, until, to string) (err error) {
	//exhaustive:ignore
	switch verb {
	case dlqbridge.VerbAssign:
		return said("--owner", a.Owner, maxOwner, true, "say whom the records are given to")
	case dlqbridge.VerbClassify:
		if a.Cause == "" {
			return usagef("known are "+join(dlqbridge.Causes()), "--cause is missing")
		}
		a.Cause, err = word("--cause", string(a.Cause), dlqbridge.Causes())
		return err
	case dlqbridge.VerbSettleEffect:
		if a.Effect, err = word("--to", to, settledEffects); err != nil {
			return err
		}
		switch {
		case a.Effect == "":
			return usagef("write --to none_confirmed or --to confirmed", "--to is missing")
		case a.Step == "" && !a.AllSteps:
			return usagef("name one by --step, or all by --all-steps", "of which step do you speak?")
		case a.Step != "" && a.AllSteps:
			return usagef("keep one of them", "--step and --all-steps contradict each other")
		}
		return said("--step", a.Step, dlqbridge.MaxReason, false, "")
	case dlqbridge.VerbSettleSend:
		switch to {
		case "sent", "not-sent":
			a.Sent = to == "sent"
			return nil
		}
		return usagef("write --to sent or --to not-sent", "--to %q does not say whether it went out", to)
	case dlqbridge.VerbFix:
		if fixText == "" {
			return usagef("write --fix KIND:TEXT, such as deploy:1.4.2", "--fix is missing")
		}
		a.Fix, err = fix(fixText)
		return err
	case dlqbridge.VerbSnooze:
		if until == "" {
			return usagef("write --until 4h, or a time", "--until is missing")
		}
		a.Until, err = moment("--until", until, s.p.Now())
		return err
	default:
		return nil
	}
}

func join[T ~string](words []T) string { return strings.Join(texts(words), ", ") }

// moved is what became of one record.
type moved struct {
	ID      string           `json:"id"`
	Status  dlqbridge.Status `json:"status,omitempty"`
	Version int              `json:"version,omitempty"`
	// Action is what is to be done now, Note what the person should know.
	Action dlqbridge.Action `json:"action,omitempty"`
	Note   string           `json:"note,omitempty"`
	// Repair is what a repair changes.
	Repair *triage.Repaired `json:"repair,omitempty"`
	Error  *failure         `json:"error,omitempty"`
}

// movesAtOnce bounds the records that are moved in parallel.
const movesAtOnce = 8

// moveAll moves each record by itself: one that is refused stops no other.
func (s *session) moveAll(ctx context.Context, a triage.Request, ids []string) error {
	b, err := s.open(ctx, nil)
	if err != nil {
		return err
	}
	if a.Actor, err = s.actor(ctx); err != nil {
		return err
	}
	mover := triage.Mover{Store: b.Store, Judge: b.JudgeCase, Compensates: b.Compensates, Now: s.p.Now}
	results, failed, first := each(ids, func(id string) (triage.Done, error) { return mover.Move(ctx, id, a) })
	if len(results) == 1 && failed == 1 {
		return first // one record: its refusal is the answer
	}
	err = s.print(map[string]any{"records": results}, func(out *screen.Screen) { printMoved(out, results) })
	switch {
	case err != nil:
		return err
	case failed > 0:
		return errPartial
	}
	return nil
}

// each does something with each record, several at once. It answers by record,
// says how many failed and returns the first failure.
func each(ids []string, do func(id string) (triage.Done, error)) (results []moved, failed int, first error) {
	ids = unique(ids)
	results = make([]moved, len(ids))
	errs := make([]error, len(ids))
	slots := make(chan struct{}, movesAtOnce)
	var all sync.WaitGroup
	for i, id := range ids {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			done, err := do(id)
			results[i] = moved{
				ID: id, Status: done.Control.Status, Version: done.Control.Version, Action: done.Control.Action, Note: done.Note, Repair: done.Repaired,
			}
			if err != nil {
				f, _ := describe(err)
				results[i] = moved{ID: id, Error: &f}
				errs[i] = err
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			failed++
			if first == nil {
				first = err
			}
		}
	}
	return results, failed, first
}

func printMoved(out *screen.Screen, results []moved) {
	for _, r := range results {
		switch {
		case r.Error != nil:
			out.Printf("%s  %s\n", r.ID, screen.Styled{Style: screen.Red, Text: r.Error.Message})
		case r.Note != "":
			out.Printf("%s  %s  %s\n", r.ID, statusCell(r.Status), r.Note)
		default:
			out.Printf("%s  %s  next: %s\n", r.ID, statusCell(r.Status), string(r.Action))
		}
	}
}

func unique(ids []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			out = append(out, id)
		}
	}
	return out
}

// moves prints the one table of allowed moves.
func (s *session) moves() *cobra.Command {
	return &cobra.Command{
		Use:   "moves",
		Short: "Print the table of allowed moves",
		Long:  "Prints which move is allowed from which status, who makes it, and where it leads. The same table decides.",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			type row struct {
				Verb     dlqbridge.Verb     `json:"verb"`
				By       string             `json:"by"`
				From     []dlqbridge.Status `json:"from"`
				To       []dlqbridge.Status `json:"to"`
				Evidence bool               `json:"evidence"`
				Does     string             `json:"does"`
			}
			var rows []row
			for _, r := range dlqbridge.Moves() {
				one := row{Verb: r.Verb, By: "machine", From: r.From, To: r.To, Evidence: r.Evidence, Does: r.Does}
				if r.Person {
					one.By = "person"
				}
				if r.Stays {
					one.To = []dlqbridge.Status{}
				}
				rows = append(rows, one)
			}
			return s.print(map[string]any{"moves": rows}, func(out *screen.Screen) {
				for _, r := range rows {
					needs := ""
					if r.By == "person" {
						needs = " (--reason)"
					}
					if r.Evidence {
						needs = " (--reason, --evidence)"
					}
					out.Printf("%s by a %s%s: %s\n", screen.Styled{Style: screen.Bold, Text: string(r.Verb)}, r.By, needs, r.Does)
					out.Printf("  from %s\n", join(r.From))
					to := join(r.To)
					if len(r.To) == 0 {
						to = "the same status"
					}
					out.Printf("  to   %s\n", to)
				}
			})
		},
	}
}
