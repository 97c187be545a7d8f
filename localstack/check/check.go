// Package check is the local cloud's check list: what a queue and a table must
// do to stand in for the real services, asked through the real SDKs. The same
// list runs on the local cloud and on other emulators, so that its author is
// not its only judge.
package check

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// Harness is one endpoint under examination.
type Harness struct {
	// Config reaches the endpoint; its clients are made with NewFromConfig.
	Config aws.Config
	// Advance moves the endpoint's clock; nil if it cannot, and then the rows
	// that would have to wait for minutes are skipped.
	Advance func(time.Duration)
	// Settle returns when calls that were begun in the background wait inside
	// the endpoint, as synctest.Wait does; nil returns at once.
	Settle func()
	// Around runs a row with a harness made for it alone, such as a fresh
	// cloud inside testing/synctest; nil runs rows with this harness.
	Around func(t *testing.T, row func(t *testing.T, h Harness))
	// Known lists the endpoint's known faults: name of a sub-test as it is
	// written in the check list, and why it is expected to fail. Such a row is
	// skipped with the reason.
	Known map[string]string
	// InFlightLimit is the endpoint's limit of received and undeleted messages
	// per queue; zero means it is too large to be tried, and the row is skipped.
	InFlightLimit int
}

// row runs one row of the check list as a sub-test called name.
func (h Harness) row(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		if reason, known := h.Known[name]; known {
			t.Skipf("known fault of this endpoint: %s", reason)
		}
		f(t)
	})
}

// around gives a row its harness.
func (h Harness) around(t *testing.T, row func(t *testing.T, h Harness)) {
	t.Helper()
	if h.Around == nil {
		row(t, h)
		return
	}
	h.Around(t, row)
}

// advance moves the endpoint's clock, or skips the row where it has none.
func (h Harness) advance(t *testing.T, d time.Duration) {
	t.Helper()
	if h.Advance == nil {
		t.Skipf("needs a clock that can be moved by %v", d)
	}
	h.Advance(d)
}
