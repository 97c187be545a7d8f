package awsdynamodb_test

import (
	"errors"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

func TestAGroupKeepsItsNewest(t *testing.T) {
	b := open(t)
	group := dlqbridge.GroupKey{Destination: destination, Place: "dead", Group: "a"}
	other := dlqbridge.GroupKey{Destination: destination, Place: "dead", Group: "b"}
	done := func(record, order string, after time.Duration) dlqbridge.GroupDone {
		return dlqbridge.GroupDone{GroupKey: group, Record: record, Order: order, At: b.at().Add(after)}
	}
	must(t, b.NoteDone(t.Context(), done("r_2", "0002", 0)))
	must(t, b.NoteDone(t.Context(), done("r_1", "0001", time.Minute))) // later, and older
	must(t, b.NoteDone(t.Context(), done("r_2", "0002", time.Hour)))   // once more
	have, err := b.GroupsDone(t.Context(), []dlqbridge.GroupKey{group, other, group})
	must(t, err)
	diff(t, "kept", map[dlqbridge.GroupKey]dlqbridge.GroupDone{group: done("r_2", "0002", 0)}, have)
	must(t, b.NoteDone(t.Context(), done("r_9", "0009", time.Hour)))
	have, err = b.GroupsDone(t.Context(), []dlqbridge.GroupKey{group})
	must(t, err)
	diff(t, "newer", map[dlqbridge.GroupKey]dlqbridge.GroupDone{group: done("r_9", "0009", time.Hour)}, have)
	if err := b.NoteDone(t.Context(), dlqbridge.GroupDone{GroupKey: group}); !errors.Is(err, dlqbridge.ErrInvalid) {
		t.Errorf("of no record: %v", err)
	}
}
