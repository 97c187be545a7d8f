package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/screen"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/wire"
	"github.com/dlqbridge/dlqbridge/redrive"
)

func (s *session) redriveStatus() *cobra.Command {
	var history, follow bool
	cmd := &cobra.Command{
		Use:   "status JOB",
		Short: "Show one job: how far it is, what came of it, why it paused, who did what",
		Long: fmt.Sprintf(`Shows one job. What was sent and what came of it is counted from the records
themselves, so it is true of a running job and of one whose process died, which is
said (abandoned in the JSON; its state stays running until somebody continues or
cancels it). Of a job with more than %d records the first ones are counted, and it
says so.

It shows sent, completed, recurred and unconfirmed apart, for each canary step and
each group of failures, with the share of success and the time until an outcome was
seen. In the JSON these are outcomes, successRate, timeToOutcome (medianSeconds,
p95Seconds, of), steps and signatures; estimatedEnd is when the rest will be sent,
null where nobody can say. What the plan did not select (excludedByPlan) stands apart
from what it did and the run left out (excludedByRun), each by reason, and the sends
in doubt are named (inDoubtRecords). --follow reads the job each second and counts again now
and then, the seldomer the longer it takes; it ends too where the process died. Stopped by a signal it only looks away:
the job goes on, and the exit code is 0.`, redrive.MaxTally),
		Example: `  dlqbridge redrive status j_… --follow     # until it ends or pauses
  dlqbridge redrive status j_… --history    # who started, paused and continued it`,
		Args: jobKind.one,
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := s.open(cmd.Context(), nil)
			if err != nil {
				return err
			}
			j, err := b.Store.Job(cmd.Context(), args[0])
			if follow && err == nil {
				j, err = s.follow(cmd.Context(), b, j)
			}
			if follow && j.State == dlqbridge.JobRunning && cmd.Context().Err() != nil {
				return s.looksAway(j)
			}
			if err != nil {
				return noJob(args[0], err)
			}
			return s.showJob(cmd.Context(), b.Controller(), j, history)
		},
	}
	cmd.Flags().BoolVar(&history, "history", false, "show the audit trail too (it is always in the JSON)")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "wait until the job ends or pauses, with its progress where that is a terminal")
	return cmd
}

// followEvery is how often a followed job is read: one cheap read, and fast
// enough for eyes.
const followEvery = time.Second

// countEvery is how often the outcomes of a followed job are counted at most.
const countEvery = 2 * time.Second

// lifeEvery is how often it is asked whether a followed job's process lives.
const lifeEvery = 15 * time.Second

// follow reads a job until it no longer runs, or nobody runs it. When ctx ends it returns the job
// as last read, with the error.
func (s *session) follow(ctx context.Context, b *wire.Bridge, j dlqbridge.Job) (dlqbridge.Job, error) {
	defer s.meter.clear()
	c := b.Controller()
	var counted redrive.Tally
	var pace speed
	count := s.p.Now()
	for alive := s.p.Now().Add(lifeEvery); j.State == dlqbridge.JobRunning; {
		if now := s.p.Now(); now.After(alive) {
			if life, err := c.Life(ctx, j); err == nil && life.Abandoned {
				return j, nil // nothing would ever change
			}
			alive = now.Add(lifeEvery)
		}
		if began := s.p.Now(); s.meter != nil && !began.Before(count) {
			// Counting again takes a twentieth of the time at most.
			if t, err := c.Tally(ctx, j.ID, redrive.MaxTally); err == nil {
				counted = t
			}
			count = s.p.Now().Add(max(countEvery, 20*s.p.Now().Sub(began)))
		}
		seen := j
		seen.Sent = max(j.Sent, counted.Sent) // the item's numbers lag behind the records
		pace.saw(s.p.Now(), seen.Sent)
		s.meter.show(followed(seen, outcomeWords(counted.Outcomes), &pace, s.p.Now()))
		t := time.NewTimer(followEvery)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return j, ctx.Err()
		}
		now, err := b.Store.Job(ctx, j.ID)
		if err != nil {
			return j, err
		}
		j = now
	}
	return j, nil
}

