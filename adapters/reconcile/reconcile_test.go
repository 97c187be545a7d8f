package reconcile

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge"
)

var (
	now   = time.Date(2026, 11, 3, 12, 0, 0, 0, time.UTC)
	local = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
)

func yes() *bool { b := true; return &b }
func no() *bool  { b := false; return &b }

// payments is a reconciler with everything a payment system would want.
func payments(url string) Options {
	return Options{
		Name: "payments", Step: "0003#charge", URL: url + "/v1/charges/{idempotencyKey}",
		Done:    []Match{{Status: []int{200}, Body: []Condition{{At: "body:/status", Equals: []string{"succeeded", "captured"}}}}},
		NotDone: []Match{{Status: []int{404}, Body: []Condition{{At: "/error/code", Equals: []string{"resource_missing"}}}}},
		Unknown: []Match{{Body: []Condition{{At: "/status", Equals: []string{"pending"}}}}},
		Receipt: "/id", Authoritative: true, ConsistencyDelay: 2 * time.Minute,
		AllowAddresses: local, Now: func() time.Time { return now },
	}
}

func question(key string) dlqbridge.Question {
	return dlqbridge.Question{
		Route: "orders", TaskID: "t-7", RunID: "run-1", IdempotencyKey: key, Tenant: "acme", Now: now, LastActivity: now.Add(-time.Hour),
	}
}

func open(t *testing.T, o Options) *Reconciler {
	t.Helper()
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// system answers every request alike and remembers what it was asked.
type system struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string
}

