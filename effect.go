package dlqbridge

import (
	"slices"
	"time"
)

// Effect is what is known about a task's changes to the outside world.
type Effect string

// The three states. Silence is EffectUnknown, never EffectNone.
const (
	EffectNone      Effect = "none_confirmed"
	EffectConfirmed Effect = "confirmed"
	EffectUnknown   Effect = "unknown"
)

// Proof is what a finding rests on.
type Proof string

// The proofs. ProofNothingFound never proves absence.
const (
	ProofReceipt         Proof = "receipt"
	ProofSystemRead      Proof = "system_read"
	ProofNotStarted      Proof = "not_started"
	ProofDeclared        Proof = "declared"
	ProofWorkerStatement Proof = "worker_statement"
	ProofOperator        Proof = "operator"
	ProofNothingFound    Proof = "nothing_found"
)

// AllSteps is the step of a finding that speaks for every step of the task
// that no other finding names.
const AllSteps = "*"

// NamedStep is the name for a finding about one step whose id is data of a
// store: a step that happens to be called AllSteps speaks for itself alone.
func NamedStep(id string) string {
	if id == AllSteps {
		return `"*"`
	}
	return id
}

// Finding is what one store says about one mutating step's effect.
type Finding struct {
	// Store is who says it: "ledger", "message", "route", "operator", …
	Store string `json:"store"`
	// Step is the step's id, or AllSteps.
	Step string `json:"step"`
	// Run is the run it speaks of; empty speaks of all runs.
	Run   string `json:"run"`
	State Effect `json:"state"`
	Proof Proof  `json:"proof"`
	// AsOf is the time it speaks for: what happened later is not covered. For a
	// step that began and has no end it is the step's last sign of life.
	AsOf time.Time `json:"asOf"`
	// Receipt is the outside system's own reference, if there is one.
	Receipt *string `json:"receipt"`
	// Detail says in words what was seen ("started, no receipt").
	Detail string `json:"detail,omitempty"`
	// Except lists the steps of which a finding about AllSteps no longer speaks,
	// because whoever said it, or somebody after them, has corrected it there.
	Except []string `json:"except,omitempty"`
}

// SpeaksOf says whether a finding is about a step, by its name or among all.
func (f Finding) SpeaksOf(step string) bool {
	return f.Step == step || f.Step == AllSteps && !slices.Contains(f.Except, step)
}

// Checkpoint is a place from which a run can be resumed.
type Checkpoint struct {
	Ref  string    `json:"ref"`
	Step string    `json:"step"`
	Run  string    `json:"run"`
	At   time.Time `json:"at"`
	// WorkflowVersion is the version that wrote it.
	WorkflowVersion string `json:"workflowVersion,omitempty"`
	// Lineage lists the runs it stands on, its own included; empty means its own only.
	Lineage []string `json:"lineage,omitempty"`
}

// Covers says whether the checkpoint stands after a step: a step of its own
// lineage, up to its own step. Step ids sort in order.
func (c *Checkpoint) Covers(f Finding) bool {
	if c == nil || f.Step == AllSteps || c.Step == "" || f.Step > c.Step {
		return false
	}
	return f.Run == c.Run || slices.Contains(c.Lineage, f.Run)
}

// FoldInput is everything the fold looks at.
type FoldInput struct {
	Findings []Finding
	// LastSend is when work was last sent back (or may have been); zero is
	// never. Each send opens a new span that needs its own proof.
	LastSend time.Time
	// Running is set while a run may still be going.
	Running bool
	// Checkpoint, if one is valid.
	Checkpoint *Checkpoint
	// TrustWorker: the route trusts a worker's own none_confirmed, and the
	// letter was sent to the dead-letter place by the worker itself.
	TrustWorker bool
	// OnlyRun is the run known to be the only one of the task so far; empty is
	// unknown. Only then does a worker's word about its own run speak for the task.
	OnlyRun string
}

// Folded is the result of a fold.
type Folded struct {
	// State is the effect of the task; Uncovered that of the steps the
	// checkpoint does not cover, which is what decisions look at.
	State, Uncovered Effect
}

// Fold folds all findings about the mutating steps of all runs of a task:
//
//   - unknown if any step is unknown, if no store could speak for a step that
//     may have run, if stores disagree about one, or if a run may be going;
//   - confirmed if none is unknown and at least one is confirmed;
//   - none_confirmed only if a positive proof speaks for every step.
//
// Coverage by a checkpoint never changes State; it only shrinks what Uncovered
// is folded over.
func Fold(e FoldInput) Folded {
	if e.Running {
		return Folded{EffectUnknown, EffectUnknown}
	}
	return Folded{
		State:     foldOver(e, func(Finding) bool { return true }),
		Uncovered: foldOver(e, func(f Finding) bool { return !e.Checkpoint.Covers(f) }),
	}
}