// followed is the line of a followed job: what changes first, because the end
// may be cut off.
func followed(j dlqbridge.Job, outcomes string, pace *speed, now time.Time) string {
	parts := []string{fmt.Sprintf("%s %d of %d sent", bar(j), j.Sent, j.Selected)}
	rate, known := pace.perSecond(now)
	if known {
		parts = append(parts, fmt.Sprintf("%.1f/s", rate))
		rate = min(rate, j.Rate.PerSecond())
	} else {
		rate = j.Rate.PerSecond()
	}
	since := pace.changed() // what is left counts from then on
	if since.IsZero() {
		since = now
	}
	if end := endAt(j, rate, since); end.After(now) {
		parts = append(parts, end.Sub(now).Round(time.Second).String()+" to send")
	}
	return sentence(append(parts, j.Doing, outcomes, someOf(j.Excluded, "excluded"), someOf(j.InDoubt, "in doubt")))
}

// looksAway ends a view of a job that goes on, which is no failure.
func (s *session) looksAway(j dlqbridge.Job) error {
	return s.print(jobDocument(j), func(out *screen.Screen) {
		out.Printf("%s goes on (%d of %d sent when last read); `dlqbridge redrive pause` or `cancel` would stop it\n",
			screen.Styled{Style: screen.Bold, Text: j.ID}, j.Sent, j.Selected)
	})
}

// bar is how far a job is, in twenty characters.
func bar(j dlqbridge.Job) string {
	const width = 20
	done := 0
	if j.Selected > 0 {
		done = min(width, width*(j.Sent+j.Excluded+j.InDoubt)/j.Selected)
	}
	return "[" + strings.Repeat("#", done) + strings.Repeat(".", width-done) + "]"
}

func noJob(id string, err error) error {
	if wire.Absent(err) {
		return jobKind.missing(id)
	}
	return err
}

// jobDoc is a job for machines.
type jobDoc struct {
	ID     string             `json:"id"`
	State  dlqbridge.JobState `json:"state"`
	Reason *string            `json:"reason"`
	// Abandoned: it says that it runs, and its process has died.
	Abandoned   bool            `json:"abandoned"`
	Cause       dlqbridge.Cause `json:"cause"`
	Destination string          `json:"destination"`
	Route       *string         `json:"route"`
	Fix         *dlqbridge.Fix  `json:"fix"`
	By          string          `json:"by"`
	Why         string          `json:"why"`
	Rate        string          `json:"rate"`
	Burst       int             `json:"burst"`
	MaxInFlight int             `json:"maxInFlight"`
	Created     string          `json:"created"`
	Ended       *string         `json:"ended"`
	Selected    int             `json:"selected"`
	Sent        int             `json:"sent"`
	InDoubt     int             `json:"inDoubt"`
	Excluded    int             `json:"excluded"`
	// ExcludedByPlan counts by reason what the plan did not select, ExcludedByRun
	// what it did and the run left out: the excluded members, and what had changed
	// before the job began.
	ExcludedByPlan map[dlqbridge.ExcludeReason]int `json:"excludedByPlan"`
	ExcludedByRun  map[dlqbridge.ExcludeReason]int `json:"excludedByRun"`
	// InDoubtRecords are the ids of the counted members in doubt; null where only
	// the job's own numbers are known.
	InDoubtRecords []string `json:"inDoubtRecords"`
	// Outcomes counts what came of the first Counted members, in the words of
	// `redrive run`: sent still waits. Null where only the job's own numbers, of
	// its last write, are known.
	Outcomes map[dlqbridge.SendOutcome]int `json:"outcomes"`
	Counted  *int                          `json:"counted"`
	Canary   []int                         `json:"canary"`
	Step     int                           `json:"step"`
	Doing    *string                       `json:"doing"`
	// ApprovedBy is the second person's name, Plan the hash that they approved.
	ApprovedBy *string `json:"approvedBy"`
	Plan       *string `json:"plan"`
	// EstimatedEnd is when the rest will have been sent, at the rate so far; null
	// where the job does not run or waits for outcomes.
	EstimatedEnd *string `json:"estimatedEnd"`
	standingDoc
	// Steps and Signatures are the job's parts, of the counted members; absent in lists.
	Steps      []partDoc  `json:"steps,omitempty"`
	Signatures []partDoc  `json:"signatures,omitempty"`
	Trail      []eventDoc `json:"trail"`
}

