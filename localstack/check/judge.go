package check

import (
	"bytes"
	"net"
	"os/exec"
	"testing"
	"time"
)

// freeAddress is a port of this machine that is free now.
func freeAddress(t *testing.T) string {
	t.Helper()
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer probe.Close()
	return probe.Addr().String()
}

// startJudge starts somebody else's implementation, which ends with the test, and
// waits until it answers. The test is skipped where that does not happen; program
// is what the machine lacks then.
func startJudge(t *testing.T, program string, command *exec.Cmd, answers func() bool) {
	t.Helper()
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	if err := command.Start(); err != nil {
		t.Skipf("needs %s: it does not start: %v", program, err)
	}
	ended := make(chan struct{})
	go func() {
		// It ends when the test kills it, so its error says nothing.
		_ = command.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = command.Process.Kill()
		<-ended
	})
	patience := time.NewTimer(time.Minute)
	defer patience.Stop()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for !answers() {
		select {
		case <-again.C:
		case <-ended:
			t.Skipf("needs %s: it stopped: %s", program, output.String())
		case <-patience.C:
			t.Skipf("needs %s: it does not answer within a minute", program)
		}
	}
}
