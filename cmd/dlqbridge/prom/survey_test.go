package prom_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/prom"
	"github.com/dlqbridge/dlqbridge/enrich"
)

// What is muted counts as open and as muted, and as overdue for nobody.
func TestMutedRecordsAreNotOverdue(t *testing.T) {
	now := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	m := prom.New(prom.Options{Routes: []string{"orders"}, Owners: []string{"ops"}, Version: "test"})
	s := prom.NewSurvey([]string{"orders"}, []dlqbridge.Mute{{Signature: "sg_known", Until: now.Add(time.Hour)}})
	for _, signature := range []string{"sg_known", "sg_known", "sg_new"} {
		s.Add(dlqbridge.Control{
			Route: "orders", Signature: signature, Owner: "ops", Status: dlqbridge.StatusClassified, Cause: dlqbridge.CauseTimeout,
			FirstSeen: now.Add(-time.Hour), TriageBy: now.Add(-time.Minute),
		}, now)
	}
	m.Survey(s, now)
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	for _, want := range []string{
		`dlqbridge_records_triage_overdue{route="orders"} 1`, `dlqbridge_records_muted{route="orders"} 2`,
		`dlqbridge_records_owner{owner="ops",state="open"} 3`, `dlqbridge_records_owner{owner="ops",state="overdue"} 1`,
	} {
		if !strings.Contains(w.Body.String(), want+"\n") {
			t.Errorf("%s is not in\n%s", want, w.Body)
		}
	}
}

// A place without counters has no depth: a 0 would tell an alarm that it is empty.
func TestUnknownDepthHasNoSeries(t *testing.T) {
	m := prom.New(prom.Options{Routes: []string{"orders", "invoices"}, Version: "test"})
	body := func() string {
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
		return w.Body.String()
	}
	const name = "dlqbridge_dead_letter_queue_messages{"
	if strings.Contains(body(), name) {
		t.Error("a depth before any was read")
	}
	m.Observe(enrich.Event{Kind: enrich.EventDepth, Route: "orders"})
	m.Observe(enrich.Event{Kind: enrich.EventDepth, Route: "invoices", Depth: dlqbridge.Depth{Unknown: true}})
	text := body()
	if !strings.Contains(text, name+`route="orders",state="visible"} 0`) || strings.Contains(text, name+`route="invoices"`) {
		t.Error(text)
	}
}
