package wire_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/wire"
)

func TestAProbePassesOnlyOnSuccess(t *testing.T) {
	status := http.StatusNoContent
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			t.Errorf("asked by %s", r.Method)
		}
		w.WriteHeader(status)
	}))
	address := server.URL + "/health?token=secret"
	if err := wire.Probe(t.Context(), server.Client(), address); err != nil {
		t.Error(err)
	}
	for _, status = range []int{http.StatusServiceUnavailable, http.StatusNotFound, http.StatusNotModified} {
		if err := wire.Probe(t.Context(), server.Client(), address); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%d: %v", status, err)
		}
	}
	server.Close()
	if err := wire.Probe(t.Context(), server.Client(), address); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("nobody there: %v", err)
	}
}