// eventDoc is one entry of a job's audit trail.
type eventDoc struct {
	At   string `json:"at"`
	By   string `json:"by"`
	What string `json:"what"`
}

func jobDocument(j dlqbridge.Job) jobDoc {
	trail := []eventDoc{}
	for _, e := range j.Trail {
		trail = append(trail, eventDoc{dlqbridge.FormatTime(e.At), e.By, e.What})
	}
	var by, plan *string
	if a := j.Approval; a != nil {
		by, plan = orNull(a.By.String()), orNull(a.Plan)
	}
	return jobDoc{
		ApprovedBy: by, Plan: plan,
		ID: j.ID, State: j.State, Reason: orNull(j.Reason), Cause: j.Cause, Destination: j.Destination, Route: orNull(j.Route), Fix: j.Fix,
		By: j.By.String(), Why: j.Why, Rate: j.Rate.String(), Burst: j.Burst, MaxInFlight: j.MaxInFlight, Created: dlqbridge.FormatTime(j.Created),
		Ended: at(j.Ended), Selected: j.Selected, Sent: j.Sent, InDoubt: j.InDoubt, Excluded: j.Excluded,
		ExcludedByPlan: orNone(j.LeftOut.Plan), ExcludedByRun: j.LeftOut.Run(),
		Canary: orEmpty(j.Canary), Step: j.Step, Doing: orNull(j.Doing), Trail: trail,
	}
}

// counted is a job with what its records say: at most limit of them, and
// nothing where that is 0.
func counted(ctx context.Context, c *redrive.Controller, j dlqbridge.Job, limit int) (jobDoc, error) {
	if limit <= 0 {
		return jobDocument(j), nil
	}
	t, err := c.Tally(ctx, j.ID, limit)
	if err != nil {
		return jobDoc{}, fmt.Errorf("count what came of job %s: %w", j.ID, err)
	}
	return tallied(j, t), nil
}

// tallied is a job with the count of its records.
func tallied(j dlqbridge.Job, t redrive.Tally) jobDoc {
	// What closed long ago is gone, and what is beyond the limit was not looked at.
	j.Sent = max(j.Sent, t.Sent)
	if t.Counted >= j.Selected || t.InDoubt > j.InDoubt {
		j.InDoubt = t.InDoubt
	}
	d := jobDocument(j)
	d.Outcomes, d.Counted, d.InDoubtRecords = t.Outcomes, &t.Counted, append([]string{}, t.Doubts...)
	return d
}

// outcomeWords are outcomes for a person; empty where there are none.
func outcomeWords(outcomes map[dlqbridge.SendOutcome]int) string {
	var out []string
	for _, o := range []struct {
		outcome dlqbridge.SendOutcome
		word    string
	}{
		{dlqbridge.OutcomeCompleted, "completed"},
		{dlqbridge.OutcomeRecurred, "recurred"},
		{dlqbridge.OutcomeUnconfirmed, "unconfirmed"},
		{dlqbridge.OutcomeSent, "waiting"},
		{dlqbridge.OutcomeInDoubt, "in doubt"},
		{dlqbridge.OutcomeRefused, "refused"},
		{dlqbridge.OutcomeNotSent, "not sent"},
	} {
		if n := outcomes[o.outcome]; n > 0 {
			out = append(out, fmt.Sprintf("%s %d", o.word, n))
		}
	}
	return strings.Join(out, ", ")
}