func serve(t *testing.T, status int, body string) *system {
	t.Helper()
	s := &system{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked = append(s.asked, r.Method+" "+r.RequestURI)
		s.mu.Unlock()
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(s.Close)
	return s
}

func askOne(t *testing.T, o Options, q dlqbridge.Question) dlqbridge.Testimony {
	t.Helper()
	return open(t, o).Ask(t.Context(), []dlqbridge.Question{q})[0]
}

// Every finding it can give, from the answer that gives it.
func TestWhatAnAnswerProves(t *testing.T) {
	early := question("k")
	early.LastActivity = now.Add(-time.Minute)
	unknownActivity := question("k")
	unknownActivity.LastActivity = time.Time{}
	missing := `{"error":{"code":"resource_missing"}}`
	for _, tt := range []struct {
		name   string
		status int
		body   string
		q      dlqbridge.Question
		change func(*Options)
		want   dlqbridge.Finding // without store and detail
		detail string            // its beginning
	}{
		{
			name: "done", status: 200, body: `{"status":"succeeded","id":"ch_1"}`,
			want:   dlqbridge.Finding{Step: "0003#charge", State: dlqbridge.EffectConfirmed, Proof: dlqbridge.ProofSystemRead, AsOf: now, Receipt: new("ch_1")},
			detail: "GET answered 200 at 2026-11-03T12:00:00.000Z, sha256 ",
		},
		{
			name: "a receipt that is a number keeps its digits", status: 200, body: `{"status":"captured","id":12345678901234567890}`,
			want: dlqbridge.Finding{Step: "0003#charge", State: dlqbridge.EffectConfirmed, Proof: dlqbridge.ProofSystemRead, AsOf: now, Receipt: new("12345678901234567890")},
		},
		{
			name: "done without a receipt", status: 200, body: `{"status":"succeeded"}`,
			want: dlqbridge.Finding{Step: "0003#charge", State: dlqbridge.EffectConfirmed, Proof: dlqbridge.ProofSystemRead, AsOf: now},
		},
		{
			name: "not done speaks for the time before the delay", status: 404, body: missing,
			want: dlqbridge.Finding{Step: "0003#charge", State: dlqbridge.EffectNone, Proof: dlqbridge.ProofSystemRead, AsOf: now.Add(-2 * time.Minute)},
		},
		{
			name: "not done for all steps", status: 404, body: missing, change: func(o *Options) { o.Step = "" },
			want: dlqbridge.Finding{Step: "*", State: dlqbridge.EffectNone, Proof: dlqbridge.ProofSystemRead, AsOf: now.Add(-2 * time.Minute)},
		},
		{
			name: "not done, asked by run, speaks for that run", status: 404, body: missing, change: func(o *Options) { o.URL += "?run={runId}" },
			want: dlqbridge.Finding{Step: "0003#charge", Run: "run-1", State: dlqbridge.EffectNone, Proof: dlqbridge.ProofSystemRead, AsOf: now.Add(-2 * time.Minute)},
		},
		{
			name: "not done but not authoritative is silence", status: 404, body: missing, change: func(o *Options) { o.Authoritative = false },
			want:   dlqbridge.Finding{Step: "*", State: dlqbridge.EffectUnknown, Proof: dlqbridge.ProofNothingFound, AsOf: now},
			detail: "not done, but the system is not declared authoritative: GET answered 404",
		},
		{
			name: "not done too early is silence", status: 404, body: missing, q: early,
			want:   dlqbridge.Finding{Step: "*", State: dlqbridge.EffectUnknown, Proof: dlqbridge.ProofNothingFound, AsOf: now},
			detail: "not done, but asked within 2m0s of the last activity",
		},
		{
			name: "not done without a known last activity is silence", status: 404, body: missing, q: unknownActivity,
			want:   dlqbridge.Finding{Step: "*", State: dlqbridge.EffectUnknown, Proof: dlqbridge.ProofNothingFound, AsOf: now},
			detail: "not done, but when the task was last worked on is unknown",
		},
		{
			name: "pending is a doubt about the step", status: 200, body: `{"status":"pending"}`,
			want:   dlqbridge.Finding{Step: "0003#charge", State: dlqbridge.EffectUnknown, Proof: dlqbridge.ProofSystemRead, AsOf: now},
			detail: "the system itself does not know yet",
		},
		{
			name: "done and not done at once is a doubt", status: 200, body: `{"status":"succeeded","gone":true}`,
			change: func(o *Options) { o.NotDone = []Match{{Body: []Condition{{At: "/gone", Equals: []string{"true"}}}}} },
			want:   dlqbridge.Finding{Step: "0003#charge", State: dlqbridge.EffectUnknown, Proof: dlqbridge.ProofSystemRead, AsOf: now.Add(-time.Hour)},
			detail: "done and not done at once",
		},
		{
			name: "a gateway's 404 is not the system's", status: 404, body: `<html>no such page</html>`,
			want:   dlqbridge.Finding{Step: "*", State: dlqbridge.EffectUnknown, Proof: dlqbridge.ProofSystemRead, AsOf: now.Add(-time.Hour)},
			detail: "no selector matches: GET answered 404",
		},
		{
			name: "a key that stands twice is not read", status: 200, body: `{"status":"succeeded","status":"failed"}`,
			want:   dlqbridge.Finding{Step: "*", State: dlqbridge.EffectUnknown, Proof: dlqbridge.ProofSystemRead, AsOf: now.Add(-time.Hour)},
			detail: "no selector matches",
		},
		{
			name: "a body over the limit is not judged", status: 404, body: missing + strings.Repeat(" ", 300),
			change: func(o *Options) { o.MaxAnswer = 200; o.NotDone = []Match{{Status: []int{404}}} },
			want:   dlqbridge.Finding{Step: "*", State: dlqbridge.EffectUnknown, Proof: dlqbridge.ProofSystemRead, AsOf: now.Add(-time.Hour)},
			detail: "longer than 200 bytes",
		},
		{
			name: "a deep body is not read", status: 404, body: strings.Repeat(`{"error":`, 5000) + "1" + strings.Repeat("}", 5000),
			want: dlqbridge.Finding{Step: "*", State: dlqbridge.EffectUnknown, Proof: dlqbridge.ProofSystemRead, AsOf: now.Add(-time.Hour)},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, tt.status, tt.body)
			o := payments(s.URL)
			if tt.change != nil {
				tt.change(&o)
			}
			q := tt.q
			if q.Now.IsZero() {
				q = question("k")
			}
			got := askOne(t, o, q)
			if len(got.Findings) != 1 || got.Unavailable != "" {
				t.Fatalf("got %+v, want one finding", got)
			}
			detail := got.Findings[0].Detail
			got.Findings[0].Detail = ""
			tt.want.Store = "payments"
			if diff := cmp.Diff(tt.want, got.Findings[0]); diff != "" {
				t.Error(diff)
			}
			if !strings.HasPrefix(detail, tt.detail) || !strings.Contains(detail, "sha256 ") || len(detail) > 256 {
				t.Errorf("detail is %q, want it to begin with %q and to end with the hash", detail, tt.detail)
			}
		})
	}
}