func foldOver(e FoldInput, keep func(Finding) bool) Effect {
	named, general := e.split()
	byStep := ofSteps(named)
	confirmed := false
	for _, k := range steps(named, byStep, keep) {
		switch settle(about(k, byStep[k.step], general)) {
		case EffectUnknown:
			return EffectUnknown
		case EffectConfirmed:
			confirmed = true
		case EffectNone:
		}
	}
	switch settle(e.unnamed(general)) {
	case EffectUnknown:
		return EffectUnknown
	case EffectConfirmed:
		confirmed = true
	case EffectNone:
	}
	if confirmed {
		return EffectConfirmed
	}
	return EffectNone
}

// counts says whether a finding may be used at all. A negative about no run in
// particular from before the last send says nothing about the span after it;
// what was confirmed stays confirmed.
func (e FoldInput) counts(f Finding) bool {
	if f.State != EffectNone {
		return true
	}
	stale := !f.AsOf.After(e.LastSend) && (f.Run == "" || f.Step == AllSteps)
	switch f.Proof {
	case ProofNotStarted, ProofDeclared:
		return true // read or declared anew at each fold
	case ProofOperator, ProofSystemRead:
		return !stale
	case ProofWorkerStatement:
		return e.TrustWorker && !stale
	case ProofNothingFound, ProofReceipt: // these never prove absence
	}
	return false
}

// ofSteps puts findings together by step: a task may have thousands.
func ofSteps(named []Finding) map[string][]Finding {
	out := make(map[string][]Finding, len(named))
	for _, f := range named {
		out[f.Step] = append(out[f.Step], f)
	}
	return out
}

// stepKey is one step of one run.
type stepKey struct{ run, step string }

// steps lists the steps that are named and kept, each run's own. A finding
// without a run joins the runs known for its step.
func steps(named []Finding, byStep map[string][]Finding, keep func(Finding) bool) []stepKey {
	var keys []stepKey
	seen := map[stepKey]bool{}
	for _, f := range named {
		k := stepKey{f.Run, f.Step}
		joins := f.Run == "" && slices.ContainsFunc(byStep[f.Step], func(g Finding) bool { return g.Run != "" })
		if !joins && keep(f) && !seen[k] {
			seen[k] = true
			keys = append(keys, k)
		}
	}
	return keys
}

// about is what speaks about one named step: its own findings, and the general
// ones of somebody who judged all steps. "Nobody began any other step" and
// "tasks change nothing" say nothing about a step that is named.
func about(k stepKey, ofStep, general []Finding) []Finding {
	var out []Finding
	for _, f := range ofStep {
		if f.Run == k.run || f.Run == "" {
			out = append(out, f)
		}
	}
	for _, f := range general {
		judged := f.Proof == ProofOperator || f.Proof == ProofSystemRead && f.State == EffectNone ||
			f.Proof == ProofWorkerStatement && f.State == EffectNone
		if judged && f.State != EffectUnknown && (f.Run == k.run || f.Run == "") && f.SpeaksOf(k.step) {
			out = append(out, f)
		}
	}
	return out
}

// unnamed is what speaks about the steps that no finding names. A negative from
// one run does not speak for the others.
func (e FoldInput) unnamed(general []Finding) []Finding {
	return slices.DeleteFunc(slices.Clone(general), func(f Finding) bool {
		return f.State == EffectNone && f.Run != "" && f.Run != e.OnlyRun
	})
}

// settle folds the findings about one step. A step that is named and unknown is
// in doubt, and a doubt is ended by a proof that speaks for its time or later;
// two proofs that disagree leave it unknown; and no proof at all is unknown.
// Nothing found about the steps that nobody names is silence, not doubt.
func settle(about []Finding) Effect {
	yes, no := proofs(about)
	switch {
	case len(yes) > 0 && len(no) > 0:
		return EffectUnknown
	case len(yes) > 0:
		return EffectConfirmed
	case len(no) > 0:
		return EffectNone
	}
	return EffectUnknown
}

