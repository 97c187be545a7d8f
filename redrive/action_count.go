package redrive

import (
	"cmp"
	"slices"

	"github.com/dlqbridge/dlqbridge"
)

// ActionCount is how many records go to one destination by one action. Its JSON
// form is public.
type ActionCount struct {
	Action      dlqbridge.Action `json:"action"`
	Destination string           `json:"destination"`
	Records     int              `json:"records"`
}

// ByAction counts a plan's members by action and destination, which people read
// before they agree: a compensation is not a retry.
func (p Plan) ByAction() ([]ActionCount, error) {
	out := []ActionCount{}
	for _, j := range p.Jobs {
		for m, err := range j.Members.All() {
			if err != nil {
				return nil, err
			}
			out = addCount(out, m.Action, j.Destination, 1)
		}
	}
	sortCounts(out)
	return out, nil
}

func addCount(counts []ActionCount, a dlqbridge.Action, destination string, n int) []ActionCount {
	for i := range counts {
		if counts[i].Action == a && counts[i].Destination == destination {
			counts[i].Records += n
			return counts
		}
	}
	return append(counts, ActionCount{a, destination, n})
}

// actionOrder has what repeats before what changes and what undoes.
var actionOrder = []dlqbridge.Action{dlqbridge.ActionRetry, dlqbridge.ActionResume, dlqbridge.ActionRepair, dlqbridge.ActionCompensate}

// SendActions are the actions that send something.
func SendActions() []dlqbridge.Action { return slices.Clone(actionOrder) }

func sortCounts(counts []ActionCount) {
	slices.SortStableFunc(counts, func(a, b ActionCount) int {
		return cmp.Or(cmp.Compare(slices.Index(actionOrder, a.Action), slices.Index(actionOrder, b.Action)), cmp.Compare(a.Destination, b.Destination))
	})
}