// Its own trouble is never an absence, whatever the selectors say.
func TestOwnTroubleIsUnavailable(t *testing.T) {
	for status, want := range map[int]string{
		401: "denied: the credentials are missing, wrong or expired (status 401)",
		403: "denied: the credentials may not read this (status 403)",
		429: "throttled (status 429)",
		301: "redirected, and redirects are not followed (status 301)",
		500: "answered with an error of its own (status 500)",
		503: "answered with an error of its own (status 503)",
	} {
		got := askOne(t, payments(serve(t, status, `{"error":{"code":"resource_missing"}}`).URL), question("k"))
		if diff := cmp.Diff(dlqbridge.Testimony{Store: "payments", Unavailable: want}, got); diff != "" {
			t.Error(diff)
		}
	}
}

// What comes of the findings in the fold, which decides.
func TestFindingsInTheFold(t *testing.T) {
	ledgerDoubt := dlqbridge.Finding{
		Store: "ledger", Step: "0003#charge", Run: "run-1", State: dlqbridge.EffectUnknown, Proof: dlqbridge.ProofNothingFound, AsOf: now.Add(-time.Hour),
	}
	notStarted := dlqbridge.Finding{Store: "ledger", Step: "*", State: dlqbridge.EffectNone, Proof: dlqbridge.ProofNotStarted, AsOf: now.Add(-time.Hour)}
	missing := `{"error":{"code":"resource_missing"}}`
	for _, tt := range []struct {
		name     string
		status   int
		body     string
		others   []dlqbridge.Finding
		lastSend time.Time
		want     dlqbridge.Effect
	}{
		{"not done ends a doubt of the ledger", 404, missing, []dlqbridge.Finding{ledgerDoubt, notStarted}, time.Time{}, dlqbridge.EffectNone},
		{"done settles it", 200, `{"status":"succeeded"}`, []dlqbridge.Finding{ledgerDoubt, notStarted}, time.Time{}, dlqbridge.EffectConfirmed},
		{"pending outweighs a ledger without rows", 200, `{"status":"pending"}`, []dlqbridge.Finding{notStarted}, time.Time{}, dlqbridge.EffectUnknown},
		{"an answer nobody understands needs a person", 404, "?", []dlqbridge.Finding{notStarted}, time.Time{}, dlqbridge.EffectUnknown},
		{"not done says nothing about a send within the delay", 404, missing, []dlqbridge.Finding{ledgerDoubt, notStarted}, now.Add(-time.Minute), dlqbridge.EffectUnknown},
		{"not done alone speaks for its step only", 404, missing, nil, time.Time{}, dlqbridge.EffectUnknown},
	} {
		got := askOne(t, payments(serve(t, tt.status, tt.body).URL), question("k"))
		folded := dlqbridge.Fold(dlqbridge.FoldInput{Findings: append(got.Findings, tt.others...), LastSend: tt.lastSend})
		if folded.State != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, folded.State, tt.want)
		}
	}
}

// What another look may change is asked for by itself.
func TestWhenToAskAgain(t *testing.T) {
	missing := serve(t, 404, `{"error":{"code":"resource_missing"}}`).URL
	pending := serve(t, 200, `{"status":"pending"}`).URL
	for _, tt := range []struct {
		url     string
		age     time.Duration
		want    time.Duration
		without bool
	}{
		{missing, time.Minute, time.Minute, false},
		{missing, 0, 2 * time.Minute, false},
		{missing, time.Hour, 0, true},
		{pending, time.Minute, 5 * time.Minute, false},
		{pending, time.Hour, 30 * time.Minute, false},
		{pending, 1000 * time.Hour, 6 * time.Hour, false},
	} {
		q := question("k")
		q.LastActivity = now.Add(-tt.age)
		want := now.Add(tt.want)
		if tt.without {
			want = time.Time{}
		}
		if got := askOne(t, payments(tt.url), q); !got.AskAgain.Equal(want) {
			t.Errorf("%s after the last activity: got %s, want %s", tt.age, got.AskAgain, want)
		}
	}
}