// proofs are the findings about one step that still count when its doubts are
// considered: those that say it happened, and those that say it did not.
func proofs(about []Finding) (yes, no []Finding) {
	var doubt time.Time
	doubted := false
	for _, f := range about {
		if f.State == EffectUnknown && (f.Step != AllSteps || f.Proof != ProofNothingFound) {
			doubted = true
			if f.AsOf.After(doubt) {
				doubt = f.AsOf
			}
		}
	}
	for _, f := range about {
		switch f.State {
		case EffectConfirmed:
			// A receipt of this very run ends its doubt whenever it was seen; a
			// word about no run in particular does not speak for a later one.
			if !doubted || f.Run != "" || !f.AsOf.Before(doubt) {
				yes = append(yes, f)
			}
		case EffectNone:
			if !doubted || f.ends(doubt) {
				no = append(no, f)
			}
		case EffectUnknown:
		}
	}
	return yes, no
}

// Disagreement is a step of which some say that it happened and others that it
// did not; that alone makes the effect unknown.
type Disagreement struct {
	// Step may be AllSteps: they speak of the steps that nobody names.
	Step, Run string
	Yes, No   []Finding
}

// Disagreements lists the steps beyond the checkpoint about which those who
// speak for them disagree.
func Disagreements(e FoldInput) []Disagreement {
	var out []Disagreement
	add := func(k stepKey, all []Finding) {
		if yes, no := proofs(all); len(yes) > 0 && len(no) > 0 {
			out = append(out, Disagreement{k.step, k.run, yes, no})
		}
	}
	named, general := e.split()
	byStep := ofSteps(named)
	for _, k := range steps(named, byStep, func(f Finding) bool { return !e.Checkpoint.Covers(f) }) {
		add(k, about(k, byStep[k.step], general))
	}
	add(stepKey{step: AllSteps}, e.unnamed(general))
	return out
}

// split is what may be used of the findings: those about one step, and those
// about every step that is not named.
func (e FoldInput) split() (named, general []Finding) {
	begun := false
	for _, f := range e.Findings {
		switch {
		case !e.counts(f):
		case f.Step == AllSteps:
			general = append(general, f)
		default:
			named = append(named, f)
			begun = begun || f.State != EffectNone
		}
	}
	if begun { // a declaration that tasks change nothing is voided by a step that may have
		general = slices.DeleteFunc(general, func(f Finding) bool { return f.Proof == ProofDeclared })
	}
	return named, general
}

// ends says whether a negative ends a doubt that arose at the given time: only
// the word of somebody who looked at the outside world then or later. "Not
// started" and "declared" speak of steps that nobody began.
func (f Finding) ends(doubt time.Time) bool {
	switch f.Proof {
	case ProofOperator, ProofSystemRead:
		return !f.AsOf.Before(doubt)
	case ProofReceipt, ProofNotStarted, ProofDeclared, ProofWorkerStatement, ProofNothingFound:
	}
	return false
}

// ConfirmedStep is a step of a run whose effect happened.
type ConfirmedStep struct {
	// Step may be AllSteps: somebody said so of the task and no step is named.
	Step string
	// Run is empty where nobody knows which run it was.
	Run string
	// Receipts are the outside system's own references, each once.
	Receipts []string
	// AsOf is the latest time for which somebody says so.
	AsOf time.Time
}

// Confirmed lists the steps beyond the checkpoint whose effect is confirmed,
// each once however many stores say so, in the order of the findings. It is
// meant for a fold whose Uncovered is confirmed: then no step is in doubt.
func Confirmed(e FoldInput) []ConfirmedStep {
	named, general := e.split()
	var out []ConfirmedStep
	byStep := ofSteps(named)
	for _, k := range steps(named, byStep, func(f Finding) bool { return !e.Checkpoint.Covers(f) }) {
		if all := about(k, byStep[k.step], general); settle(all) == EffectConfirmed {
			out = append(out, confirmedBy(k, all))
		}
	}
	// A word about all steps speaks of those that are named, if one of them was
	// begun: the same effect must not be undone twice.
	if len(out) == 0 && settle(e.unnamed(general)) == EffectConfirmed {
		out = append(out, confirmedBy(stepKey{step: AllSteps}, general))
	}
	return out
}

func confirmedBy(k stepKey, all []Finding) ConfirmedStep {
	c := ConfirmedStep{Step: k.step, Run: k.run}
	for _, f := range all {
		if f.State != EffectConfirmed {
			continue
		}
		if f.AsOf.After(c.AsOf) {
			c.AsOf = f.AsOf
		}
		if f.Receipt != nil && *f.Receipt != "" && !slices.Contains(c.Receipts, *f.Receipt) {
			c.Receipts = append(c.Receipts, *f.Receipt)
		}
	}
	return c
}
