package enrich

import (
	"slices"
	"strings"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// FixResult is one fix of a group of failures and what came of it.
type FixResult struct {
	// Fix is KIND:TEXT, At when it was first recorded, Records on how many
	// records of the group.
	Fix     string `json:"fix"`
	At      string `json:"at"`
	Records int    `json:"records"`
	// FailuresBefore and FailuresAfter count the letters of all records of the
	// group that came before and after At, the first ones too.
	FailuresBefore int `json:"failuresBefore"`
	FailuresAfter  int `json:"failuresAfter"`
	// Redrives counts the sends that were claimed while the fix was on record,
	// and how they ended; the rest waits for its outcome.
	Redrives    int `json:"redrives"`
	Completed   int `json:"completed"`
	Recurred    int `json:"recurred"`
	Unconfirmed int `json:"unconfirmed"`

	at time.Time
}

// Fixes finds out from the histories of a group's records what its fixes were
// worth. The zero value is ready.
type Fixes struct {
	byFix    map[string]*FixResult
	failures []time.Time
}

// Add reads one record's history, which needs the notes that it names.
func (f *Fixes) Add(c dlqbridge.Case) {
	standing := ""
	under := map[int]*FixResult{} // redrive number to the fix it was made under
	seen := map[string]bool{}
	for _, m := range c.History {
		if m.Arrival != "" {
			f.failures = append(f.failures, m.At)
		}
		if r := under[m.N]; r != nil {
			r.settle(m, under)
		}
		if m.Arrival != "" {
			standing = "" // a fix is about what failed before it
		}
		if n := noteNamed(c, m.Note); n != nil && n.Fix != nil {
			standing = n.Fix.String()
			f.found(standing, m.At, !seen[standing])
			seen[standing] = true
		}
		if m.Verb == dlqbridge.VerbClaim && standing != "" {
			under[m.N] = f.byFix[standing]
			under[m.N].Redrives++
		}
	}
}

func noteNamed(c dlqbridge.Case, name string) *dlqbridge.Note {
	i := slices.IndexFunc(c.Notes, func(n dlqbridge.Note) bool { return name != "" && n.Name == name })
	if i < 0 {
		return nil
	}
	return &c.Notes[i]
}

// settle counts how a redrive ended. One that was released was never sent.
func (r *FixResult) settle(m dlqbridge.Move, under map[int]*FixResult) {
	//exhaustive:ignore
	switch {
	case m.Verb == dlqbridge.VerbRelease, m.Verb == dlqbridge.VerbSettleSend && m.To != dlqbridge.StatusRedriving:
		r.Redrives--
	case m.Verb == dlqbridge.VerbComplete, m.Verb == dlqbridge.VerbUnconfirmed && m.To == dlqbridge.StatusCompleted:
		r.Completed++
	case m.Verb == dlqbridge.VerbUnconfirmed:
		r.Unconfirmed++
	case m.Verb == dlqbridge.VerbRecur, m.Verb == dlqbridge.VerbReceive && m.Arrival != "":
		r.Recurred++
	default:
		return
	}
	delete(under, m.N)
}

func (f *Fixes) found(fix string, at time.Time, first bool) {
	if f.byFix == nil {
		f.byFix = map[string]*FixResult{}
	}
	r := f.byFix[fix]
	if r == nil {
		r = &FixResult{Fix: fix, at: at}
		f.byFix[fix] = r
	}
	if first {
		r.Records++
	}
	if at.Before(r.at) {
		r.at = at
	}
}

// Results are the fixes of the records added so far, the first one first; never nil.
func (f *Fixes) Results() []*FixResult {
	out := []*FixResult{}
	for _, r := range f.byFix {
		r.At, r.FailuresBefore, r.FailuresAfter = dlqbridge.FormatTime(r.at), 0, 0
		for _, at := range f.failures {
			if at.After(r.at) {
				r.FailuresAfter++
			} else {
				r.FailuresBefore++
			}
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *FixResult) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return strings.Compare(a.Fix, b.Fix)
	})
	return out
}
