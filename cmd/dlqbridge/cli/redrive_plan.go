package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/screen"
	"github.com/dlqbridge/dlqbridge/redrive"
)

// planDoc is a plan for machines, with its rate as people write it. It has the
// fields of a run's answer too, so that both are read alike; its hash does not
// cover them, since they never differ.
type planDoc struct {
	redrive.Plan
	Rate     string                        `json:"rate"`
	ByAction []redrive.ActionCount         `json:"byAction"`
	Job      *string                       `json:"job"`
	Sent     int                           `json:"sent"`
	Outcomes map[dlqbridge.SendOutcome]int `json:"outcomes"`
	State    string                        `json:"state"`
	// NeedsSecondPerson: it runs only after somebody approved it. Approvals are
	// those that count now. Neither is read back from a file.
	NeedsSecondPerson bool           `json:"needsSecondPerson"`
	Approvals         []planApproval `json:"approvals"`
}

// planApproval is somebody's word for a plan.
type planApproval struct {
	By     string  `json:"by"`
	At     string  `json:"at"`
	Until  string  `json:"until"`
	Reason *string `json:"reason"`
}

func newPlanApproval(c *redrive.Controller, a dlqbridge.Approval) planApproval {
	return planApproval{a.By.String(), dlqbridge.FormatTime(a.At), dlqbridge.FormatTime(c.ApprovedUntil(a)), orNull(a.Reason)}
}

// frozenPlan is a plan with what is known about it beside it.
type frozenPlan struct {
	redrive.Plan
	byAction []redrive.ActionCount
	// file has it; empty where it was only made now.
	file string
	// second is why it needs a second person, empty where it needs none.
	second    string
	approvals []planApproval
}

// about finds what stands beside a plan: how many records go where by which
// action, and who has approved it.
func (s *session) about(ctx context.Context, c *redrive.Controller, p redrive.Plan, file string) (frozenPlan, error) {
	f := frozenPlan{Plan: p, file: file, second: c.WhySecond(p), approvals: []planApproval{}}
	var err error
	if f.byAction, err = p.ByAction(); err != nil {
		return f, err
	}
	if f.second == "" && file == "" {
		return f, nil
	}
	have, err := c.ApprovedBy(ctx, p)
	if err != nil {
		return f, err
	}
	for _, a := range have {
		f.approvals = append(f.approvals, newPlanApproval(c, a))
	}
	return f, nil
}

// printApprovals says who has approved a plan, and what to type where it needs
// a second person.
func (f frozenPlan) printApprovals(out *screen.Screen) {
	for _, a := range f.approvals {
		out.Printf("approved by %s on %s until %s", a.By, a.At, a.Until)
		if a.Reason != nil {
			out.Printf(": %s", *a.Reason)
		}
		out.Printf("\n")
	}
	if f.second == "" {
		if f.file != "" && len(f.approvals) == 0 {
			out.Printf("nobody has approved it, and it needs nobody\n")
		}
		return
	}
	if len(f.approvals) == 0 {
		out.Printf("%s: %s; nobody has so far\n", screen.Styled{Style: screen.Yellow, Text: "it needs a second person"}, f.second)
	}
	file := dlqbridge.ShellWord(f.file)
	if f.file == "" {
		file = "plan.json"
		out.Printf("  write it:        this command with -o json > plan.json\n")
	}
	if len(f.approvals) == 0 {
		out.Printf("  another person:  dlqbridge redrive approve --plan %s --reason …\n", file)
		out.Printf("  then run it:     dlqbridge redrive run --plan %s --reason …\n", file)
		return
	}
	out.Printf("  run it, as somebody else than who approved it:  dlqbridge redrive run --plan %s --reason …\n", file)
}

// showFile prints a plan file as `redrive plan` printed it, and who has approved it.
func (s *session) showFile(ctx context.Context, file string) error {
	p, err := readPlan(file)
	if err != nil {
		return err
	}
	_, c, err := s.controller(ctx, selection{})
	if err != nil {
		return err
	}
	f, err := s.about(ctx, c, p, file)
	if err != nil {
		return err
	}
	return s.printFrozen(f)
}

