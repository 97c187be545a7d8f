package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/screen"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/wire"
	"github.com/dlqbridge/dlqbridge/redrive"
)

func (s *session) redrive() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "redrive",
		Short: "Send work back to its source, by cause and under a pace",
		Long: `Sends work back to its source: one cause and one destination per job, under a
pace, only what somebody authorised, and each redrive number of a record once.
What may not be sent is listed with its reason and left as it is.`,
		RunE: group,
		Args: cobra.ArbitraryArgs,
	}
	cmd.AddCommand(s.redrivePlan(), s.redriveApprove(), s.redriveRun(), s.redriveStatus(), s.redriveList(), s.redriveObserve(),
		s.redriveControl("pause"), s.redriveControl("continue"), s.redriveControl("cancel"))
	return cmd
}

// selection is what plan and run choose from.
type selection struct {
	cause, route, signature, tenant, taskType, fix, reason string
	records, actions                                       []string
	max                                                    int
	policy, skip, overtaken                                bool
	// plan is a file with a plan made before, forApproval is for plans alone.
	plan        string
	forApproval bool
	// pace overrides the configuration, by path.
	rate, burst, inFlight, canary, observe string
}

func (f *selection) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.cause, "cause", "", "the cause whose records are sent (required)")
	flags.StringVar(&f.route, "route", "", "only this route")
	flags.StringVar(&f.signature, "signature", "", "only this group of failures (sg_…)")
	flags.StringVar(&f.tenant, "tenant", "", "only this tenant")
	flags.StringVar(&f.taskType, "task-type", "", "only this type of task")
	flags.StringSliceVar(&f.actions, "action", nil, "only what is sent by these actions: retry, resume, repair, compensate")
	flags.StringSliceVar(&f.records, "record", nil, "only these records (r_…)")
	flags.IntVar(&f.max, "max", 0, "at most this many records; 0 is all")
	flags.StringVar(&f.fix, "fix", "", "the verifiable change that removed the cause, KIND:TEXT with "+fixKinds)
	flags.StringVar(&f.reason, "reason", "", "why, for the history")
	flags.BoolVar(&f.policy, "policy", false, "authorise only what policy may authorise alone (auto_authorize, after the back-off)")
	flags.BoolVar(&f.skip, "skip-undeliverable", false, "where groups keep their order: one that cannot be sent holds up no later one of its group")
	flags.BoolVar(&f.overtaken, "send-overtaken", false, "also send those of whose group a newer one has completed")
	flags.StringVar(&f.rate, "rate", "", "messages per span of time, such as 20/s or 600/m")
	flags.StringVar(&f.burst, "burst", "", "messages above the rate at most")
	flags.StringVar(&f.inFlight, "max-in-flight", "", "messages that are out without a known outcome, at most; the job waits for outcomes. 0 is no bound")
	flags.StringVar(&f.canary, "canary", "", "none, or sizes of first steps such as 1,5,25; each is observed before the next")
	flags.StringVar(&f.observe, "observe-for", "", "how long outcomes are waited for: auto, or longer")
}

// overrides are the flags that stand before the configuration.
func (f *selection) overrides() map[string]string {
	out := map[string]string{}
	for path, v := range map[string]string{
		"redrive.rate": f.rate, "redrive.burst": f.burst, "redrive.max_in_flight": f.inFlight, "redrive.canary": f.canary, "redrive.observe_for": f.observe,
	} {
		if v != "" {
			out[path] = v
		}
	}
	return out
}

