package cli

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"

	"github.com/dlqbridge/dlqbridge/adapters/awsdynamodb"
)

// Calls side by side open a connection each, and those that follow open none: a
// TLS handshake per call is half of its time.
func TestConnectionsAreKept(t *testing.T) {
	const side = 3 * awsdynamodb.DefaultConcurrency
	var made atomic.Int64
	var together sync.WaitGroup // the calls of a round answer when all have come
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		together.Done()
		together.Wait()
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			made.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	client := awshttp.NewBuildableClient().WithTransportOptions(keepConnections)
	for range 3 {
		var calls sync.WaitGroup
		together.Add(side)
		for range side {
			calls.Go(func() {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, http.NoBody)
				if err != nil {
					t.Error(err)
					return
				}
				answer, err := client.Do(request)
				if err != nil {
					t.Error(err)
					return
				}
				_ = answer.Body.Close()
			})
		}
		calls.Wait()
	}
	if n := made.Load(); n > side+2 { // one may still be on its way back when the next call begins
		t.Errorf("%d connections for three rounds of %d calls", n, side)
	}
}