func (s *session) printFrozen(f frozenPlan) error {
	doc, lists := f.Apart()
	return s.printLong(planDocument(doc, f), lists, func(out *screen.Screen) error { return printPlan(out, f) })
}

// statePlanned is the state of what no job was made of yet.
const statePlanned = "planned"

func planDocument(p redrive.Plan, f frozenPlan) planDoc {
	return planDoc{
		Plan: p, Rate: p.Rate.String(), ByAction: f.byAction, Outcomes: map[dlqbridge.SendOutcome]int{}, State: statePlanned,
		NeedsSecondPerson: f.second != "", Approvals: f.approvals,
	}
}

// ran says that the fields of a run's answer are not as a plan has them; plans
// of before they had them have none.
func (d planDoc) ran() bool {
	return d.Job != nil || d.Sent != 0 || len(d.Outcomes) != 0 || d.State != "" && d.State != statePlanned
}

// resultDoc is a run's answer for machines: without a job there is none to name.
type resultDoc struct {
	redrive.Result
	Job *string `json:"job"`
}

// asItStands refuses what contradicts a plan file, which says itself what and how.
func (f *selection) asItStands() error {
	for flag, given := range map[string]bool{
		"--cause": f.cause != "", "--route": f.route != "", "--signature": f.signature != "", "--tenant": f.tenant != "", "--task-type": f.taskType != "",
		"--action": len(f.actions) > 0,
		"--record": len(f.records) > 0, "--max": f.max != 0, "--fix": f.fix != "", "--policy": f.policy, "--skip-undeliverable": f.skip, "--send-overtaken": f.overtaken,
		"--rate": f.rate != "", "--burst": f.burst != "", "--max-in-flight": f.inFlight != "", "--canary": f.canary != "",
		"--for-approval": f.forApproval,
	} {
		if given {
			return usagef("make another plan with it", "%s contradicts --plan, which takes a plan as it stands", flag)
		}
	}
	return nil
}

// planned is the request to run a plan.
func (f *selection) planned() (redrive.Request, error) {
	var r redrive.Request
	if err := f.asItStands(); err != nil {
		return r, err
	}
	p, err := readPlan(f.plan)
	if err != nil {
		return r, err
	}
	r.Plan, r.Reason = &p, f.reason
	return r, said("--reason", f.reason, dlqbridge.MaxReason, !p.Policy, "it stands in the history of every record that is sent")
}

// readPlan reads a plan file and refuses one that is not as it was made.
func readPlan(file string) (redrive.Plan, error) {
	wrong := func(err error) (redrive.Plan, error) {
		return redrive.Plan{}, usagef("write it with `dlqbridge redrive plan … -o json`", "plan file %s: %s", file, err.Error())
	}
	in, err := os.Open(file) //nolint:gosec // the person names the file
	if err != nil {
		return wrong(err)
	}
	defer in.Close()
	var doc planDoc
	if err := redrive.ReadPlan(in, &doc, &doc.Plan); err != nil {
		return wrong(err)
	}
	if doc.ran() {
		return wrong(errors.New("it was changed after it was made: a plan has no job, and nothing of it is sent"))
	}
	if doc.Plan.Rate, err = dlqbridge.ParseRate(doc.Rate); err != nil {
		return wrong(err)
	}
	if err := doc.Check(); err != nil {
		return wrong(err)
	}
	byAction, err := doc.Plan.ByAction()
	if err != nil {
		return wrong(err)
	}
	if doc.ByAction != nil && !slices.Equal(doc.ByAction, byAction) { // the hash does not cover what follows from the members
		return wrong(errors.New("it was changed after it was made: byAction is not what its members are"))
	}
	return doc.Plan, nil
}

// printActions says how many records go where by which action.
func printActions(out *screen.Screen, counts []redrive.ActionCount) {
	if len(counts) == 0 {
		return
	}
	texts := make([]string, len(counts))
	for i, n := range counts {
		texts[i] = fmt.Sprintf("%d %s → %s", n.Records, n.Action, n.Destination)
	}
	out.Printf("%s\n", strings.Join(texts, ", "))
}