// request checks the flags. Running needs a reason, planning does not.
func (f *selection) request(running bool) (redrive.Request, error) {
	if f.plan != "" {
		return f.planned()
	}
	r := redrive.Request{
		Route: f.route, Signature: f.signature, Tenant: f.tenant, TaskType: f.taskType, IDs: f.records, Max: f.max, Reason: f.reason, Policy: f.policy, ForApproval: f.forApproval,
		SkipUndeliverable: f.skip, SendOvertaken: f.overtaken,
	}
	if f.cause == "" {
		return r, usagef("a job sends records of one cause; known are "+join(dlqbridge.Causes()), "--cause is missing")
	}
	var err error
	if r.Cause, err = word("--cause", f.cause, dlqbridge.Causes()); err != nil {
		return r, err
	}
	if r.Actions, err = words("--action", f.actions, redrive.SendActions()); err != nil {
		return r, err
	}
	if r.Fix, err = fix(f.fix); err != nil {
		return r, err
	}
	if f.policy && f.fix != "" {
		return r, usagef("a fix is a person's word: leave out one of them", "--policy and --fix contradict each other")
	}
	if f.policy && f.forApproval {
		return r, usagef("policy authorises nothing that needs a second person", "--policy and --for-approval contradict each other")
	}
	if err := signature(f.signature); err != nil {
		return r, err
	}
	if f.max < 0 {
		return r, usagef("0 is all", "--max cannot be negative")
	}
	if err := recordIDs(f.records); err != nil {
		return r, err
	}
	return r, said("--reason", f.reason, dlqbridge.MaxReason, running && !f.policy, "it stands in the history of every record that is sent")
}

// controller opens what a job needs.
func (s *session) controller(ctx context.Context, f selection) (*wire.Bridge, *redrive.Controller, error) {
	b, err := s.open(ctx, f.overrides())
	if err != nil {
		return nil, nil, err
	}
	if err := s.knownRoutes("--route", f.route); err != nil {
		return nil, nil, err
	}
	if err := b.ResolveSources(ctx); err != nil {
		return nil, nil, err
	}
	return b, b.Controller(), nil
}

func (s *session) redrivePlan() *cobra.Command {
	var f selection
	cmd := &cobra.Command{
		Use:   "plan --cause CAUSE | --plan FILE",
		Short: "Show what a run would send, and what not and why",
		Long: `Shows the frozen selection of a run: which records would be sent where, and every
other record of the cause with its reason. It reads stores and queues and changes
nothing. The hash names the selection: equal plans hash equally. With -o json the
plan is a document that ` + "`redrive run --plan`" + ` runs as it stands: what changed
since is refused record by record, a changed file or one made elsewhere as a whole.

It says how many records go where by which action; --action narrows it to some.

With --for-approval it also selects what two people must authorise; the plan then
runs only after ` + "`redrive approve`" + ` by somebody else than its runner. It says so, and
what to type, also where so many records need a second person
(redrive.second_person_from; needsSecondPerson in the JSON).

With --plan it plans nothing: it shows the plan in a file as it was made, and who has
approved it so far (approvals). A file that was changed is refused.`,
		Example: `  dlqbridge redrive plan --cause timeout
  dlqbridge redrive plan --cause critical --fix data:INC-31 --for-approval -o json > plan.json
  dlqbridge redrive plan --cause timeout --fix deploy:1.4.2 --action retry,resume
  dlqbridge redrive plan --cause permission --fix credential:key-7 --route orders -o json
  dlqbridge redrive plan --plan plan.json      # what is in it, and who has approved it`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.plan != "" {
				if err := f.asItStands(); err != nil {
					return err
				}
				if f.observe != "" {
					return usagef("leave it out", "--observe-for says nothing about a plan that is shown")
				}
				return s.showFile(cmd.Context(), f.plan)
			}
			r, err := f.request(false)
			if err != nil {
				return err
			}
			_, c, err := s.controller(cmd.Context(), f)
			if err != nil {
				return err
			}
			return s.showPlan(cmd.Context(), c, r)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.plan, "plan", "", "show the plan in this `FILE`, made by redrive plan -o json, and who has approved it; plans nothing")
	cmd.Flags().BoolVar(&f.forApproval, "for-approval", false, "also select what needs a second person, who then approves the plan")
	return cmd
}

