package openaiagents

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awserr/awsread"
)

// testify says what one row proves.
func (s *Store) testify(q dlqbridge.Question, row awsread.Item) (dlqbridge.Testimony, error) {
	text := textOf(row[s.o.State])
	if len(text) == 0 {
		return s.silence(q, "the row has no "+s.o.State), nil
	}
	updated := awsread.Time(awsread.Plain(row[s.o.Updated]))
	if updated.After(q.Now.Add(dlqbridge.DefaultSkew)) {
		updated = time.Time{} // as good as malformed
	}
	st, err := decode(text)
	if err != nil {
		// A state is there and says nothing: a doubt that was seen, and not silence.
		t := s.silence(q, "the state cannot be read: "+err.Error())
		t.Findings[0].Proof, t.Findings[0].AsOf = dlqbridge.ProofSystemRead, awsread.LastSign(q, updated)
		return t, nil //nolint:nilerr // the doubt is the answer
	}
	if len(st.calls) > maxCalls {
		return dlqbridge.Testimony{}, awsread.UnavailableError(fmt.Sprintf("the state has more than %d calls", maxCalls))
	}
	t := dlqbridge.Testimony{
		TraceID:   st.trace,
		Artifacts: []dlqbridge.Artifact{{Kind: "run_state", Ref: s.ref(q)}},
	}
	// The declaration speaks of the ledger as it was at a known time.
	bound := s.o.SavedBeforeEachCall != "" && st.ledger && !updated.IsZero()
	whole := bound && !st.hosted
	for _, c := range st.inOrder() {
		if !s.counts(c, st.ledger) {
			continue
		}
		f := s.judge(q, c, bound, updated)
		whole = whole && !c.odd
		t.Findings = append(t.Findings, f)
	}
	if !updated.IsZero() {
		t.RunningUntil = updated.Add(s.o.MaxRun)
	}
	if whole {
		t.Findings = append(t.Findings, dlqbridge.Finding{
			Store: s.o.Name, Step: dlqbridge.AllSteps, Run: s.run(q), State: dlqbridge.EffectNone, Proof: dlqbridge.ProofNotStarted,
			AsOf: q.Now, Detail: "no other call was begun; " + s.o.SavedBeforeEachCall,
		})
		return t, nil
	}
	t.Findings = append(t.Findings, s.silence(q, s.unspoken(st, updated)).Findings...)
	return t, nil
}

// unspoken says why nothing is said about the calls that are not named.
func (s *Store) unspoken(st state, updated time.Time) string {
	switch {
	case !st.ledger:
		return fmt.Sprintf("a state of schema %s has no ledger of calls", dlqbridge.CutText(cmp.Or(st.schema, "?"), 16))
	case s.o.SavedBeforeEachCall == "":
		return "the state may have been saved before other calls"
	case updated.IsZero():
		return "the row does not say when the state was saved"
	case st.hosted:
		return "a tool ran at the model's provider, where the state sees nothing"
	}
	return "the ledger of calls cannot be read whole"
}

// counts says whether a call is one about an effect. Without a ledger a call
// that has no output may never have been made, which the silence covers.
func (s *Store) counts(c call, ledger bool) bool {
	if !ledger && !c.completed && !c.hosted {
		return false
	}
	return c.tool == "" || s.o.Mutating == nil || slices.Contains(s.o.Mutating, c.tool)
}

// judge says what one call proves.
func (s *Store) judge(q dlqbridge.Question, c call, bound bool, updated time.Time) dlqbridge.Finding {
	f := dlqbridge.Finding{
		Store: s.o.Name, Step: dlqbridge.NamedStep(c.step()), Run: s.run(q), State: dlqbridge.EffectUnknown, Proof: dlqbridge.ProofNothingFound,
		AsOf: awsread.LastSign(q, updated),
	}
	switch {
	case c.completed:
		f.State, f.Proof, f.Detail = dlqbridge.EffectConfirmed, dlqbridge.ProofSystemRead, "completed"
	case c.hosted:
		f.Detail = "run at the model's provider"
	case c.odd:
		f.Detail = "its entry cannot be read"
	case c.executed:
		f.Detail = "executed, not completed"
	case bound:
		// Read now, so it speaks for now: had it been begun, the state would say so.
		f.State, f.Proof, f.AsOf, f.Detail = dlqbridge.EffectNone, dlqbridge.ProofNotStarted, q.Now, "not executed; "+s.o.SavedBeforeEachCall
	default:
		f.Detail = "not executed when the state was saved"
	}
	return f
}

// run is the run that a state speaks of: of all, where the key is the task's.
func (s *Store) run(q dlqbridge.Question) string {
	if strings.Contains(s.o.Hash.Value+s.o.Range.Value, "{runId}") {
		return q.RunID
	}
	return ""
}

// ref names the row for whoever goes on from its state.
func (s *Store) ref(q dlqbridge.Question) string {
	key := cmp.Or(q.TaskID, q.RunID)
	if run := s.run(q); run != "" {
		key = run
	}
	return dlqbridge.CutText(fmt.Sprintf("openai_agents:%s/%s", s.o.Table, key), 1000)
}

func (s *Store) silence(q dlqbridge.Question, detail string) dlqbridge.Testimony {
	return dlqbridge.Testimony{Findings: []dlqbridge.Finding{{
		Store: s.o.Name, Step: dlqbridge.AllSteps, State: dlqbridge.EffectUnknown, Proof: dlqbridge.ProofNothingFound,
		AsOf: q.Now, Detail: detail,
	}}}
}
