package ledger

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dlqbridge/dlqbridge"
)

// Whatever stands in a row: decoding never fails, a row about a step is never
// lost, and nothing but the promise and a proof makes none_confirmed.
func FuzzRows(f *testing.F) {
	f.Add("step#0003#charge", "started", "mutating", "none", "", "2026-01-02T03:04:05Z", byte(0), true)
	f.Add("run#r#0003", "failed_transient", "none", "none", "x", "later", byte(3), false)
	f.Add("steps#", "", "harmless", "NONE", "", "", byte(9), true)
	f.Fuzz(func(t *testing.T, entry, status, class, effect, receipt, at string, kind byte, promise bool) {
		value := func(s string) types.AttributeValue {
			switch kind % 5 {
			case 0:
				return &types.AttributeValueMemberN{Value: s}
			case 1:
				return &types.AttributeValueMemberL{Value: []types.AttributeValue{str(s)}}
			case 2:
				return &types.AttributeValueMemberM{Value: item{s: str(s)}}
			}
			return str(s)
		}
		row := item{
			KeyEntry: str(entry), "status": value(status), "effect_class": str(class), "effect": str(effect),
			"receipt": value(receipt), "started_at": value(at), "ended_at": str(at),
		}
		head := item{KeyEntry: str(EntryHeader), "status": str(TaskFailed), "intent_before_call": boolean(promise), "last_error": value(at), "checkpoint": value(at)}
		now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
		got := decodeRows([]map[string]types.AttributeValue{head, row}).testify(dlqbridge.Question{TaskID: "t", Now: now}, DefaultMaxRun)
		state := dlqbridge.Fold(dlqbridge.FoldInput{Findings: got.Findings}).State
		if entry == EntryHeader {
			return
		}
		proven := class == "none" || status == "planned" || effect == "none" && (status == "failed_transient" || status == "failed_permanent")
		if state == dlqbridge.EffectNone && (!promise || !proven) {
			t.Errorf("none_confirmed from %q: %+v", status, got.Findings)
		}
		for _, f := range got.Findings {
			if f.AsOf.After(now.Add(dlqbridge.DefaultSkew)) {
				t.Errorf("a finding speaks for the future: %+v", f)
			}
		}
	})
}
