package stepfunctions_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/stepfunctions"
)

const arn = "arn:aws:states:us-east-1:123456789012:execution:billing:t-7"

// The executions of testdata start at 12:00:00.25; event n is n seconds later.
var (
	start = time.Date(2026, 12, 1, 12, 0, 0, 250e6, time.UTC)
	now   = start.Add(time.Hour)
)

func event(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }

type execution struct {
	Describe json.RawMessage   `json:"describe"`
	Events   []json.RawMessage `json:"events"`
}

func executions(t testing.TB) map[string]execution {
	t.Helper()
	text, err := os.ReadFile("testdata/executions.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]execution
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// fake is Step Functions with one execution. It answers in the process, so
// that time can stand still.
type fake struct {
	execution execution
	perPage   int
	// refuse is the error to answer an operation with; hang never answers.
	refuse map[string]string
	hang   bool
	calls  []string
}

func (f *fake) client() *sfn.Client {
	return sfn.New(sfn.Options{
		Region: "us-east-1", HTTPClient: f, Retryer: aws.NopRetryer{},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "a", SecretAccessKey: "b"}, nil
		}),
	})
}

// Do implements sfn.HTTPClient.
func (f *fake) Do(r *http.Request) (*http.Response, error) {
	if f.hang {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w.Result(), nil
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	operation := strings.TrimPrefix(r.Header.Get("X-Amz-Target"), "AWSStepFunctions.")
	f.calls = append(f.calls, operation)
	var in struct {
		ExecutionArn, NextToken string
		MaxResults              int
		IncludeExecutionData    *bool
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	code := f.refuse[operation]
	if code == "" && in.ExecutionArn != arn {
		code = "ExecutionDoesNotExist"
	}
	switch {
	case code != "":
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"__type":"com.amazonaws.swf.service.v2.model#%s","message":"refused"}`, code)
	case operation == "DescribeExecution":
		_, _ = w.Write(f.execution.Describe)
	case in.IncludeExecutionData == nil || *in.IncludeExecutionData || in.MaxResults != 1000:
		http.Error(w, "reads more or less than it should", http.StatusInternalServerError)
	default:
		from, _ := strconv.Atoi(in.NextToken)
		to := min(from+max(f.perPage, 1), len(f.execution.Events))
		page := map[string]any{"events": f.execution.Events[from:to]}
		if to < len(f.execution.Events) {
			page["nextToken"] = strconv.Itoa(to)
		}
		text, _ := json.Marshal(page)
		_, _ = w.Write(text)
	}
}

func ask(t testing.TB, o stepfunctions.Options, q dlqbridge.Question) dlqbridge.Testimony {
	t.Helper()
	s, err := stepfunctions.New(o)
	if err != nil {
		t.Fatal(err)
	}
	q.Now = now
	return s.Ask(t.Context(), []dlqbridge.Question{q})[0]
}

func fold(t dlqbridge.Testimony) dlqbridge.Effect {
	return dlqbridge.Fold(dlqbridge.FoldInput{Findings: t.Findings, Running: t.RunningUntil.After(now)}).State
}

// perTask names a task's execution by the task.
const perTask = "arn:aws:states:us-east-1:123456789012:execution:billing:{taskId}"

// Everything that a history can prove, and how it folds where the task has this
// one execution.
func TestWhatHistoriesProve(t *testing.T) {
	found := func(step string, state dlqbridge.Effect, proof dlqbridge.Proof, asOf time.Time, detail string) dlqbridge.Finding {
		f := dlqbridge.Finding{Store: "stepfunctions", Step: step, Run: arn, State: state, Proof: proof, AsOf: asOf, Detail: detail}
		if step == "*" {
			f.Run = ""
		}
		return f
	}
	noOther := found("*", "none_confirmed", "not_started", now, "the execution has ended, and no other state was begun")
	notWhole := found("*", "unknown", "nothing_found", now, "the execution has not ended, or its history is not whole")
	failure := func(step, code, message string) *dlqbridge.Failure {
		return &dlqbridge.Failure{Step: step, Code: code, Message: message, Attempts: []dlqbridge.Attempt{{Run: arn, At: event(100), Code: code}}}
	}
	completed := &dlqbridge.Completion{Store: "stepfunctions", Run: arn, At: event(100)}
	all := executions(t)
	for _, tc := range []struct {
		name     string
		mutating []string
		want     dlqbridge.Testimony
		effect   dlqbridge.Effect
	}{
		{"succeeded", nil, dlqbridge.Testimony{
			Findings:  []dlqbridge.Finding{found("00002#Charge", "confirmed", "system_read", event(5), "succeeded"), noOther},
			Completed: completed, TraceID: "1-5e3bc6f9-0123456789abcdef01234567",
		}, "confirmed"},
		{"failed_call", nil, dlqbridge.Testimony{
			Findings: []dlqbridge.Finding{found("00002#Charge", "unknown", "nothing_found", event(5), "failed: PaymentTimeout"), noOther},
			Failure:  failure("Charge", "PaymentTimeout", "payments did not answer"),
		}, "unknown"},
		{"timed_out", nil, dlqbridge.Testimony{
			Findings: []dlqbridge.Finding{found("00002#Charge", "unknown", "nothing_found", event(5), "begun, no end"), noOther},
			Failure:  failure("Charge", "States.Timeout", ""),
		}, "unknown"},
		{"aborted_started", nil, dlqbridge.Testimony{
			Findings: []dlqbridge.Finding{found("00002#Charge", "unknown", "nothing_found", event(4), "begun, no end"), noOther},
			Failure:  failure("Charge", "", ""),
		}, "unknown"},
		{"scheduled_only", nil, dlqbridge.Testimony{
			Findings: []dlqbridge.Finding{found("00002#Charge", "none_confirmed", "not_started", now, "scheduled, never started"), noOther},
			Failure:  failure("Charge", "operator", "stopped by hand"),
		}, "none_confirmed"},
		{"submit_refused", nil, dlqbridge.Testimony{
			Findings: []dlqbridge.Finding{found("00002#Charge", "none_confirmed", "not_started", now, "could not be started: ECS.AccessDeniedException"), noOther},
			Failure:  failure("Charge", "ECS.AccessDeniedException", "not allowed"),
		}, "none_confirmed"},
		{"submit_lost", nil, dlqbridge.Testimony{
			Findings: []dlqbridge.Finding{found("00002#Charge", "unknown", "nothing_found", event(5), "failed: ECS.ServerException"), noOther},
			Failure:  failure("Charge", "ECS.ServerException", "Service unavailable"),
		}, "unknown"},
		{"start_failed", nil, dlqbridge.Testimony{
			Findings: []dlqbridge.Finding{found("00002#Charge", "none_confirmed", "not_started", now, "could not be started: Lambda.TooManyRequestsException"), noOther},
			Failure:  failure("Charge", "Lambda.TooManyRequestsException", "rate"),
		}, "none_confirmed"},
		{"entered_only", nil, dlqbridge.Testimony{
			Findings: []dlqbridge.Finding{found("00004#Charge", "none_confirmed", "not_started", now, "entered, never scheduled"), noOther},
			Failure:  failure("", "States.Runtime", "no such path"),
		}, "none_confirmed"},
		{"retried", nil, dlqbridge.Testimony{
			Findings: []dlqbridge.Finding{
				found("00002#Charge", "confirmed", "system_read", event(8), "succeeded (attempt 2)"),
				found("00010#Mail", "unknown", "nothing_found", event(13), "failed: SMTP"), noOther,
			},
			Failure: failure("Mail", "SMTP", ""),
		}, "unknown"},
		{"retried", []string{"Charge"}, dlqbridge.Testimony{ // a mail that is not declared to be an effect
			Findings: []dlqbridge.Finding{found("00002#Charge", "confirmed", "system_read", event(8), "succeeded (attempt 2)"), noOther},
			Failure:  failure("Mail", "SMTP", ""),
		}, "confirmed"},
		{"retried", []string{}, dlqbridge.Testimony{
			Findings: []dlqbridge.Finding{noOther}, Failure: failure("Mail", "SMTP", ""),
		}, "none_confirmed"},
		{"retried_then_refused", nil, dlqbridge.Testimony{ // that the second attempt could not start says nothing about the first
			Findings: []dlqbridge.Finding{found("00002#Charge", "unknown", "nothing_found", event(7), "failed: Lambda.TooManyRequestsException (attempt 2)"), noOther},
			Failure:  failure("Charge", "Lambda.TooManyRequestsException", "rate"),
		}, "unknown"},
		{"running", nil, dlqbridge.Testimony{
			Findings:     []dlqbridge.Finding{found("00002#Charge", "unknown", "nothing_found", event(3), "not begun yet"), notWhole},
			RunningUntil: now.Add(15 * time.Minute),
		}, "unknown"},
		{"redriven_meanwhile", nil, dlqbridge.Testimony{
			Findings: []dlqbridge.Finding{
				found("00002#Charge", "unknown", "nothing_found", event(5), "failed: Payments"),
				found("00008#?", "unknown", "nothing_found", event(9), "begun, no end"), notWhole,
			},
			RunningUntil: now.Add(15 * time.Minute),
		}, "unknown"},
		{"redriven", nil, dlqbridge.Testimony{ // the call before the redrive stays in doubt
			Findings: []dlqbridge.Finding{
				found("00002#Charge", "unknown", "nothing_found", event(5), "failed: Payments"),
				found("00008#?", "confirmed", "system_read", event(10), "succeeded"), noOther,
			},
			Completed: completed,
		}, "unknown"},
		{"activity", nil, dlqbridge.Testimony{
			Findings: []dlqbridge.Finding{
				found("00002#Approve", "confirmed", "system_read", event(5), "succeeded"),
				found("00007#Charge", "unknown", "nothing_found", event(10), "failed: States.Timeout"), noOther,
			},
			Failure: failure("Charge", "States.Timeout", ""),
		}, "unknown"},
		{"distributed_map", nil, dlqbridge.Testimony{
			Findings: []dlqbridge.Finding{found("00002#All", "unknown", "nothing_found", event(5), "failed: States.ExceedToleratedFailureThreshold"), noOther},
			Failure:  failure("All", "States.ExceedToleratedFailureThreshold", "1 of 3"),
		}, "unknown"},
		{"gap", nil, dlqbridge.Testimony{Findings: []dlqbridge.Finding{notWhole}, Failure: failure("", "", "")}, "unknown"},
	} {
		t.Run(fmt.Sprintf("%s %v", tc.name, tc.mutating), func(t *testing.T) {
			f := &fake{execution: all[tc.name], perPage: 2}
			got := ask(t, stepfunctions.Options{Client: f.client(), Execution: perTask, Mutating: tc.mutating}, dlqbridge.Question{TaskID: "t-7"})
			tc.want.Store, tc.want.FirstAttempt = "stepfunctions", start
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if effect := fold(got); effect != tc.effect {
				t.Errorf("folds to %s, want %s", effect, tc.effect)
			}
		})
	}
}

// Each kind of call says the same by the same kind of event, whatever its events
// are called.
func TestEachKindOfCall(t *testing.T) {
	for _, tc := range []struct {
		events []string
		state  dlqbridge.Effect
		detail string
	}{
		{[]string{"TaskScheduled", "TaskFailed"}, "unknown", "failed: E"},
		{[]string{"TaskScheduled", "TaskSubmitted"}, "unknown", "begun, no end"},
		{[]string{"TaskScheduled", "TaskStartFailed"}, "none_confirmed", "could not be started: E"},
		{[]string{"TaskScheduled", "TaskSubmitFailed"}, "none_confirmed", "could not be started: E"},
		{[]string{"TaskScheduled", "TaskStarted", "TaskTimedOut"}, "unknown", "failed: E"},
		{[]string{"ActivityScheduled", "ActivityStarted"}, "unknown", "begun, no end"},
		{[]string{"ActivityScheduled", "ActivityStarted", "ActivityFailed"}, "unknown", "failed: E"},
		{[]string{"ActivityScheduled", "ActivityTimedOut"}, "unknown", "failed: E"},
		{[]string{"ActivityScheduleFailed"}, "none_confirmed", "could not be started: E"},
		{[]string{"LambdaFunctionScheduled", "LambdaFunctionStarted", "LambdaFunctionFailed"}, "unknown", "failed: E"},
		{[]string{"LambdaFunctionScheduled", "LambdaFunctionStarted", "LambdaFunctionSucceeded"}, "confirmed", "succeeded"},
		{[]string{"LambdaFunctionScheduled", "LambdaFunctionTimedOut"}, "unknown", "failed: E"},
		{[]string{"LambdaFunctionScheduled", "LambdaFunctionStartFailed"}, "none_confirmed", "could not be started: E"},
		{[]string{"LambdaFunctionScheduleFailed"}, "none_confirmed", "could not be started: E"},
		{[]string{"MapRunStarted", "MapRunSucceeded"}, "confirmed", "succeeded"},
		{[]string{"MapRunStarted", "MapRunFailed"}, "unknown", "failed: E"},
		{[]string{"MapRunStarted", "MapRunAborted"}, "unknown", "failed: no error named"},
		{[]string{"MapRunRedriven"}, "unknown", "begun, no end"},
		// An attempt that has no end when the next one is made never gets one.
		{[]string{"TaskScheduled", "TaskStarted", "TaskScheduled", "TaskStartFailed"}, "unknown", "failed: E (attempt 2)"},
	} {
		events := []json.RawMessage{
			json.RawMessage(`{"timestamp":1796126401,"type":"ExecutionStarted","id":1,"previousEventId":0}`),
			json.RawMessage(`{"timestamp":1796126402,"type":"TaskStateEntered","id":2,"previousEventId":0,"stateEnteredEventDetails":{"name":"Charge"}}`),
		}
		for _, kind := range append(tc.events, "ExecutionFailed") {
			n := len(events) + 1
			details := strings.ToLower(kind[:1]) + kind[1:] + "EventDetails"
			events = append(events, json.RawMessage(fmt.Sprintf(`{"timestamp":%d,"type":%q,"id":%d,"previousEventId":%d,%q:{"error":"E","cause":"C"}}`, 1796126400+n, kind, n, n-1, details)))
		}
		f := &fake{execution: execution{executions(t)["failed_call"].Describe, events}, perPage: 100}
		got := ask(t, stepfunctions.Options{Client: f.client(), Execution: perTask}, dlqbridge.Question{TaskID: "t-7"})
		if len(got.Findings) != 2 || got.Findings[0].State != tc.state || got.Findings[0].Detail != tc.detail {
			t.Errorf("%v: %+v", tc.events, got.Findings)
		}
		if effect := fold(got); effect != tc.state {
			t.Errorf("%v: folds to %s", tc.events, effect)
		}
	}
}

// A state that happens to be called * speaks for itself alone, whether it was
// begun or not.
func TestAStateNamedStarSpeaksForItselfAlone(t *testing.T) {
	for name, want := range map[string]dlqbridge.Effect{"scheduled_only": dlqbridge.EffectNone, "succeeded": dlqbridge.EffectConfirmed} {
		e := executions(t)[name]
		for i, raw := range e.Events {
			e.Events[i] = json.RawMessage(strings.ReplaceAll(string(raw), `"Charge"`, `"*"`))
		}
		got := ask(t, stepfunctions.Options{Client: (&fake{execution: e, perPage: 100}).client(), Execution: perTask}, dlqbridge.Question{TaskID: "t-7"})
		if got.Findings[0].Step != "00002#*" || got.Findings[0].State != want {
			t.Errorf("%s: %+v", name, got.Findings[0])
		}
		doubt := dlqbridge.Finding{Store: "ledger", Step: "0003#charge", State: dlqbridge.EffectUnknown, Proof: dlqbridge.ProofNothingFound, AsOf: event(2)}
		got.Findings = append(got.Findings, doubt)
		if effect := fold(got); effect != dlqbridge.EffectUnknown {
			t.Errorf("%s: folds to %s", name, effect)
		}
	}
}

// One execution of several says nothing about the others.
func TestTheExecutionOfOneRunSpeaksForThatRunOnly(t *testing.T) {
	f := &fake{execution: executions(t)["scheduled_only"], perPage: 100}
	got := ask(t, stepfunctions.Options{Client: f.client()}, dlqbridge.Question{TaskID: "t", RunID: arn})
	if effect := fold(got); effect != dlqbridge.EffectUnknown {
		t.Errorf("folds to %s", effect)
	}
	only := dlqbridge.Fold(dlqbridge.FoldInput{Findings: got.Findings, OnlyRun: arn}).State
	if only != dlqbridge.EffectNone {
		t.Errorf("the task's only run folds to %s", only)
	}
}

func TestSilenceIsUnknown(t *testing.T) {
	for _, tc := range []struct{ name, run, detail string }{
		{"past retention", strings.Replace(arn, "t-7", "old", 1), "no such execution; its history may be past retention"},
		{"no run id", "", "the task names no execution: Execution gives no ARN of a standard one"},
		{"a run id of another kind", "thread-1", "the task names no execution: Execution gives no ARN of a standard one"},
		{"an express execution", "arn:aws:states:us-east-1:123456789012:express:m:n:x", "the task names no execution: Execution gives no ARN of a standard one"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := &fake{execution: executions(t)["succeeded"]}
			got := ask(t, stepfunctions.Options{Client: f.client()}, dlqbridge.Question{TaskID: "t", RunID: tc.run})
			want := dlqbridge.Testimony{Store: "stepfunctions", Findings: []dlqbridge.Finding{{
				Store: "stepfunctions", Step: "*", State: "unknown", Proof: "nothing_found", AsOf: now, Detail: tc.detail,
			}}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if effect := fold(got); effect != dlqbridge.EffectUnknown {
				t.Errorf("folds to %s", effect)
			}
		})
	}
	t.Run("history gone between the two reads", func(t *testing.T) {
		f := &fake{execution: executions(t)["succeeded"], refuse: map[string]string{"GetExecutionHistory": "ExecutionDoesNotExist"}}
		got := ask(t, stepfunctions.Options{Client: f.client()}, dlqbridge.Question{RunID: arn})
		if len(got.Findings) != 1 || fold(got) != dlqbridge.EffectUnknown || got.Unavailable != "" {
			t.Errorf("%+v", got)
		}
	})
}

func TestAStoreThatCannotBeAskedIsUnavailable(t *testing.T) {
	for _, operation := range []string{"DescribeExecution", "GetExecutionHistory"} {
		for code, want := range map[string]string{
			"ThrottlingException":      "throttled",
			"AccessDeniedException":    "denied: needs states:DescribeExecution and states:GetExecutionHistory",
			"KmsAccessDeniedException": "denied: needs states:DescribeExecution and states:GetExecutionHistory",
			"InvalidArn":               "the execution does not take the call: is its ARN right, and its region the client's?",
			"ExpiredTokenException":    "credentials missing or expired",
			"":                         "no answer within 1m0s",
		} {
			t.Run(operation+" "+code, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { // tries again and waits in no time
					f := &fake{execution: executions(t)["succeeded"], refuse: map[string]string{operation: code}, hang: code == ""}
					got := ask(t, stepfunctions.Options{Client: f.client(), Timeout: time.Minute}, dlqbridge.Question{RunID: arn})
					if diff := cmp.Diff(dlqbridge.Testimony{Store: "stepfunctions", Unavailable: want}, got); diff != "" {
						t.Errorf("-want +got\n%s", diff)
					}
				})
			})
		}
	}
}

// A loop that went round a thousand times is told in few findings, and none of
// its doubts is lost.
func TestManyVisitsAreToldTogether(t *testing.T) {
	events := []json.RawMessage{json.RawMessage(`{"timestamp":1796126401,"type":"ExecutionStarted","id":1,"previousEventId":0}`)}
	add := func(format string, previous int) int {
		id := len(events) + 1
		events = append(events, json.RawMessage(fmt.Sprintf(`{"timestamp":1796126401,"id":%d,"previousEventId":%d,%s}`, id, previous, format)))
		return id
	}
	for i := range 500 {
		id := add(`"type":"TaskStateEntered","stateEnteredEventDetails":{"name":"Charge"}`, len(events))
		id = add(`"type":"TaskScheduled"`, id)
		id = add(`"type":"TaskStarted"`, id)
		if i != 250 {
			add(`"type":"TaskSucceeded"`, id)
		}
	}
	add(`"type":"ExecutionFailed"`, len(events))
	f := &fake{execution: execution{executions(t)["failed_call"].Describe, events}, perPage: 1000}
	got := ask(t, stepfunctions.Options{Client: f.client(), Execution: perTask}, dlqbridge.Question{TaskID: "t-7"})
	if len(got.Findings) != 3 || fold(got) != dlqbridge.EffectUnknown {
		t.Errorf("%+v", got.Findings)
	}
}

func TestOptionsThatCannotWorkAreRefusedByName(t *testing.T) {
	c := (&fake{}).client()
	for _, tc := range []struct {
		name string
		o    stepfunctions.Options
	}{
		{"Client", stepfunctions.Options{}},
		{"Execution", stepfunctions.Options{Client: c, Execution: arn}},
		{"Execution", stepfunctions.Options{Client: c, Execution: "{task}"}},
		{"Execution", stepfunctions.Options{Client: c, Execution: "billing:{taskId}"}},
		{"Mutating", stepfunctions.Options{Client: c, Mutating: []string{""}}},
	} {
		if _, err := stepfunctions.New(tc.o); err == nil || !strings.Contains(err.Error(), tc.name) {
			t.Errorf("%+v: %v", tc.o, err)
		}
	}
}

// Whatever a history holds: a call that was begun never folds to none_confirmed.
func FuzzHistory(f *testing.F) {
	for _, e := range executions(f) {
		text, err := json.Marshal(e.Events)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, "FAILED")
	}
	f.Fuzz(func(t *testing.T, text []byte, status string) {
		var events []json.RawMessage
		if json.Unmarshal(text, &events) != nil || len(events) > 100 {
			return
		}
		described, _ := json.Marshal(map[string]any{"executionArn": arn, "status": status})
		fake := &fake{execution: execution{described, events}, perPage: 1000}
		got := ask(t, stepfunctions.Options{Client: fake.client(), Execution: perTask, Timeout: time.Second}, dlqbridge.Question{TaskID: "t-7"})
		var decoded []struct{ Type string }
		if got.Unavailable != "" || json.Unmarshal(text, &decoded) != nil {
			return
		}
		begun := false
		for _, e := range decoded {
			switch e.Type {
			case "TaskStarted", "TaskSubmitted", "ActivityStarted", "LambdaFunctionStarted", "MapRunStarted", "TaskSucceeded", "TaskFailed":
				begun = true
			case "TaskSubmitFailed", "TaskStartFailed", "LambdaFunctionStartFailed", "LambdaFunctionScheduleFailed", "ActivityScheduleFailed":
				return // may end what was begun
			}
		}
		if begun && fold(got) == dlqbridge.EffectNone {
			t.Errorf("none_confirmed: %+v", got.Findings)
		}
	})
}