func joinInts(list []int) string {
	texts := make([]string, len(list))
	for i, n := range list {
		texts[i] = itoa(n)
	}
	return strings.Join(texts, ",")
}

func orNone(counts map[dlqbridge.ExcludeReason]int) map[dlqbridge.ExcludeReason]int {
	if counts == nil {
		return map[dlqbridge.ExcludeReason]int{}
	}
	return counts
}

// excludedCell is what one of the two left out, in a line's space: "3: held 1,
// not_before 2".
func excludedCell(counts map[dlqbridge.ExcludeReason]int) string {
	words, n := reasonCounts(counts)
	if n == 0 {
		return "0"
	}
	return itoa(n) + ": " + words
}

func orEmpty(steps []int) []int {
	if steps == nil {
		return []int{}
	}
	return steps
}

func (s *session) showJob(ctx context.Context, c *redrive.Controller, j dlqbridge.Job, history bool) error {
	stands, err := c.Standing(ctx, j, redrive.MaxTally)
	if err != nil {
		return fmt.Errorf("count what came of job %s: %w", j.ID, err)
	}
	life, err := c.Life(ctx, j)
	if err != nil {
		return err
	}
	d := tallied(j, stands.Tally)
	d.Abandoned = life.Abandoned
	j.Sent, j.InDoubt = d.Sent, d.InDoubt
	d.standingDoc, d.Steps, d.Signatures = standing(stands.Part), partDocs(stands.Steps), partDocs(stands.Signatures)
	if !d.Abandoned {
		d.EstimatedEnd = at(estimatedEnd(j, s.p.Now()))
	}
	return s.print(d, func(out *screen.Screen) {
		out.Printf("%s  %s", screen.Styled{Style: screen.Bold, Text: d.ID}, string(d.State))
		if d.Reason != nil {
			out.Printf(" (%s)", *d.Reason)
		}
		if d.Abandoned {
			out.Printf(", but %s", screen.Styled{Style: screen.Red, Text: "nobody runs it: its process died"})
			if !life.Until.IsZero() {
				out.Printf(" before %s", dlqbridge.FormatTime(life.Until))
			}
		}
		out.Printf("\n  cause %s to %s at %s\n", string(d.Cause), d.Destination, d.Rate)
		if len(d.Canary) > 0 {
			out.Printf("  canary %s, %d of %d steps passed", joinInts(d.Canary), d.Step, len(d.Canary))
			if d.Doing != nil {
				out.Printf("; %s", *d.Doing)
			}
			out.Printf("\n")
		} else if d.Doing != nil {
			out.Printf("  %s\n", *d.Doing)
		}
		out.Printf("  %s %d selected, %d sent, %d in doubt\n", bar(j), d.Selected, d.Sent, d.InDoubt)
		out.Printf("  excluded by the plan %s\n  excluded by the run %s\n", excludedCell(d.ExcludedByPlan), excludedCell(d.ExcludedByRun))
		if words := outcomeWords(d.Outcomes); words != "" {
			out.Printf("  outcomes: %s\n", words)
		}
		printInDoubt(out, "  ", d.InDoubtRecords, len(d.InDoubtRecords))
		printStanding(out, d)
		if *d.Counted < d.Selected {
			out.Printf("  counted are the first %d of %d records\n", *d.Counted, d.Selected)
		}
		out.Printf("  by %s on %s: %s\n", d.By, d.Created, d.Why)
		if d.ApprovedBy != nil {
			out.Printf("  plan %s approved by %s\n", *d.Plan, *d.ApprovedBy)
		}
		if d.Fix != nil {
			out.Printf("  fix %s\n", d.Fix.String())
		}
		printNext(out, d)
		if !history {
			return
		}
		table := out.NewTable("  AT", "BY", "WHAT")
		for _, e := range d.Trail {
			table.Row("  "+e.At, e.By, e.What)
		}
		table.Flush()
	})
}

