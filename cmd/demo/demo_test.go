package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
)

// TestMain lets the test binary be a worker of the fleet too.
func TestMain(m *testing.M) {
	if os.Getenv(envRole) == "worker" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		code := workerMain(ctx)
		stop()
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// The whole story, and its accounts by the outside world's own book.
func TestAccountsOfTheDemo(t *testing.T) {
	var out, problems bytes.Buffer
	if code := run(t.Context(), []string{"-o", "json"}, &out, &problems); code != 0 {
		t.Fatalf("exit %d: %s", code, problems.String())
	}
	var a accounts
	d := json.NewDecoder(strings.NewReader(out.String()))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil || d.More() {
		t.Fatalf("%v in %s", err, out.String())
	}
	if a.Lost != 0 || a.EffectsRepeated != 0 || a.Completed < 10 || a.Held < 1 || a.Tasks != len(orders()) || a.Redriven < a.Completed || a.Records < a.Redriven {
		t.Errorf("accounts %+v", a)
	}
}

func TestWrongUsageOfTheDemo(t *testing.T) {
	for _, args := range [][]string{{"-o", "yaml"}, {"now"}, {"--fast"}} {
		var out, problems bytes.Buffer
		if code := run(t.Context(), args, &out, &problems); code != 2 || out.Len() > 0 || problems.Len() == 0 {
			t.Errorf("%v: exit %d, %q", args, code, problems.String())
		}
	}
}