func (s *session) showPlan(ctx context.Context, c *redrive.Controller, r redrive.Request) error {
	p, err := c.Plan(ctx, r)
	if err != nil {
		return windowError(err)
	}
	if p.Jobs == nil {
		p.Jobs = []redrive.PlannedJob{}
	}
	f, err := s.about(ctx, c, p, "")
	if err != nil {
		return err
	}
	if s.json() && f.second != "" && len(f.approvals) == 0 { // whoever writes a file reads no document
		s.errors.Printf("it needs a second person: %s; they say dlqbridge redrive approve --plan FILE --reason …\n", f.second)
	}
	return s.printFrozen(f)
}

func printPlan(out *screen.Screen, f frozenPlan) error {
	p := f.Plan
	if p.Selected == 0 {
		out.Printf("nothing of cause %s can be sent\n", string(p.Cause))
	} else {
		printWhat(out, p.Selected, p.Cause, p.Fix)
	}
	printActions(out, f.byAction)
	for _, j := range p.Jobs {
		took := time.Duration(math.Ceil(float64(j.Members.Len())/max(p.Rate.PerSecond(), 1e-9))) * time.Second
		out.Printf("%s  %s at %s, about %s\n", screen.Styled{Style: screen.Bold, Text: j.Destination}, plural(j.Members.Len(), "record"), p.Rate.String(), took.String())
		if j.Ordered {
			out.Printf("  each group keeps its order; one that cannot be sent %s\n", map[bool]string{true: "is skipped", false: "holds up the later ones of its group"}[p.SkipUndeliverable])
		}
		if j.DedupSeconds > 0 {
			out.Printf("  the queue drops a second message of one deduplication id for %s: each redrive has an id of its own, and a send whose answer was lost is repeated under its id only within that time\n",
				(time.Duration(j.DedupSeconds) * time.Second).String())
		}
		if len(j.Receivers) > 0 {
			out.Printf("  received by %s\n", strings.Join(j.Receivers, ", "))
		}
		table := out.NewTable("  RECORD", "ACTION", "AUTHORISED")
		for m, err := range j.Members.All() {
			if err != nil {
				return err
			}
			by := "by this run"
			switch {
			case m.Resend:
				by = "sent again under its number (in doubt)"
			case m.Authorized:
				by = "already"
			case m.SecondPerson:
				by = "by its run, with a second person"
			}
			table.Row("  "+m.ID, string(m.Action), by)
		}
		table.Flush()
	}
	if err := printExcluded(out, "", p.Excluded, p.Fix != nil); err != nil {
		return err
	}
	printEstimate(out, p)
	out.Printf("hash %s\n", p.Hash)
	f.printApprovals(out)
	return nil
}

// maxDoubtsShown bounds the sends in doubt that a person is shown; the JSON has all.
const maxDoubtsShown = 20

// printInDoubt names those of which nobody knows whether they went out, so that
// a person can say it. Shown are the first of the n.
func printInDoubt(out *screen.Screen, indent string, shown []string, n int) {
	if n == 0 {
		return
	}
	shown = shown[:min(len(shown), maxDoubtsShown)]
	out.Printf("%s%s: nobody knows whether these went out, so nothing sends them again on a guess\n", indent, screen.Styled{Style: screen.Yellow, Text: itoa(n) + " in doubt"})
	for _, id := range shown {
		out.Printf("%s  %s\n", indent, id)
	}
	if more := n - len(shown); more > 0 {
		out.Printf("%s  and %d more (-o json lists all)\n", indent, more)
	}
	out.Printf("%s  evidence may settle them by itself (dlqbridge redrive observe); else look at the queue or the worker's log and say what you saw: dlqbridge triage settle-send %s --to sent|not-sent --reason … --evidence …\n", indent, shown[0])
}

// reasonCounts are numbers by reason for a person: "held 1, not_before 2".
func reasonCounts(counts map[dlqbridge.ExcludeReason]int) (words string, sum int) {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", reason, counts[reason]))
		sum += counts[reason]
	}
	return strings.Join(parts, ", "), sum
}