// printNext is what to type about a job that waits for somebody.
func printNext(out *screen.Screen, d jobDoc) {
	switch {
	case d.State == dlqbridge.JobPaused || d.Abandoned:
		out.Printf("  go on: dlqbridge redrive continue %s --reason …; or end it: dlqbridge redrive cancel %s --reason …\n", d.ID, d.ID)
	case d.State == dlqbridge.JobRunning:
	case d.Outcomes[dlqbridge.OutcomeSent] > 0:
		out.Printf("  sent is not worked: `dlqbridge serve` settles what is waiting, or dlqbridge redrive observe --job %s\n", d.ID)
	}
}

func (s *session) redriveList() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List jobs, the newest first",
		Long: fmt.Sprintf(`Lists jobs. Of those that run, pause or were stopped, whose process may have
died, and of those with sends in doubt, it counts what was sent from the records
themselves, of at most %d in all; the others say what they wrote at their end. `+"`dlqbridge redrive status`"+` counts the outcomes of any one.`, redrive.MaxTally),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := s.open(cmd.Context(), nil)
			if err != nil {
				return err
			}
			most := limit
			if limit > 0 {
				most++ // one more shows whether there are more
			}
			jobs, err := b.Store.ListJobs(cmd.Context(), most)
			if err != nil {
				return fmt.Errorf("list jobs: %w", err)
			}
			isCut := limit > 0 && len(jobs) > limit
			if isCut {
				jobs = jobs[:limit]
			}
			docs := []jobDoc{}
			left := redrive.MaxTally
			for _, j := range jobs {
				look := 0
				// Those that ended wrote their numbers themselves; a doubt may be settled since.
				if j.State != dlqbridge.JobDone && j.State != dlqbridge.JobFailed || j.InDoubt > 0 {
					look = left
				}
				d, err := counted(cmd.Context(), b.Controller(), j, look)
				if err != nil {
					return err
				}
				if d.Counted != nil {
					left -= *d.Counted
				}
				life, err := b.Controller().Life(cmd.Context(), j)
				if err != nil {
					return err
				}
				d.Abandoned = life.Abandoned
				docs = append(docs, d)
			}
			if isCut {
				defer s.errors.Printf("shown %d, there are more: --limit 0 lists all\n", limit)
			}
			return s.print(map[string]any{"jobs": docs}, func(out *screen.Screen) {
				if len(docs) == 0 {
					out.Printf("no jobs\n")
					return
				}
				table := out.NewTable("JOB", "STATE", "CAUSE", "SENT", "OF", "IN DOUBT", "EXCLUDED BY PLAN", "BY RUN", "BEGAN", "BY", "DESTINATION")
				for _, d := range docs {
					state := string(d.State)
					if d.Abandoned {
						state = "abandoned"
					}
					table.Row(d.ID, state, string(d.Cause), itoa(d.Sent), itoa(d.Selected), itoa(d.InDoubt), excludedCell(d.ExcludedByPlan), excludedCell(d.ExcludedByRun),
						d.Created, d.By, d.Destination)
				}
				table.Flush()
				if slices.ContainsFunc(docs, func(d jobDoc) bool { return d.State == dlqbridge.JobDone }) {
					out.Printf("done is sent, not worked: dlqbridge redrive status JOB says what came of it\n")
				}
				if slices.ContainsFunc(docs, func(d jobDoc) bool { return d.Abandoned }) {
					out.Printf("abandoned is a running job whose process died: dlqbridge redrive continue JOB --reason …, or cancel\n")
				}
				if slices.ContainsFunc(docs, func(d jobDoc) bool { return d.InDoubt > 0 }) {
					out.Printf("nobody knows whether those in doubt went out: dlqbridge redrive status JOB names them\n")
				}
			})
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 20, "at most this many; 0 lists all")
	return cmd
}

