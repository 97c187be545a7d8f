package powertools_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/powertools"
	"github.com/dlqbridge/dlqbridge/localstack"
	"github.com/dlqbridge/dlqbridge/localstack/tabletest"
)

const tableName = "idempotency"

// The records of testdata/records.json expire at 13:00:00, and their run ends at 12:01:00.
var (
	now     = time.Date(2026, 12, 1, 12, 45, 0, 0, time.UTC)
	expires = time.Unix(1796130000, 0).UTC()
	runEnds = time.UnixMilli(1796126460000).UTC()
)

type item = tabletest.Item

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// fixture is a record as real workers write it.
func fixture(t *testing.T, name string) item {
	t.Helper()
	text, err := os.ReadFile("testdata/records.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]map[string]map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	it := item{}
	for attribute, v := range all[name] {
		it[attribute] = value(t, v)
	}
	if len(it) == 0 {
		t.Fatalf("no fixture %s", name)
	}
	return it
}

func value(t *testing.T, v map[string]json.RawMessage) types.AttributeValue {
	t.Helper()
	for kind, raw := range v {
		if kind == "M" {
			var inner map[string]map[string]json.RawMessage
			if err := json.Unmarshal(raw, &inner); err != nil {
				t.Fatal(err)
			}
			m := &types.AttributeValueMemberM{Value: item{}}
			for name, e := range inner {
				m.Value[name] = value(t, e)
			}
			return m
		}
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			t.Fatal(err)
		}
		if kind == "N" {
			return &types.AttributeValueMemberN{Value: s}
		}
		return str(s)
	}
	return nil
}

type world struct {
	cloud  *localstack.Cloud
	client *dynamodb.Client
}

func newWorld(t *testing.T, sortKey string, items ...item) world {
	t.Helper()
	cloud, client := tabletest.New(t, tableName, "id", sortKey, items...)
	return world{cloud, client}
}

func (w world) options(change ...func(*powertools.Options)) powertools.Options {
	o := powertools.Options{
		Client: w.client, Table: tableName, Runtime: powertools.Python, Prefix: "billing-fn.handler",
		EventKeyJMESPath: "powertools_json(body).order_id",
	}
	for _, c := range change {
		c(&o)
	}
	return o
}

func ask(t *testing.T, o powertools.Options, body string) dlqbridge.Testimony {
	t.Helper()
	s, err := powertools.New(o)
	if err != nil {
		t.Fatal(err)
	}
	got := s.Ask(t.Context(), []dlqbridge.Question{{TaskID: "t", MessageID: "m", Payload: &dlqbridge.Payload{Body: []byte(body)}, Now: now}})
	if len(got) != 1 {
		t.Fatalf("%d answers", len(got))
	}
	return got[0]
}

func fold(t dlqbridge.Testimony, others ...dlqbridge.Finding) dlqbridge.Effect {
	return dlqbridge.Fold(dlqbridge.FoldInput{Findings: append(others, t.Findings...), Running: t.RunningUntil.After(now)}).State
}

const order7 = `{"order_id": 7}`

func with(it item, name string, v types.AttributeValue) item {
	it[name] = v
	return it
}