// printExcludedApart lists what the plan left out and what the run itself did
// each by itself. What only the plan file lists is counted.
func printExcludedApart(out *screen.Screen, r redrive.Result, fixed bool) error {
	var byPlan, byRun redrive.List[dlqbridge.Exclusion]
	for e, err := range r.Excluded.All() {
		if err != nil {
			return err
		}
		if e.ByRun {
			byRun.Add(e)
		} else {
			byPlan.Add(e)
		}
	}
	if words, n := reasonCounts(r.ExcludedByPlan); byPlan.Len() == 0 && n > 0 {
		out.Printf("%s: %s; the plan file lists them\n", screen.Styled{Style: screen.Yellow, Text: itoa(n) + " excluded by the plan"}, words)
	}
	if err := printExcluded(out, " by the plan", byPlan, fixed); err != nil {
		return err
	}
	return printExcluded(out, " by the run", byRun, fixed)
}

func printExcluded(out *screen.Screen, by string, excluded redrive.List[dlqbridge.Exclusion], fixed bool) error {
	if excluded.Len() == 0 {
		return nil
	}
	counts, example := map[dlqbridge.ExcludeReason]int{}, map[dlqbridge.ExcludeReason]string{}
	for e, err := range excluded.All() {
		if err != nil {
			return err
		}
		if counts[e.Reason]++; counts[e.Reason] == 1 {
			example[e.Reason] = e.ID
		}
	}
	words, n := reasonCounts(counts)
	out.Printf("%s: %s\n", screen.Styled{Style: screen.Yellow, Text: fmt.Sprintf("%d excluded%s", n, by)}, words)
	table := out.NewTable("  RECORD", "REASON", "DETAIL")
	for e, err := range excluded.All() {
		if err != nil {
			return err
		}
		table.Row("  "+e.ID, string(e.Reason), e.Detail)
	}
	table.Flush()
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		if hint := nextStep(reason, example[reason], fixed); hint != "" {
			out.Printf("  %s: %s\n", string(reason), hint)
		}
	}
	return nil
}

// nextStep is what a person can do about records that were left out for a
// reason; empty where there is nothing to do. Fixed: this run names a fix.
func nextStep(reason dlqbridge.ExcludeReason, id string, fixed bool) string {
	switch reason {
	case dlqbridge.ExcludeNotAuthorized:
		if fixed {
			return "dlqbridge records explain " + id + " says what it waits for"
		}
		return "say what removed the cause: --fix KIND:TEXT; dlqbridge records explain " + id + " says what else it waits for"
	case dlqbridge.ExcludeEffectUnknown:
		return "dlqbridge records explain " + id + " says what nobody knows; state what you find with dlqbridge triage settle-effect, or where its send is in doubt with dlqbridge triage settle-send"
	case dlqbridge.ExcludeNeedsCompensation:
		return "name where compensations go (routes[].compensate_to), undo the effect (dlqbridge triage compensated " + id + ") or finish the work by hand (dlqbridge triage complete-manually " + id + "); where its send is in doubt, first dlqbridge triage settle-send"
	case dlqbridge.ExcludeNeedsSecondPerson:
		return "two authenticated people say dlqbridge triage authorize " + id + ", or one approves a plan (redrive plan --for-approval) and the other runs it"
	case dlqbridge.ExcludeExpired:
		return "it lost its sense: dlqbridge triage cancel-expired " + id
	case dlqbridge.ExcludeBudgetExhausted:
		return "find out why it keeps failing: dlqbridge records history " + id
	case dlqbridge.ExcludeNotBefore:
		return "wait, or say what removed the cause: --fix KIND:TEXT"
	case dlqbridge.ExcludeClaimed:
		return "it is being redriven: dlqbridge records explain " + id + " says by which job and until when"
	case dlqbridge.ExcludeInDoubt:
		return "find out whether it went out and say so: dlqbridge triage settle-send " + id
	case dlqbridge.ExcludeStillRunning:
		return "wait for the run that may be going: dlqbridge records explain " + id
	case dlqbridge.ExcludeHeld:
		return "dlqbridge hold list says who holds it and why"
	case dlqbridge.ExcludeConflict:
		return "where its letters differ, see dlqbridge records show " + id + " and say which payload is right by dlqbridge triage repair " + id + " --arrival KEY; of two records of one task reject one: dlqbridge triage reject ID"
	case dlqbridge.ExcludeOrderBlocked:
		return "send, finish or reject what stands before it, or let it be overtaken: --skip-undeliverable"
	case dlqbridge.ExcludeOvertaken:
		return "a newer one has replaced it: dlqbridge triage reject " + id + ", or send it all the same with --send-overtaken"
	case dlqbridge.ExcludeTargetMissing, dlqbridge.ExcludeSourceMismatch, dlqbridge.ExcludeFanOut, dlqbridge.ExcludeMarkImpossible:
		return "look at the route and its queues: dlqbridge check"
	case dlqbridge.ExcludeTooLarge:
		return "it cannot be sent as it is: make its body smaller by dlqbridge triage repair " + id + " --patch FILE, or dlqbridge triage complete-manually " + id
	case dlqbridge.ExcludePayloadExpired, dlqbridge.ExcludeRefused:
		return "it cannot be sent as it is: dlqbridge triage complete-manually " + id + ", or reject"
	case dlqbridge.ExcludeChanged:
		return "it moved since: plan once more"
	case dlqbridge.ExcludeClosed:
	}
	return ""
}

