package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/screen"
	"github.com/dlqbridge/dlqbridge/redrive"
)

// partDoc is what became of a part of a job, for machines.
type partDoc struct {
	// Step is the number of a canary step, null for what follows them and for
	// groups of failures, which have a Signature.
	Step      *int    `json:"step"`
	Signature *string `json:"signature"`
	Size      int     `json:"size"`
	Counted   int     `json:"counted"`
	Sent      int     `json:"sent"`
	InDoubt   int     `json:"inDoubt"`
	// Outcomes are in the words of `redrive run`: sent still waits.
	Outcomes map[dlqbridge.SendOutcome]int `json:"outcomes"`
	standingDoc
}

// standingDoc is how well a job or a part of it does.
type standingDoc struct {
	// SuccessRate is the share of completed among completed, recurred and
	// unconfirmed; null before the first of them.
	SuccessRate *float64 `json:"successRate"`
	// TimeToOutcome is from the claim to when it was seen that the task completed
	// or came back; null before the first of them.
	TimeToOutcome *tookDoc `json:"timeToOutcome"`
}

type tookDoc struct {
	MedianSeconds float64 `json:"medianSeconds"`
	P95Seconds    float64 `json:"p95Seconds"`
	Of            int     `json:"of"`
}

func standing(p redrive.Part) standingDoc {
	var d standingDoc
	if share, known := p.Success(); known {
		d.SuccessRate = &share
	}
	if p.Timed > 0 {
		d.TimeToOutcome = &tookDoc{p.Median.Seconds(), p.P95.Seconds(), p.Timed}
	}
	return d
}

func partDocs(parts []redrive.Part) []partDoc {
	out := []partDoc{}
	for _, p := range parts {
		d := partDoc{
			Signature: orNull(p.Signature), Size: p.Size, Counted: p.Counted, Sent: p.Sent, InDoubt: p.InDoubt, Outcomes: p.Outcomes, standingDoc: standing(p),
		}
		if p.Step > 0 {
			d.Step = &p.Step
		}
		out = append(out, d)
	}
	return out
}

// estimatedEnd is when a running job has sent what is left, by the rate it had
// since it began or was last continued; zero where nobody can say.
func estimatedEnd(j dlqbridge.Job, now time.Time) time.Time {
	rate, began := j.Rate.PerSecond(), j.Created
	if !j.Began.IsZero() {
		began = j.Began
	}
	// Over a short time the burst or a lagging number would tell, and canary steps
	// take the time of their observation.
	if took := now.Sub(began); len(j.Canary) == 0 && j.Sent > j.Before && took >= speedOver {
		rate = min(rate, float64(j.Sent-j.Before)/took.Seconds())
	}
	return endAt(j, rate, now)
}

// endAt is when a running job has sent what is left at a rate; zero where nobody
// can say: it waits for outcomes, or does not run.
func endAt(j dlqbridge.Job, rate float64, now time.Time) time.Time {
	left := j.Selected - j.Sent - j.InDoubt - j.Excluded
	if j.State != dlqbridge.JobRunning || left <= 0 || rate <= 0 || j.Step < len(j.Canary) || strings.Contains(j.Doing, "waiting for outcomes") {
		return time.Time{}
	}
	return now.Add(time.Duration(float64(left) / rate * float64(time.Second)))
}

// well is how well something does, in words; empty where nothing is known.
func (d standingDoc) well(outcomes map[dlqbridge.SendOutcome]int) string {
	var parts []string
	ended := outcomes[dlqbridge.OutcomeCompleted] + outcomes[dlqbridge.OutcomeRecurred] + outcomes[dlqbridge.OutcomeUnconfirmed]
	if d.SuccessRate != nil {
		parts = append(parts, fmt.Sprintf("%.0f%% success of %d with an outcome", 100**d.SuccessRate, ended))
	}
	if t := d.TimeToOutcome; t != nil {
		parts = append(parts, fmt.Sprintf("outcome after %s (median), %s (95%%)", seconds(t.MedianSeconds), seconds(t.P95Seconds)))
	}
	return strings.Join(parts, ", ")
}

func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	if d < time.Minute {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// maxGroupsShown bounds the groups that a person is shown; the JSON has all.
const maxGroupsShown = 10

func printStanding(out *screen.Screen, d jobDoc) {
	if words := d.well(d.Outcomes); words != "" {
		out.Printf("  %s\n", words)
	}
	if d.EstimatedEnd != nil {
		out.Printf("  all of it sent at about %s\n", *d.EstimatedEnd)
	}
	row := func(table *screen.Table, name string, p partDoc) {
		table.Row("  "+name, itoa(p.Size), itoa(p.Sent), outcomeWords(p.Outcomes), p.well(p.Outcomes))
	}
	if len(d.Steps) > 0 {
		table := out.NewTable("  STEP", "SIZE", "SENT", "OUTCOMES", "")
		for _, p := range d.Steps {
			name := "rest"
			if p.Step != nil {
				name = itoa(*p.Step)
			}
			row(table, name, p)
		}
		table.Flush()
	}
	if len(d.Signatures) > 1 {
		table := out.NewTable("  FAILURE", "SIZE", "SENT", "OUTCOMES", "")
		for _, p := range d.Signatures[:min(len(d.Signatures), maxGroupsShown)] {
			name := "none"
			if p.Signature != nil {
				name = *p.Signature
			}
			row(table, name, p)
		}
		table.Flush()
		if more := len(d.Signatures) - maxGroupsShown; more > 0 {
			out.Printf("  and %d more groups of failures\n", more)
		}
	}
}