// Everything that a record can prove, and how it folds.
func TestWhatRecordsProve(t *testing.T) {
	receipt := func(s string) *string { return &s }
	whole := func(state dlqbridge.Effect, proof dlqbridge.Proof, asOf time.Time, receipt *string, detail string) []dlqbridge.Finding {
		return []dlqbridge.Finding{{Store: "powertools", Step: "*", State: state, Proof: proof, AsOf: asOf, Receipt: receipt, Detail: detail}}
	}
	sorted := func(o *powertools.Options) {
		o.Runtime, o.Prefix, o.SortKeyAttr, o.StaticPKValue = powertools.TypeScript, "billing-fn", "sortKey", "idempotency#billing-fn"
	}
	validated := func(o *powertools.Options) { o.PayloadValidationJMESPath = "powertools_json(body).amount" }
	for _, tc := range []struct {
		name    string
		items   []item
		sortKey string
		change  func(*powertools.Options)
		body    string
		want    dlqbridge.Testimony
		effect  dlqbridge.Effect
	}{
		{
			name: "completed, Python", items: []item{fixture(t, "python_completed")},
			want:   dlqbridge.Testimony{Findings: whole("confirmed", "receipt", now, receipt(`{"amount":12.5,"charge":"ch_1"}`), "COMPLETED")},
			effect: "confirmed",
		},
		{
			name: "completed, TypeScript with a sort key", items: []item{fixture(t, "typescript_completed")}, sortKey: "sortKey", change: sorted,
			want:   dlqbridge.Testimony{Findings: whole("confirmed", "receipt", now, receipt(`{"amount":12.5,"charge":"ch_1"}`), "COMPLETED")},
			effect: "confirmed",
		},
		{
			name: "receipt selected", items: []item{fixture(t, "python_completed")}, change: func(o *powertools.Options) { o.ReceiptJMESPath = "charge" },
			want: dlqbridge.Testimony{Findings: whole("confirmed", "receipt", now, receipt("ch_1"), "COMPLETED")}, effect: "confirmed",
		},
		{
			name: "completed without a response", items: []item{with(fixture(t, "python_completed"), "data", str("null"))},
			want: dlqbridge.Testimony{Findings: whole("confirmed", "receipt", now, nil, "COMPLETED")}, effect: "confirmed",
		},
		{
			name: "completed, for one step", items: []item{fixture(t, "python_completed")},
			change: func(o *powertools.Options) { o.Step, o.ReceiptJMESPath = "0003#charge", "charge" },
			want: dlqbridge.Testimony{Findings: append(
				[]dlqbridge.Finding{{Store: "powertools", Step: "0003#charge", State: "confirmed", Proof: "receipt", AsOf: now, Receipt: receipt("ch_1"), Detail: "COMPLETED"}},
				whole("unknown", "nothing_found", now, nil, "the table knows this one step only")...)},
			effect: "unknown",
		},
		{
			name: "in progress, its time is up", items: []item{fixture(t, "python_in_progress")},
			want: dlqbridge.Testimony{
				Findings:     whole("unknown", "system_read", runEnds, nil, "INPROGRESS: begun, no end noted"),
				RunningUntil: runEnds,
			},
			effect: "unknown",
		},
		{
			name: "in progress, without saying until when", items: []item{fixture(t, "python_in_progress_unbounded")},
			want: dlqbridge.Testimony{
				Findings:     whole("unknown", "system_read", now, nil, "INPROGRESS: begun, no end noted"),
				RunningUntil: expires.Add(-45 * time.Minute),
			},
			effect: "unknown",
		},
		{
			name: "in progress until a time that no run reaches", items: []item{with(fixture(t, "python_in_progress"), "in_progress_expiration", &types.AttributeValueMemberN{Value: "9999999999999"})},
			want: dlqbridge.Testimony{
				Findings:     whole("unknown", "system_read", now, nil, "INPROGRESS: begun, no end noted"),
				RunningUntil: now.Add(15 * time.Minute),
			},
			effect: "unknown",
		},
		{
			name: "in progress without any time", items: []item{with(with(fixture(t, "python_in_progress"), "in_progress_expiration", str("soon")), "expiration", &types.AttributeValueMemberN{Value: "-1"})},
			want: dlqbridge.Testimony{
				Findings:     whole("unknown", "system_read", now, nil, "INPROGRESS: begun, no end noted"),
				RunningUntil: now.Add(15 * time.Minute),
			},
			effect: "unknown",
		},
		{
			name: "expired", items: []item{with(fixture(t, "python_completed"), "expiration", &types.AttributeValueMemberN{Value: "1796126400.5"})},
			want: dlqbridge.Testimony{Findings: whole("unknown", "system_read", time.UnixMilli(1796126400500).UTC(), nil,
				`COMPLETED, expired 2026-12-01T12:00:00.500Z, so it may be of an earlier operation; its response: {"amount":12.5,"charge":"ch_1"}`)},
			effect: "unknown",
		},
		{
			name: "never expires", items: []item{with(fixture(t, "python_completed"), "expiration", str("never"))},
			want: dlqbridge.Testimony{Findings: whole("unknown", "system_read", now, nil, "COMPLETED, without a time it expires at")}, effect: "unknown",
		},
		{
			name: "a status that Powertools does not write", items: []item{with(fixture(t, "python_completed"), "status", str("EXPIRED"))},
			want: dlqbridge.Testimony{Findings: whole("unknown", "system_read", now, nil, `status "EXPIRED" is not known`)}, effect: "unknown",
		},
		{
			name: "the same input, validated", items: []item{with(fixture(t, "python_completed"), "validation", str("f899139df5e1059396431415e770c6dd"))}, // md5 of 100
			change: func(o *powertools.Options) { validated(o); o.ReceiptJMESPath = "charge" }, body: `{"order_id": 7, "amount": 100}`,
			want: dlqbridge.Testimony{Findings: whole("confirmed", "receipt", now, receipt("ch_1"), "COMPLETED")}, effect: "confirmed",
		},
		{
			name: "another input under the same key", items: []item{with(fixture(t, "python_completed"), "validation", str("f899139df5e1059396431415e770c6dd"))},
			change: validated, body: `{"order_id": 7, "amount": 101}`,
			want:   dlqbridge.Testimony{Findings: whole("unknown", "system_read", now, nil, "the key was used with another input: the validation hash differs")},
			effect: "unknown",
		},
		{
			name: "validated, and we do not know how", items: []item{with(fixture(t, "python_completed"), "validation", str("f899139df5e1059396431415e770c6dd"))},
			want: dlqbridge.Testimony{Findings: whole("unknown", "system_read", now, nil,
				"the record has a validation hash and no PayloadValidationJMESPath is set, so nobody can say whose input it is")},
			effect: "unknown",
		},
		{
			name:   "silence",
			want:   dlqbridge.Testimony{Findings: whole("unknown", "nothing_found", now, nil, "no record under the key of this message")},
			effect: "unknown",
		},
		{
			name: "a message without the key", items: []item{fixture(t, "python_completed")}, body: `{"order": 7}`,
			want:   dlqbridge.Testimony{Findings: whole("unknown", "nothing_found", now, nil, "no key: EventKeyJMESPath finds nothing in this message, so it ran unprotected")},
			effect: "unknown",
		},
		{
			name: "a key expression that breaks on this message", body: `{"order_id": {"a": 1}}`,
			change: func(o *powertools.Options) { o.EventKeyJMESPath = "powertools_json(body).order_id.abs(@)" },
			want:   dlqbridge.Testimony{Findings: whole("unknown", "nothing_found", now, nil, "no key: EventKeyJMESPath does not work on this message")},
			effect: "unknown",
		},
		{
			name: "a key that is not valid text", items: []item{fixture(t, "python_completed")}, body: "{\"order_id\": \"a\xffb\"}",
			want:   dlqbridge.Testimony{Findings: whole("unknown", "nothing_found", now, nil, "no key: the selected value is not valid text")},
			effect: "unknown",
		},
		{
			name: "a validation expression that breaks on this message", items: []item{fixture(t, "python_completed")},
			change: func(o *powertools.Options) { o.PayloadValidationJMESPath = "abs(body)" },
			want:   dlqbridge.Testimony{Findings: whole("unknown", "nothing_found", now, nil, "no validation hash: PayloadValidationJMESPath does not work on this message")},
			effect: "unknown",
		},
		{
			name: "a body that is no JSON", change: func(o *powertools.Options) { o.Input = powertools.InputBody }, body: `order 7`,
			want: dlqbridge.Testimony{Findings: whole("unknown", "nothing_found", now, nil, "no key: the body is not JSON")}, effect: "unknown",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, tc.sortKey, tc.items...)
			change := tc.change
			if change == nil {
				change = func(*powertools.Options) {}
			}
			if tc.body == "" {
				tc.body = order7
			}
			got := ask(t, w.options(change), tc.body)
			tc.want.Store = "powertools"
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if effect := fold(got); effect != tc.effect {
				t.Errorf("folds to %s, want %s", effect, tc.effect)
			}
		})
	}
}

