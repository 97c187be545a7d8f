package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"time"

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
	Job      *string                       `json:"job"`
	Sent     int                           `json:"sent"`
	Outcomes map[dlqbridge.SendOutcome]int `json:"outcomes"`
	State    string                        `json:"state"`
}

// statePlanned is the state of what no job was made of yet.
const statePlanned = "planned"

func planDocument(p redrive.Plan) planDoc {
	return planDoc{Plan: p, Rate: p.Rate.String(), Outcomes: map[dlqbridge.SendOutcome]int{}, State: statePlanned}
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

// planned is the request to run a plan: the plan says what and how, so nothing
// else may be said.
func (f *selection) planned() (redrive.Request, error) {
	var r redrive.Request
	for flag, given := range map[string]bool{
		"--cause": f.cause != "", "--route": f.route != "", "--signature": f.signature != "", "--tenant": f.tenant != "", "--task-type": f.taskType != "",
		"--record": len(f.records) > 0, "--max": f.max != 0, "--fix": f.fix != "", "--policy": f.policy,
		"--rate": f.rate != "", "--burst": f.burst != "", "--max-in-flight": f.inFlight != "", "--canary": f.canary != "",
	} {
		if given {
			return r, usagef("make another plan with it", "%s contradicts --plan, which runs a plan as it stands", flag)
		}
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
	text, err := os.ReadFile(file) //nolint:gosec // the person names the file
	if err != nil {
		return wrong(err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var doc planDoc
	if err := d.Decode(&doc); err != nil {
		return wrong(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return wrong(errors.New("something stands behind the plan"))
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
	return doc.Plan, nil
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
