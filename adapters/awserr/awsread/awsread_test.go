package awsread

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge"
)

// What went wrong becomes a sentence for a person, and only for the task that
// it went wrong for.
func TestAFailureIsUnavailableForItsTaskOnly(t *testing.T) {
	failures := map[string]error{
		"throttled": dlqbridge.ErrThrottled, "denied": dlqbridge.ErrDenied, "gone": dlqbridge.ErrNotFound,
		"credentials": dlqbridge.ErrCredentials, "invalid": dlqbridge.ErrInvalid, "lost": dlqbridge.ErrUnclear,
		"said": UnavailableError("the body is not at hand"), "odd": errors.New("odd"),
	}
	a := Asking{Store: "s", Place: "table x", Needs: "dynamodb:Query on table x", Refused: "is it the right one?", Parallel: 2}
	questions := []dlqbridge.Question{
		{TaskID: "fine"},
		{TaskID: "throttled"},
		{TaskID: "denied"},
		{TaskID: "gone"},
		{TaskID: "credentials"},
		{TaskID: "invalid"},
		{TaskID: "lost"},
		{TaskID: "said"},
		{TaskID: "odd"},
		{TaskID: "panic"},
	}
	var got []string
	for _, answer := range a.Ask(t.Context(), questions, func(_ context.Context, q dlqbridge.Question) (dlqbridge.Testimony, error) {
		if q.TaskID == "panic" {
			panic("odd row")
		}
		return dlqbridge.Testimony{}, failures[q.TaskID]
	}) {
		if answer.Store != "s" {
			t.Errorf("store is %q", answer.Store)
		}
		got = append(got, answer.Unavailable)
	}
	want := []string{
		"", "throttled", "denied: needs dynamodb:Query on table x", "table x does not exist", "credentials missing or expired",
		"table x does not take the call: is it the right one?", "cannot be reached", "the body is not at hand",
		"cannot be reached", "panic: odd row",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestTimeIsUpForEachTaskByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := Asking{Store: "s", Timeout: time.Second}
		hang := func(ctx context.Context, _ dlqbridge.Question) (dlqbridge.Testimony, error) {
			<-ctx.Done()
			return dlqbridge.Testimony{}, ctx.Err()
		}
		if got := a.Ask(t.Context(), make([]dlqbridge.Question, 1), hang)[0].Unavailable; got != "no answer within 1s" {
			t.Errorf("got %q", got)
		}
		stopped, cancel := context.WithCancel(t.Context())
		cancel()
		if got := a.Ask(stopped, make([]dlqbridge.Question, 1), hang)[0].Unavailable; got != "stopped before the store answered" {
			t.Errorf("got %q", got)
		}
	})
}

func TestValuesAsPlainOnesAndInWords(t *testing.T) {
	s := func(v string) types.AttributeValue { return &types.AttributeValueMemberS{Value: v} }
	for _, tc := range []struct {
		name  string
		value types.AttributeValue
		plain any
		text  string
	}{
		{"text", s("ch_1"), "ch_1", "ch_1"},
		{"number", &types.AttributeValueMemberN{Value: "7.5"}, 7.5, "7.5"},
		{"number that no float holds", &types.AttributeValueMemberN{Value: "12345678901234567890"}, json.Number("12345678901234567890"), "12345678901234567890"},
		{"bytes", &types.AttributeValueMemberB{Value: []byte{1}}, "AQ==", "AQ=="},
		{"boolean", &types.AttributeValueMemberBOOL{Value: true}, true, "true"},
		{"null", &types.AttributeValueMemberNULL{Value: true}, nil, ""},
		{"set", &types.AttributeValueMemberSS{Value: []string{"a", "b"}}, []any{"a", "b"}, "a b"},
		{"numbers", &types.AttributeValueMemberNS{Value: []string{"1"}}, []any{1.0}, "1"},
		{"byte strings", &types.AttributeValueMemberBS{Value: [][]byte{{1}}}, []any{"AQ=="}, "AQ=="},
		{"list", &types.AttributeValueMemberL{Value: []types.AttributeValue{s("a"), s("")}}, []any{"a", ""}, "a"},
		{"map", &types.AttributeValueMemberM{Value: Item{"b": s("2"), "a": s("1")}}, map[string]any{"a": "1", "b": "2"}, "a=1 b=2"},
		{"nothing", nil, nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := Plain(tc.value)
			if diff := cmp.Diff(tc.plain, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if text := Text(got); text != tc.text {
				t.Errorf("got %q, want %q", text, tc.text)
			}
		})
	}
}

func TestADoubtSpeaksForTheLastSignOfLife(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	worked := now.Add(-time.Hour)
	for _, tc := range []struct {
		name string
		q    dlqbridge.Question
		seen []time.Time
		want time.Time
	}{
		{"the latest that was seen", dlqbridge.Question{Now: now, LastActivity: worked}, []time.Time{worked.Add(-2), worked.Add(-1), {}}, worked.Add(-1)},
		{"one that cannot be true", dlqbridge.Question{Now: now, LastActivity: worked}, []time.Time{now.Add(time.Minute)}, worked},
		{"nothing seen", dlqbridge.Question{Now: now, LastActivity: worked}, nil, worked},
		{"nothing known", dlqbridge.Question{Now: now}, []time.Time{{}}, now},
	} {
		if got := LastSign(tc.q, tc.seen...); !got.Equal(tc.want) {
			t.Errorf("%s: %s", tc.name, got)
		}
	}
}
