package check

import (
	"net"
	"net/http"
	"os/exec"
	"testing"
)

// StartMoto starts a moto_server on a free port and returns its URL; it ends with
// the test. Where the program is missing the test is skipped.
func StartMoto(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("moto_server")
	if err != nil {
		t.Skip("needs moto_server: it is not installed")
	}
	address := freeAddress(t)
	host, port, _ := net.SplitHostPort(address)
	url := "http://" + address
	startJudge(t, "moto_server", exec.Command(path, "-H", host, "-p", port), func() bool {
		response, err := http.Get(url + "/moto-api/data.json")
		if err == nil {
			response.Body.Close()
		}
		return err == nil
	})
	return url
}
