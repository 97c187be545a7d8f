package main_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// system is an outside system whose answer a test changes.
type system struct {
	*httptest.Server
	mu     sync.Mutex
	answer string
	asked  int
}

func newSystem(t *testing.T, answer string) *system {
	s := &system{answer: answer}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked++
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, s.answer)
	}))
	t.Cleanup(s.Close)
	return s
}

// says changes the answer and returns how often the system was asked before.
func (s *system) says(answer string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
	return s.asked
}

// orderSystem asks about an order: paid by whomever is done; open with an active
// customer is not done, the expected state and a valid input at once; anything
// else matches nothing.
func orderSystem(url string) string {
	return withStore("order", `
    reconcile:
      url: "`+url+`/orders/{idempotencyKey}"
      done: [{body: [{at: /status, equals: [paid]}]}]
      not_done: [{body: [{at: /status, equals: [open]}, {at: /customer/active, equals: [true]}]}]
      receipt: /charge
      authoritative: true
      consistency_delay: 2m
      allow_addresses: [127.0.0.1/32]`)
}

const openOrder = `{"status":"open","customer":{"active":true}}`

// The outside system is asked again before each send. What it said when the
// record was decided does not count then.
func TestTheOutsideSystemIsAskedBeforeEachSend(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		reason string // empty: sent
	}{
		"as it was":                       {openOrder, ""},
		"done meanwhile, by whomever":     {`{"status":"paid","charge":"ch_9","customer":{"active":true}}`, "needs_compensation"},
		"the object is in another state":  {`{"status":"cancelled","customer":{"active":true}}`, "effect_unknown"},
		"the input is not valid any more": {`{"status":"open","customer":{"active":false}}`, "effect_unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t, openOrder)
			withSockets(t, orderSystem(s.URL), func(b *bench) {
				id := b.letter("{}", row{"idem": "o-7"}).ID
				b.later = 5 * time.Minute
				b.triage(0, "investigate", id, "--reason", "its delay is over")
				b.show(id).must(t, "none_confirmed", "retry", "order", "*", "none_confirmed", "system_read")
				before := s.says(c.answer)
				exit := 0
				if c.reason != "" {
					exit = 3
				}
				r := document[redriveResult](b, exit, "redrive", "run", "--cause", "timeout", "--fix", "deploy:1", "--reason", "up again")
				if s.says("") == before {
					t.Error("nobody asked before the send")
				}
				sent := b.receive("orders") != nil
				if sent != (c.reason == "") || (r.Sent == 1) != sent {
					t.Errorf("sent %v, %+v", sent, r)
				}
				if c.reason != "" && (len(r.Excluded) != 1 || r.Excluded[0].Reason != c.reason) {
					t.Errorf("excluded %+v, want %s", r.Excluded, c.reason)
				}
			})
		})
	}
}

// again sends the message that was redriven into the dead-letter queue once
// more, with its mark: it died again.
func (b *bench) again() {
	b.t.Helper()
	m := b.receive("orders")
	if m == nil {
		b.t.Fatal("nothing was sent")
	}
	b.sendAgain("orders-dlq", m)
	b.ok("intake", "--until-empty")
}

// Each send opens a new span: that nothing had happened before it says nothing
// about what happened after it. First the outside system's word.
func TestAnOldAnswerDoesNotCountAfterASend(t *testing.T) {
	t.Parallel()
	s := newSystem(t, openOrder)
	withSockets(t, orderSystem(s.URL), func(b *bench) {
		id := b.letter("{}", row{"idem": "o-7"}).ID
		b.later = 5 * time.Minute
		b.triage(0, "investigate", id, "--reason", "its delay is over")
		b.ok("redrive", "run", "--cause", "timeout", "--fix", "deploy:1", "--reason", "up again")
		b.again()
		r := b.show(id)
		if r.Effect.State != "unknown" || r.Decision.Action != "human_review" {
			t.Errorf("right after the send: %+v, %+v", r.Effect, r.Decision)
		}
		if r := document[redriveResult](b, 3, "redrive", "run", "--cause", "timeout", "--fix", "deploy:2", "--reason", "once more"); r.Sent != 0 || r.Excluded[0].Reason != "effect_unknown" {
			t.Errorf("%+v", r)
		}
		// A new answer, of long enough after the send, counts.
		b.later = 20 * time.Minute
		b.triage(0, "investigate", id, "--reason", "its delay is over")
		b.show(id).must(t, "none_confirmed", "retry", "order", "*", "none_confirmed", "system_read")
		// And so does what happened in the new span.
		s.says(`{"status":"paid","charge":"ch_9","customer":{"active":true}}`)
		b.triage(0, "investigate", id, "--reason", "somebody says that it was paid")
		b.show(id).must(t, "confirmed", "compensate", "order", "*", "confirmed", "system_read")
	})
}

