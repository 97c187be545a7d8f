package dlqbridge_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

func TestATrailKeepsItsBeginningAndItsEnd(t *testing.T) {
	var j dlqbridge.Job
	const all = 3*dlqbridge.MaxTrail + 1
	for n := range all {
		before := j.Trail
		j.Note(time.Unix(int64(n), 0), "alice", strconv.Itoa(n))
		if n > 0 && (len(j.Trail) < len(before) || before[0].What != "0") {
			t.Fatalf("entry %d changed what was there", n)
		}
	}
	if len(j.Trail) != dlqbridge.MaxTrail || j.Trail[0].What != "0" || j.Trail[len(j.Trail)-1].What != strconv.Itoa(all-1) {
		t.Errorf("%d entries, from %s to %s", len(j.Trail), j.Trail[0].What, j.Trail[len(j.Trail)-1].What)
	}
	for i := 1; i < len(j.Trail); i++ {
		if !j.Trail[i].At.After(j.Trail[i-1].At) {
			t.Errorf("entry %d is not after the one before it", i)
		}
	}
}