// approvalDoc is an approval for machines, with what was signed.
type approvalDoc struct {
	Plan string `json:"plan"`
	planApproval
	Selected int                   `json:"selected"`
	Cause    dlqbridge.Cause       `json:"cause"`
	Fix      *dlqbridge.Fix        `json:"fix"`
	Rate     string                `json:"rate"`
	Canary   []int                 `json:"canary"`
	ByAction []redrive.ActionCount `json:"byAction"`
	Excluded int                   `json:"excluded"`
}

// printWhat says what a plan sends and what removed the cause: a second person
// reads it before they sign, and again as signed.
func printWhat(out *screen.Screen, selected int, cause dlqbridge.Cause, fix *dlqbridge.Fix) {
	by := "without a fix"
	if fix != nil {
		by = "fix " + fix.String()
	}
	out.Printf("%s of cause %s, %s\n", plural(selected, "record"), string(cause), by)
}

// printSigned says in a few lines what a plan's hash stands for.
func printSigned(out *screen.Screen, d approvalDoc) {
	printWhat(out, d.Selected, d.Cause, d.Fix)
	printActions(out, d.ByAction)
	canary := "no canary"
	if len(d.Canary) > 0 {
		canary = "canary " + joinInts(d.Canary)
	}
	out.Printf("at %s, %s; %d excluded\n", d.Rate, canary, d.Excluded)
}

func (s *session) redriveApprove() *cobra.Command {
	var file, reason string
	cmd := &cobra.Command{
		Use:   "approve --plan FILE --reason TEXT",
		Short: "Approve a plan as the second person",
		Long: `Approves a plan as it stands: its hash is signed with your authenticated cloud
principal, for exactly its records at exactly their versions. Somebody else then
runs it with ` + "`redrive run --plan`" + `; their authorisation and your approval are the two
that records need whose cause asks for a second person, and that any run needs from
redrive.second_person_from records on. An OS user or --actor counts for nothing.

It sends nothing, and says what was signed. What changes after the plan was made is
refused by record when it runs; the approval lapses after redrive.authorize_ttl. Read
the plan first: ` + "`redrive plan --plan FILE`" + ` lists its records and who has approved it.`,
		Example: `  dlqbridge redrive plan --cause permission --fix credential:key-7 --for-approval -o json > plan.json
  dlqbridge redrive plan --plan plan.json                                                         # the second person reads it
  dlqbridge redrive approve --plan plan.json --reason "read, all of them are refunds of Monday"   # the second person
  dlqbridge redrive run --plan plan.json --reason "agreed"                                        # the first`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return usagef("write it with `dlqbridge redrive plan … -o json`", "--plan is missing")
			}
			if err := said("--reason", reason, dlqbridge.MaxReason, true, "it stands in the history of every record that is sent"); err != nil {
				return err
			}
			p, err := readPlan(file)
			if err != nil {
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
			a, err := c.Approve(cmd.Context(), p, by, reason)
			if err != nil {
				return err
			}
			byAction, err := p.ByAction()
			if err != nil {
				return err
			}
			d := approvalDoc{
				Plan: a.Plan, planApproval: newPlanApproval(c, a),
				Selected: p.Selected, Cause: p.Cause, Fix: p.Fix, Rate: p.Rate.String(), Canary: orEmpty(p.Canary), ByAction: byAction, Excluded: p.Excluded.Len(),
			}
			return s.print(d, func(out *screen.Screen) {
				printSigned(out, d)
				out.Printf("plan %s approved by %s until %s\n", d.Plan, d.By, d.Until)
				out.Printf("somebody else runs it: dlqbridge redrive run --plan %s --reason …\n", dlqbridge.ShellWord(file))
			})
		},
	}
	cmd.Flags().StringVar(&file, "plan", "", "`FILE` with the plan, made by redrive plan -o json (required)")
	cmd.Flags().StringVar(&reason, "reason", "", "why you agree (required)")
	return cmd
}

func printEstimate(out *screen.Screen, p redrive.Plan) {
	if p.Selected == 0 {
		return
	}
	e := p.Estimate
	var parts []string
	if len(p.Canary) > 0 {
		parts = append(parts, "canary "+joinInts(p.Canary)+" observed for at most "+(time.Duration(e.ObserveSeconds)*time.Second).String())
	}
	parts = append(parts, itoa(e.Calls)+" provider calls", "about $"+e.CostUSD)
	out.Printf("%s\n", strings.Join(parts, ", "))
}