// A doubt is not silence: another store's proof that nothing was begun does not
// fill it, and a person's word of later does.
func TestADoubtIsNotFilledByAProofOfAbsence(t *testing.T) {
	notBegun := dlqbridge.Finding{Store: "ledger", Step: "*", State: dlqbridge.EffectNone, Proof: dlqbridge.ProofNotStarted, AsOf: now}
	looked := dlqbridge.Finding{Store: "operator", Step: "*", State: dlqbridge.EffectNone, Proof: dlqbridge.ProofOperator, AsOf: now.Add(time.Second)}
	doubt := ask(t, newWorld(t, "", fixture(t, "python_in_progress")).options(), order7)
	if got := fold(doubt, notBegun); got != dlqbridge.EffectUnknown {
		t.Errorf("INPROGRESS and nothing begun: %s", got)
	}
	if got := fold(doubt, looked); got != dlqbridge.EffectNone {
		t.Errorf("INPROGRESS and somebody looked: %s", got)
	}
	silence := ask(t, newWorld(t, "").options(), order7)
	if got := fold(silence, notBegun); got != dlqbridge.EffectNone {
		t.Errorf("silence and nothing begun: %s", got)
	}
}

func TestAStoreThatCannotBeAskedIsUnavailable(t *testing.T) {
	for _, tc := range []struct {
		name  string
		fault localstack.Fault
		table string
		want  string
	}{
		{"throttled", localstack.Fault{Do: "throttle", Times: -1}, tableName, "throttled"},
		{"denied", localstack.Fault{Do: "error", Code: "AccessDeniedException", Times: -1}, tableName, "denied: needs dynamodb:GetItem on table idempotency"},
		{"expired credentials", localstack.Fault{Do: "error", Code: "ExpiredTokenException", Times: -1}, tableName, "credentials missing or expired"},
		{"no answer", localstack.Fault{Do: "black_hole", Times: -1}, tableName, "no answer within 1m0s"},
		{"cut off, then fine", localstack.Fault{Do: "drop_after", Times: 1}, tableName, ""},
		{"gone", localstack.Fault{}, "elsewhere", "table elsewhere does not exist"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // tries again and waits in no time
				w := newWorld(t, "", fixture(t, "python_completed"))
				tc.fault.Service, tc.fault.Operation = "dynamodb", "GetItem"
				if tc.fault.Do != "" {
					if _, err := w.cloud.AddFault(tc.fault); err != nil {
						t.Fatal(err)
					}
				}
				got := ask(t, w.options(func(o *powertools.Options) { o.Table, o.Timeout = tc.table, time.Minute }), order7)
				if got.Unavailable != tc.want || (tc.want == "") != (len(got.Findings) == 1) {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}

func TestWithoutTheMessageThereIsNoKey(t *testing.T) {
	s, err := powertools.New(newWorld(t, "").options())
	if err != nil {
		t.Fatal(err)
	}
	got := s.Ask(t.Context(), []dlqbridge.Question{{TaskID: "t", Now: now}})
	want := []dlqbridge.Testimony{{Store: "powertools", Unavailable: "the message is not at hand, and the key is made from it"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestOptionsThatCannotWorkAreRefusedByName(t *testing.T) {
	w := newWorld(t, "")
	for _, tc := range []struct {
		name   string
		change func(*powertools.Options)
	}{
		{"Client", func(o *powertools.Options) { o.Client = nil }},
		{"Table", func(o *powertools.Options) { o.Table = "" }},
		{"Runtime", func(o *powertools.Options) { o.Runtime = "java" }},
		{"Prefix", func(o *powertools.Options) { o.Prefix = "" }},
		{"Input", func(o *powertools.Options) { o.Input = "records" }},
		{"EventKeyJMESPath", func(o *powertools.Options) { o.EventKeyJMESPath = "" }},
		{"EventKeyJMESPath", func(o *powertools.Options) { o.EventKeyJMESPath = "a b" }},
		{"PayloadValidationJMESPath", func(o *powertools.Options) { o.PayloadValidationJMESPath = "[" }},
		{"ReceiptJMESPath", func(o *powertools.Options) { o.ReceiptJMESPath = "[" }},
		{"HashFunction", func(o *powertools.Options) { o.HashFunction = "crc32" }},
		{"SortKeyAttr", func(o *powertools.Options) { o.SortKeyAttr = "id" }},
		{"StaticPKValue", func(o *powertools.Options) { o.SortKeyAttr = "sk" }},
		{"StaticPKValue", func(o *powertools.Options) { o.StaticPKValue = "x" }},
	} {
		_, err := powertools.New(w.options(tc.change))
		if err == nil || !strings.Contains(err.Error(), tc.name) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// Whatever stands in a record: it never proves that nothing happened.
func FuzzRecord(f *testing.F) {
	f.Add("COMPLETED", "1796130000", "1796126460000", `{"charge": "ch_1"}`, "", byte(0))
	f.Add("INPROGRESS", "NaN", "-1", "", "x", byte(1))
	f.Add("", "1e400", "1e300", "[", "", byte(2))
	f.Fuzz(func(t *testing.T, status, expires, until, data, validation string, kind byte) {
		it := item{
			"status": str(status), "expiration": &types.AttributeValueMemberN{Value: expires},
			"in_progress_expiration": &types.AttributeValueMemberN{Value: until}, "validation": str(validation),
			"data": []types.AttributeValue{str(data), &types.AttributeValueMemberN{Value: data}, &types.AttributeValueMemberM{Value: item{data: str(data)}}}[kind%3],
		}
		got := ask(t, powertools.Options{
			Client: answering{it}, Table: "x", Runtime: powertools.Python, Prefix: "p", EventKeyJMESPath: "messageId", ReceiptJMESPath: []string{"", "charge"}[kind%2],
		}, "")
		if len(got.Findings) != 1 || got.Findings[0].State == dlqbridge.EffectNone || fold(got) == dlqbridge.EffectNone {
			t.Errorf("%+v", got)
		}
		if at := got.Findings[0].AsOf; at.After(now.Add(dlqbridge.DefaultSkew)) || got.RunningUntil.After(now.Add(15*time.Minute)) {
			t.Errorf("speaks for the future: %+v", got)
		}
	})
}

// answering answers with one item.
type answering struct{ item item }

func (a answering) GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return &dynamodb.GetItemOutput{Item: a.item}, nil
}