// windowError is an observation window that is too short: wrong configuration,
// not a failed job.
func windowError(err error) error {
	if short, ok := errors.AsType[*wire.WindowError](err); ok {
		return usagef("leave observe_for at auto, or make it longer", "%s", short.Error())
	}
	return err
}

func (s *session) redriveRun() *cobra.Command {
	var f selection
	var dryRun, waitFor bool
	cmd := &cobra.Command{
		Use:   "run --cause CAUSE [--fix KIND:TEXT] --reason TEXT",
		Short: "Send back what is safe",
		Long: `Records the fix, authorises in your name exactly those records for which it is
allowed, and sends them under the pace. All others are listed with their reason
and left as they are (exit code 3).

It sends by whatever action each record needs: retry and repair go back to the
source, resume goes on from a checkpoint, and where a route names compensate_to a
confirmed effect is undone by a compensation that goes there. --action narrows it,
such as --action retry,resume,repair to compensate nothing; the result counts what
went where by which action.

It returns when everything is sent; --wait also waits for the outcomes, which
otherwise ` + "`dlqbridge serve` or `dlqbridge redrive observe`" + ` settle. Stopped by a signal,
or by a terminal that is lost, it finishes the batches under way and leaves the job
paused. Before the first send standard error has the job's id and what to type to
watch, pause and cancel it.

With --canary 1,5,25 it sends one, then five, then twenty-five, and waits after
each step for what became of them: the ledger says that they completed, or the
observation ends and none came back. Until when at the latest stands on standard
error and in ` + "`redrive status`" + `; only a run that is seen going takes longer. It pauses by itself when too many came back
(pause_at_recurrence) or could not be sent (pause_at_failure). Intake must be
running meanwhile, or nothing can come back.

With --policy, for schedules, it authorises and sends what policy allows, and within
redrive.hours only: outside it selects nothing, says when they begin and exits with 0.`,
		Example: `  dlqbridge redrive run --cause dependency_unavailable --fix state:payments-up --reason "outage over" --rate 20/s
  dlqbridge redrive run --cause timeout --fix deploy:1.4.2 --reason "fixed" --max 5 --wait
  dlqbridge redrive run --cause timeout --fix deploy:1.4.2 --reason "fixed" --action retry,resume,repair   # no compensations
  dlqbridge redrive run --cause timeout --policy      # only what policy may do alone
  dlqbridge redrive plan --cause timeout --fix deploy:1.4.2 -o json > plan.json
  dlqbridge redrive run --plan plan.json --reason "read and agreed"   # after redrive approve, where a second person is needed`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dryRun && f.plan != "" { // the file is the dry run's result
				return usagef("`dlqbridge redrive plan --plan FILE` shows it; leave out --dry-run to run it", "--dry-run contradicts --plan")
			}
			r, err := f.request(!dryRun)
			if err != nil {
				return err
			}
			_, c, err := s.controller(cmd.Context(), f)
			if err != nil {
				return err
			}
			if dryRun {
				return s.showPlan(cmd.Context(), c, r)
			}
			if r.Actor, err = s.actor(cmd.Context()); err != nil {
				return err
			}
			result, err := c.Run(cmd.Context(), r)
			return s.finish(cmd.Context(), c, result, err, waitFor, r.Fix != nil || r.Plan != nil && r.Plan.Fix != nil)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.plan, "plan", "", "run the plan in this `FILE`, made by redrive plan -o json, as it stands; needs only --reason")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only show the plan")
	cmd.Flags().BoolVar(&waitFor, "wait", false, "wait for all outcomes")
	return cmd
}

