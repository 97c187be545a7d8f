package dlqbridge

import (
	"slices"
	"testing"
)

// What must hold of every move, held against the table over all pairs.
func TestMovesOverAllPairs(t *testing.T) {
	reopens := []Status{StatusRejected, StatusCancelledExpired, StatusCompletedManually}
	for _, r := range Moves() {
		for _, from := range Statuses() {
			for _, to := range Statuses() {
				if !r.Verb.Allows(from, to) {
					continue
				}
				if from.Closed() && (r.Verb != VerbReopen || !slices.Contains(reopens, from)) {
					t.Errorf("%s moves a closed record (%s)", r.Verb, from)
				}
				if to == StatusRedriving && from != StatusRedriving && (from != StatusAuthorized || r.Verb != VerbClaim) {
					if r.Verb != VerbReceive {
						t.Errorf("%s leads from %s to redriving", r.Verb, from)
					}
				}
				if from == StatusRedriving && r.Person && r.Verb != VerbSettleSend && r.Verb != VerbAssign {
					t.Errorf("a person's %s moves a record that is redriving", r.Verb)
				}
				if to == StatusAuthorized && from != StatusAuthorized && r.Verb != VerbAuthorize && r.Verb != VerbRelease && r.Verb != VerbSettleSend {
					t.Errorf("%s authorises from %s", r.Verb, from)
				}
				if r.Stays && from != to {
					t.Errorf("%s stays, but leads from %s to %s", r.Verb, from, to)
				}
			}
		}
	}
}

func TestVerbsAreKnown(t *testing.T) {
	seen := map[Verb]bool{}
	for _, r := range Moves() {
		if seen[r.Verb] {
			t.Errorf("%s stands twice in the table", r.Verb)
		}
		seen[r.Verb] = true
		if r.Does == "" || len(r.From) == 0 || (!r.Stays && len(r.To) == 0) {
			t.Errorf("row of %s is incomplete", r.Verb)
		}
	}
	if Verb("burn").Allows(StatusClassified, StatusRejected) {
		t.Error("an unknown verb moves")
	}
	for _, s := range Statuses() {
		if s.Closed() != slices.Contains(closedStatuses, s) || !s.Valid() {
			t.Errorf("status %s", s)
		}
	}
	if got := Possible(Case{Control: Control{Status: StatusCompleted}}, Beside{}); len(got) != 0 {
		t.Errorf("verbs for a completed record: %v", got)
	}
}
