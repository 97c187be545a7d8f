package check

import (
	"bytes"
	"net"
	"net/http"
	"os/exec"
	"testing"
	"time"
)

// StartMoto starts a moto_server on a free port and returns its URL; it ends with
// the test. Where the program is missing the test is skipped.
func StartMoto(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("moto_server")
	if err != nil {
		t.Skip("needs moto_server: it is not installed")
	}
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := probe.Addr().String()
	probe.Close()
	host, port, _ := net.SplitHostPort(address)
	var output bytes.Buffer
	command := exec.Command(path, "-H", host, "-p", port)
	command.Stdout, command.Stderr = &output, &output
	if err := command.Start(); err != nil {
		t.Skipf("needs moto_server: it does not start: %v", err)
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
	url := "http://" + address
	patience := time.NewTimer(time.Minute)
	defer patience.Stop()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		if response, err := http.Get(url + "/moto-api/data.json"); err == nil {
			response.Body.Close()
			return url
		}
		select {
		case <-again.C:
		case <-ended:
			t.Skipf("needs moto_server: it stopped: %s", output.String())
		case <-patience.C:
			t.Skip("needs moto_server: it does not answer within a minute")
		}
	}
}