// finish waits if asked to, prints the result, and chooses the exit code. A
// run that failed half way has a result too: what it did must be seen.
func (s *session) finish(ctx context.Context, c *redrive.Controller, r redrive.Result, runErr error, waitFor, fixed bool) error {
	if runErr != nil && r.Job == "" {
		return windowError(runErr)
	}
	if r.Jobs == nil {
		r.Jobs = []string{}
	}
	if r.ByAction == nil {
		r.ByAction = []redrive.ActionCount{}
	}
	if r.Outcomes == nil {
		r.Outcomes = map[dlqbridge.SendOutcome]int{}
	}
	var waitErr error
	switch {
	case waitFor && runErr == nil && r.Records.Len()+r.InDoubt.Len() > 0:
		waitErr = c.WaitFor(ctx, &r)
	case r.Looked:
		c.Recount(ctx, &r)
	}
	if r.Job == "" && r.State == "" {
		r.State = dlqbridge.JobDone
	}
	doc, lists := r.Apart()
	if err := s.printLong(resultDoc{doc, orNull(r.Job)}, lists, func(out *screen.Screen) error { return printResult(out, r, fixed) }); err != nil {
		return err
	}
	switch {
	case runErr != nil:
		return windowError(runErr)
	case waitErr != nil:
		return fmt.Errorf("wait for the outcomes: %w", waitErr)
	case r.State == dlqbridge.JobFailed:
		return errSaid
	case !r.Clean() || waitFor && r.Outcomes[dlqbridge.OutcomeRecurred]+r.Outcomes[dlqbridge.OutcomeUnconfirmed] > 0:
		return errPartial
	}
	return nil
}

func printResult(out *screen.Screen, r redrive.Result, fixed bool) error {
	if r.Job == "" && r.Selected == 0 {
		out.Printf("nothing was selected")
		if r.Reason != "" {
			out.Printf(": %s", r.Reason)
		}
		out.Printf("\n")
		return printExcludedApart(out, r, fixed)
	}
	out.Printf("%s  %s: %d of %d sent", screen.Styled{Style: screen.Bold, Text: strings.Join(r.Jobs, ", ")}, string(r.State), r.Sent, r.Selected)
	if r.Reason != "" {
		out.Printf(" (%s)", r.Reason)
	}
	out.Printf("\n")
	printActions(out, r.ByAction)
	if words := outcomeWords(r.Outcomes); words != "" {
		out.Printf("outcomes: %s\n", words)
	}
	var doubts []string
	for id, err := range r.InDoubt.All() {
		if err != nil {
			return err
		}
		if doubts = append(doubts, id); len(doubts) == maxDoubtsShown {
			break
		}
	}
	printInDoubt(out, "", doubts, r.InDoubt.Len())
	if err := printExcludedApart(out, r, fixed); err != nil {
		return err
	}
	switch {
	case r.State == dlqbridge.JobPaused:
		out.Printf("go on with: dlqbridge redrive continue %s --reason …\n", r.Job)
	case r.Outcomes[dlqbridge.OutcomeSent] > 0:
		out.Printf("sent is not worked: `dlqbridge serve` or `dlqbridge redrive observe` settle the outcomes\n")
	}
	return nil
}