func TestAQuestionThatNamesNothingIsNotAsked(t *testing.T) {
	s := serve(t, 200, `{"status":"succeeded"}`)
	got := askOne(t, payments(s.URL), question(""))
	want := dlqbridge.Testimony{Store: "payments", Findings: []dlqbridge.Finding{{
		Store: "payments", Step: "*", State: dlqbridge.EffectUnknown, Proof: dlqbridge.ProofNothingFound, AsOf: now,
		Detail: "the task has no idempotency key to ask by",
	}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(s.asked) != 0 {
		t.Errorf("asked %v", s.asked)
	}
}

func TestSameQuestionsAreAskedOnceAndAnsweredByPosition(t *testing.T) {
	s := &system{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked = append(s.asked, r.RequestURI)
		s.mu.Unlock()
		fmt.Fprintf(w, `{"status":"succeeded","id":%q}`, strings.TrimPrefix(r.URL.Path, "/v1/charges/"))
	}))
	defer s.Close()
	o := payments(s.URL)
	o.Parallel = 3
	r := open(t, o)
	var questions []dlqbridge.Question
	for i := range 40 {
		questions = append(questions, question(fmt.Sprintf("k%d", i%20)))
	}
	for i, got := range r.Ask(t.Context(), questions) {
		if want := fmt.Sprintf("k%d", i%20); len(got.Findings) != 1 || *got.Findings[0].Receipt != want {
			t.Errorf("answer %d is %+v, want receipt %s", i, got, want)
		}
	}
	if len(s.asked) != 20 {
		t.Errorf("%d calls, want 20", len(s.asked))
	}
}

func TestAnAnswerAboutAnotherObjectDoesNotCount(t *testing.T) {
	s := serve(t, 200, `{"data":[{"key":"somebody else's","id":"ch_9"}]}`)
	o := payments(s.URL)
	o.URL = s.URL + "/search?key={idempotencyKey}"
	o.Done = []Match{{Body: []Condition{{At: "/data/0/key", Equals: []string{"{idempotencyKey}"}}}}}
	if got := askOne(t, o, question("ours")); got.Findings[0].State != dlqbridge.EffectUnknown {
		t.Errorf("got %+v", got)
	}
	if got := askOne(t, o, question("somebody else's")); got.Findings[0].State != dlqbridge.EffectConfirmed {
		t.Errorf("got %+v", got)
	}
}

func TestBudget(t *testing.T) {
	s := serve(t, 200, `{"status":"succeeded"}`)
	o := payments(s.URL)
	at := now
	o.CallsPerMinute, o.Parallel, o.Now = 4, 1, func() time.Time { return at }
	r := open(t, o)
	asked := 0
	count := func() (used int) {
		for range 10 {
			asked++
			got := r.Ask(t.Context(), []dlqbridge.Question{question(strconv.Itoa(asked))})[0]
			switch got.Unavailable {
			case "":
				used++
			case "the budget of 4 calls a minute is used up":
			default:
				t.Fatal(got.Unavailable)
			}
		}
		return used
	}
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{0, 2}, {-time.Hour, 0}, {time.Hour, 0}, {30 * time.Second, 1}, {30 * time.Second, 1}, {time.Hour, 2}} {
		at = at.Add(step.after)
		if got := count(); got != step.want {
			t.Errorf("after %s: %d calls, want %d", step.after, got, step.want)
		}
	}
}

// No window of 60 seconds sees more than the budget.
func TestBudgetHoldsInEveryWindow(t *testing.T) {
	for _, perMinute := range []int{1, 2, 3, 7, 60} {
		b := newBudget(perMinute)
		var taken []time.Time
		for i := range 3000 {
			at := now.Add(time.Duration(i) * 137 * time.Millisecond)
			if b.take(at) {
				taken = append(taken, at)
			}
		}
		for i := range taken {
			if j := i + perMinute; j < len(taken) && taken[j].Sub(taken[i]) < time.Minute {
				t.Errorf("%d a minute: %d calls within %s", perMinute, perMinute+1, taken[j].Sub(taken[i]))
				break
			}
		}
		if len(taken) < perMinute*3 {
			t.Errorf("%d a minute: only %d calls in almost seven minutes", perMinute, len(taken))
		}
	}
}