// Then a person's word.
func TestAPersonsOldWordDoesNotCountAfterASend(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		id := b.letter("{}", nil).ID
		settle := append([]string{"--to", "none_confirmed", "--all-steps"}, said...)
		b.triage(0, "settle-effect", id, settle...)
		if r := b.show(id); r.Effect.State != "none_confirmed" || r.Decision.Action != "retry" {
			t.Fatalf("%+v", r)
		}
		b.ok("redrive", "run", "--cause", "timeout", "--fix", "deploy:1", "--reason", "up again")
		b.again()
		r := b.show(id)
		told := slices.ContainsFunc(r.Effect.Findings, func(f struct{ Store, Step, State, Proof string }) bool {
			return f.Store == "operator" && f.State == "none_confirmed"
		})
		if r.Effect.State != "unknown" || r.Decision.Action != "human_review" || !told {
			t.Errorf("%+v, %+v", r.Effect, r.Decision)
		}
		if r := document[redriveResult](b, 3, "redrive", "run", "--cause", "timeout", "--fix", "deploy:2", "--reason", "once more"); r.Sent != 0 || r.Excluded[0].Reason != "effect_unknown" {
			t.Errorf("%+v", r)
		}
		// Whoever looks again is heard.
		b.triage(0, "settle-effect", id, settle...)
		if r := b.show(id); r.Effect.State != "none_confirmed" || r.Decision.Action != "retry" {
			t.Errorf("%+v", r)
		}
	})
}

// Two tenants use the same task id. The other one's completed work does not
// close this letter, and after a person has settled what happened it is sent.
func TestAnotherTenantsLedgerDoesNotCloseTheTask(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		b.ledger("t-1", "task", with(intent, row{"tenant": "globex", "status": "completed"}))
		b.ledger("t-1", "step#0003#charge", row{"status": "succeeded", "receipt": "ch_globex", "run_id": "run-1", "effect_class": "mutating"})
		id := b.arrive("t-1", `{"n":1}`, row{"cause": "timeout", "tenant": "acme"})
		if r := b.show(id); r.Status != "under_investigation" || r.Decision.Rule != "tenant_differs" || !strings.Contains(aws.ToString(r.Decision.Reason), `"globex"`) || r.Effect.State != "unknown" {
			t.Fatalf("%+v", r)
		}
		if r := document[redriveResult](b, 3, "redrive", "run", "--cause", "timeout", "--reason", "go"); r.Sent != 0 {
			t.Fatalf("%+v", r)
		}
		b.triage(0, "settle-effect", id, "--to", "none_confirmed", "--all-steps", "--reason", "acme was never charged", "--evidence", "the payments console")
		if r := b.show(id); r.Decision.Action != "retry" {
			t.Fatalf("%+v %s", r, aws.ToString(r.Decision.Reason))
		}
		if r := document[redriveResult](b, 0, "redrive", "run", "--cause", "timeout", "--fix", "deploy:1", "--reason", "go"); r.Sent != 1 {
			t.Fatalf("%+v, %+v", r, b.show(id))
		}
		if m := b.receive("orders"); m == nil || aws.ToString(m.Body) != `{"n":1}` {
			t.Errorf("sent %+v", m)
		}
	})
}
