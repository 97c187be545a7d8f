package reconcile_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/reconcile"
)

// A payment system that is asked by idempotency key, and has no such charge.
func Example() {
	system := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"object":"list","data":[]}`)
	}))
	defer system.Close()
	now := time.Date(2026, 11, 3, 12, 0, 0, 0, time.UTC)

	payments, err := reconcile.New(reconcile.Options{
		Name:    "payments",
		Step:    "0003#charge",
		URL:     system.URL + "/v1/charges/search?key={idempotencyKey}",
		Headers: map[string]string{"Authorization": "Bearer env:PAYMENTS_TOKEN"},
		Env:     func(string) (string, bool) { return "from the environment", true },
		Done:    []reconcile.Match{{Body: []reconcile.Condition{{At: "/data/0/status", Equals: []string{"succeeded"}}}}},
		NotDone: []reconcile.Match{{Body: []reconcile.Condition{{At: "/object", Equals: []string{"list"}}, {At: "/data", Empty: true}}}},
		Unknown: []reconcile.Match{{Body: []reconcile.Condition{{At: "/data/0/status", Equals: []string{"pending"}}}}},
		Receipt: "/data/0/id", Authoritative: true, ConsistencyDelay: 2 * time.Minute,
		AllowAddresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Now:            func() time.Time { return now },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer payments.Close()
	for _, worked := range []time.Duration{time.Hour, time.Minute} {
		said := payments.Ask(context.Background(), []dlqbridge.Question{{
			TaskID: "t-7", IdempotencyKey: "order-7", Now: now, LastActivity: now.Add(-worked),
		}})[0].Findings[0]
		fmt.Println(said.Step, said.State, said.Proof, "as of", dlqbridge.FormatTime(said.AsOf))
	}
	// Output:
	// 0003#charge none_confirmed system_read as of 2026-11-03T11:58:00.000Z
	// * unknown nothing_found as of 2026-11-03T12:00:00.000Z
}