func (s *session) redriveObserve() *cobra.Command {
	var r redrive.ObserveRequest
	cmd := &cobra.Command{
		Use:   "observe",
		Short: "Settle the outcomes of what was sent",
		Long: `Looks once at all records that are being redriven: closes those whose task
completed, ends those that nobody saw an outcome of until the end of their
observation, and settles sends in doubt by evidence. Before that it reads the
completion messages of routes that name a place of them (completions); those that
cannot be believed stay there. ` + "`dlqbridge serve`" + ` does the same all the time;
without it run this from a scheduler.`,
		Example: "  dlqbridge redrive observe\n  dlqbridge redrive observe --job j_… -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := recordIDs(r.IDs); err != nil {
				return err
			}
			b, c, err := s.controller(cmd.Context(), selection{route: r.Route})
			if err != nil {
				return err
			}
			if r.Job != "" {
				if _, err := b.Store.Job(cmd.Context(), r.Job); err != nil {
					return noJob(r.Job, err)
				}
			}
			// A place that cannot be read keeps back no other outcome.
			completions, confirmErr := b.Confirm(cmd.Context(), c, r.Route, nil)
			seen, err := c.Observe(cmd.Context(), r)
			if err = errors.Join(confirmErr, err); err != nil {
				return err
			}
			seen.Completions = completions
			if seen.Outcomes == nil {
				seen.Outcomes = map[dlqbridge.SendOutcome]int{}
			}
			return s.print(seen, func(out *screen.Screen) {
				out.Printf("completed %d, unconfirmed %d, settled as sent %d; still waiting %d (in doubt %d); authorisations lapsed %d\n",
					seen.Outcomes[dlqbridge.OutcomeCompleted], seen.Outcomes[dlqbridge.OutcomeUnconfirmed], seen.Outcomes[dlqbridge.OutcomeSent],
					seen.Waiting, seen.InDoubt, seen.Lapsed)
				if n := seen.Completions; n != nil {
					out.Printf("completion messages: completed %d, repeated %d, waiting %d, not believed %d (both of these stay in their place)\n", n.Completed, n.Repeated, n.Waiting, n.Unknown)
				}
			})
		},
	}
	cmd.Flags().StringVar(&r.Route, "route", "", "only this route")
	cmd.Flags().StringVar(&r.Job, "job", "", "only this job")
	cmd.Flags().StringSliceVar(&r.IDs, "record", nil, "only these records (r_…)")
	return cmd
}

// redriveControl is pause, continue or cancel of one job.
func (s *session) redriveControl(verb string) *cobra.Command {
	var reason string
	var waitFor bool
	short := map[string]string{
		"pause":    "Stop a job after the batches under way; continue goes on",
		"continue": "Send what a paused job, or one whose process died, has left",
		"cancel":   "End a job; what was not sent can be selected again",
	}[verb]
	example := map[string]string{
		"pause":    "payments is slow again",
		"continue": "payments is back",
		"cancel":   "the deploy was rolled back",
	}[verb]
	cmd := &cobra.Command{
		Use:     verb + " JOB",
		Short:   short,
		Example: `  dlqbridge redrive ` + verb + ` j_… --reason "` + example + `"`,
		Args:    jobKind.one,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := said("--reason", reason, dlqbridge.MaxReason, true, "whoever looks at the job must know why"); err != nil {
				return err
			}
			_, c, err := s.controller(cmd.Context(), selection{})
			if err != nil {
				return err
			}
			by, err := s.actor(cmd.Context())
			if err != nil {
				return err
			}
			var j dlqbridge.Job
			switch verb {
			case "continue":
				result, err := c.Continue(cmd.Context(), args[0], by, reason)
				return s.finish(cmd.Context(), c, result, noJob(args[0], err), waitFor, true)
			case "pause":
				j, err = c.Pause(cmd.Context(), args[0], by, reason)
			default:
				j, err = c.Cancel(cmd.Context(), args[0], by, reason)
			}
			if err != nil {
				return noJob(args[0], err)
			}
			return s.showJob(cmd.Context(), c, j, false)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why (required)")
	if verb == "continue" {
		cmd.Flags().BoolVar(&waitFor, "wait", false, "wait for all outcomes")
	}
	return cmd
}
