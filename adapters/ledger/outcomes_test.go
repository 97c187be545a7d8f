package ledger_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/ledger"
	"github.com/dlqbridge/dlqbridge/localstack"
)

// Whether tasks completed is said by few calls, and the same as Ask says.
func TestOutcomesOfManyTasksTakeFewCalls(t *testing.T) {
	w := newWorld(t)
	at := w.clock.Now()
	var questions []dlqbridge.Question
	for i := range 250 {
		task := fmt.Sprint("t-", i)
		fields := map[string]any{"status": []string{"completed", "failed", "running"}[i%3], "run_id": "run-2", "redrive_n": number(strconv.Itoa(i)), "updated_at": at}
		if i%2 == 0 {
			fields["redrive_record"] = "r_a"
		}
		switch {
		case i%5 == 0: // no entry at all
		case i%7 == 0: // steps only
			w.put(task, "step#0001#charge", map[string]any{"status": "succeeded", "receipt": "ch_1"})
		default:
			w.put(task, "task", fields)
		}
		for _, record := range []string{"r_a", "r_b"} {
			questions = append(questions, dlqbridge.Question{TaskID: task, Record: record, Now: at})
		}
	}
	questions = append(questions, dlqbridge.Question{Now: at}) // without a task id
	var want []*dlqbridge.Completion
	for _, answer := range w.reader().Ask(t.Context(), questions) {
		want = append(want, answer.Completed)
	}
	w.cloud.ForgetRequests()
	got, err := w.reader().Outcomes(t.Context(), questions)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(diff, err)
	}
	if calls := w.cloud.Counters().Calls["dynamodb"]; calls["BatchGetItem"] != 3 || len(calls) != 1 {
		t.Errorf("calls: %v", calls)
	}
}

// A header that names another tenant may be of somebody else's task under the
// same id: it completes nothing, unless it names the record itself.
func TestAnotherTenantsTaskCompletesNothing(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("acme", 100)
	for _, tt := range []struct {
		header, letter, record string
		want                   bool
	}{
		{"globex", "acme", "", false},
		{"globex", "acme", "r_other", false},
		{"globex", "acme", "r_a", true},
		{"acme", "acme", "", true},
		{"", "acme", "", true},
		{"globex", "", "", true},
		{long, dlqbridge.Short(long), "", true},
	} {
		fields := map[string]any{"status": "completed", "run_id": "run-2", "redrive_n": number("1")}
		for name, text := range map[string]string{"tenant": tt.header, "redrive_record": tt.record} {
			if text != "" {
				fields[name] = text
			}
		}
		w.put("t-1", "task", fields)
		got, err := w.reader().Outcomes(t.Context(), []dlqbridge.Question{{TaskID: "t-1", Record: "r_a", Tenant: tt.letter}})
		if err != nil || (got[0] != nil) != tt.want {
			t.Errorf("header of %.10q for record %q, letter of %.10q: %+v, %v", tt.header, tt.record, tt.letter, got, err)
		}
	}
}

// What is handed back is asked for again, and what cannot be read is an error:
// it must not look like a task that did not complete.
func TestOutcomesThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		questions := []dlqbridge.Question{{TaskID: "t-0"}, {TaskID: "t-1"}, {TaskID: "t-2"}}
		for _, q := range questions {
			w.put(q.TaskID, "task", map[string]any{"status": "completed", "run_id": "run-2"})
		}
		fault := func(f localstack.Fault) {
			t.Helper()
			f.Service, f.Operation = "dynamodb", "BatchGetItem"
			if _, err := w.cloud.AddFault(f); err != nil {
				t.Fatal(err)
			}
		}
		fault(localstack.Fault{Do: localstack.DoUnprocessed, Count: 2, Times: 1})
		got, err := w.reader().Outcomes(t.Context(), questions)
		if err != nil || got[0] == nil || got[1] == nil || got[2] == nil {
			t.Errorf("handed back: %v, %v", got, err)
		}
		fault(localstack.Fault{Do: localstack.DoError, Code: "AccessDeniedException", Status: 400, Times: 1})
		if got, err = w.reader().Outcomes(t.Context(), questions); !errors.Is(err, dlqbridge.ErrDenied) || got != nil {
			t.Errorf("denied: %v, %v", got, err)
		}
		fault(localstack.Fault{Do: localstack.DoBlackHole, Times: 1})
		began := time.Now()
		if got, err = w.reader().Outcomes(t.Context(), questions); err == nil || got != nil || time.Since(began) > 2*ledger.DefaultTimeout {
			t.Errorf("no answer: %v, %v after %s", got, err, time.Since(began))
		}
	})
}
