package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

// TestMain lets scripts run this very program, and looks for goroutines that
// outlive the tests.
func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){"dlqbridge": main})
}

type leakChecked struct{ m *testing.M }

// Run implements testscript.TestingM.
func (l leakChecked) Run() int {
	code := l.m.Run()
	if code != 0 {
		return code
	}
	// The check list's Pub/Sub client brings a library that starts a worker when
	// it is loaded; the program itself does not have it.
	if err := goleak.Find(goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
