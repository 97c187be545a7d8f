package enrich_test

import (
	"maps"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awsdynamodb"
	"github.com/dlqbridge/dlqbridge/adapters/ledger"
	"github.com/dlqbridge/dlqbridge/enrich"
	"github.com/dlqbridge/dlqbridge/localstack"
)

// row is one ledger item as any language's SDK would write it.
type row map[string]any

func attribute(v any) types.AttributeValue {
	switch v := v.(type) {
	case string:
		return &types.AttributeValueMemberS{Value: v}
	case bool:
		return &types.AttributeValueMemberBOOL{Value: v}
	case row:
		m := map[string]types.AttributeValue{}
		for name, x := range v {
			m[name] = attribute(x)
		}
		return &types.AttributeValueMemberM{Value: m}
	}
	panic("no attribute")
}

// TestLedgerRowsInDecisionOut holds the whole way, ledger table to record,
// against what follows from each row.
func TestLedgerRowsInDecisionOut(t *testing.T) {
	const (
		none, confirmed, unknown = dlqbridge.EffectNone, dlqbridge.EffectConfirmed, dlqbridge.EffectUnknown
		looked, decide           = dlqbridge.StatusUnderInvestigation, dlqbridge.StatusAwaitingOperationalDecision
	)
	ago := func(d time.Duration) string { return dlqbridge.FormatTime(time.Now().Add(-d)) }
	header := func(more row) row {
		r := row{
			"entry": "task", "status": "failed", "run_id": "r1", "intent_before_call": true, "updated_at": ago(time.Hour),
			"last_error": row{"class": "timeout", "code": "ETIMEDOUT"},
		}
		maps.Copy(r, more)
		return r
	}
	step := func(status string, more row) row {
		r := row{
			"entry": "step#0003#charge", "step_id": "0003#charge", "run_id": "r1", "status": status, "tool": "charge_card",
			"started_at": ago(2 * time.Hour), "ended_at": ago(time.Hour),
		}
		maps.Copy(r, more)
		return r
	}
	cases := []struct {
		name   string
		rows   func() []row
		effect dlqbridge.Effect
		cause  dlqbridge.Cause
		status dlqbridge.Status
		action dlqbridge.Action
		route  func(*enrich.Route)
	}{
		{"no rows", func() []row { return nil }, unknown, dlqbridge.CauseUnclassified, looked, dlqbridge.ActionHumanReview, nil},
		{"no step begun", func() []row { return []row{header(nil)} }, none, dlqbridge.CauseTimeout, dlqbridge.StatusClassified, dlqbridge.ActionRetry, nil},
		{"no step begun, no promise", func() []row { return []row{header(row{"intent_before_call": false})} }, unknown, dlqbridge.CauseTimeout, looked, dlqbridge.ActionHumanReview, nil},
		{"planned", func() []row { return []row{header(nil), step("planned", nil)} }, none, dlqbridge.CauseTimeout, dlqbridge.StatusClassified, dlqbridge.ActionRetry, nil},
		{"started", func() []row { return []row{header(nil), step("started", nil)} }, unknown, dlqbridge.CauseAmbiguousEffect, looked, dlqbridge.ActionHumanReview, nil},
		{"ambiguous", func() []row { return []row{header(nil), step("ambiguous", nil)} }, unknown, dlqbridge.CauseAmbiguousEffect, looked, dlqbridge.ActionHumanReview, nil},
		{"succeeded without receipt", func() []row { return []row{header(nil), step("succeeded", nil)} }, unknown, dlqbridge.CauseAmbiguousEffect, looked, dlqbridge.ActionHumanReview, nil},
		{"failed", func() []row { return []row{header(nil), step("failed_permanent", nil)} }, unknown, dlqbridge.CauseAmbiguousEffect, looked, dlqbridge.ActionHumanReview, nil},
		{"failed, the tool says nothing changed", func() []row { return []row{header(nil), step("failed_permanent", row{"effect": "none"})} }, none, dlqbridge.CauseTimeout, dlqbridge.StatusClassified, dlqbridge.ActionRetry, nil},
		{"receipt", func() []row { return []row{header(nil), step("succeeded", row{"receipt": "ch_1"})} }, confirmed, dlqbridge.CauseTimeout, decide, dlqbridge.ActionCompensate, nil},
		{"already exists", func() []row { return []row{header(nil), step("already_exists", nil)} }, confirmed, dlqbridge.CauseTimeout, decide, dlqbridge.ActionCompensate, nil},
		{"no effect class", func() []row { return []row{header(nil), step("started", row{"effect_class": "none"})} }, none, dlqbridge.CauseTimeout, dlqbridge.StatusClassified, dlqbridge.ActionRetry, nil},
		{"rows per run: another run began it", func() []row {
			return []row{header(nil), step("started", row{"entry": "run#r0#0003#charge", "run_id": "r0"})}
		}, unknown, dlqbridge.CauseAmbiguousEffect, looked, dlqbridge.ActionHumanReview, nil},
		{"running", func() []row { return []row{header(row{"status": "running", "updated_at": ago(time.Minute)})} }, unknown, dlqbridge.CauseTimeout, looked, dlqbridge.ActionHumanReview, nil},
		{"running too long ago", func() []row { return []row{header(row{"status": "running"})} }, none, dlqbridge.CauseTimeout, dlqbridge.StatusClassified, dlqbridge.ActionRetry, nil},
		{"completed", func() []row {
			return []row{header(row{"status": "completed"}), step("succeeded", row{"receipt": "ch_1"})}
		}, confirmed, dlqbridge.CauseTimeout, dlqbridge.StatusCompleted, dlqbridge.ActionNone, nil},
		{"checkpoint after the receipt, resume", func() []row {
			return []row{header(row{"checkpoint": row{"ref": "s3://c", "step_id": "0003#charge", "run_id": "r1", "at": ago(time.Hour)}}), step("succeeded", row{"receipt": "ch_1"})}
		}, confirmed, dlqbridge.CauseTimeout, dlqbridge.StatusClassified, dlqbridge.ActionResume, func(r *enrich.Route) { r.Resume = true }},
		{"permission", func() []row { return []row{header(row{"last_error": row{"code": "ExpiredToken"}})} }, none, dlqbridge.CausePermission, dlqbridge.StatusAwaitingTechnicalOwner, dlqbridge.ActionRepair, nil},
		{"bad input", func() []row { return []row{header(row{"last_error": row{"class": "invalid_input"}})} }, none, dlqbridge.CauseInvalidInput, dlqbridge.StatusAwaitingInputCorrection, dlqbridge.ActionRepair, nil},
		{"turn limit", func() []row { return []row{header(row{"last_error": row{"code": "MaxTurnsExceeded"}})} }, none, dlqbridge.CausePolicyLimit, decide, dlqbridge.ActionRepair, nil},
		{"business rule", func() []row { return []row{header(row{"last_error": row{"class": "business_rule"}})} }, none, dlqbridge.CauseBusinessRule, decide, dlqbridge.ActionReject, nil},
		{"critical", func() []row { return []row{header(row{"last_error": row{"class": "critical"}})} }, none, dlqbridge.CauseCritical, dlqbridge.StatusIncidentOpen, dlqbridge.ActionHumanReview, nil},
		{"expired", func() []row { return []row{header(row{"valid_until": ago(time.Minute)})} }, none, dlqbridge.CauseTimeout, decide, dlqbridge.ActionReject, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				tables := dynamodb.NewFromConfig(w.AWSConfig())
				must(t, awsdynamodb.CreateTables(t.Context(), tables, awsdynamodb.TableNames{Ledger: "ledger"}))
				// Times in rows are made outside virtual time, so the cloud's clock moves there.
				ago = func(d time.Duration) string { return dlqbridge.FormatTime(w.Clock().Now().Add(-d)) }
				for _, r := range c.rows() {
					r["task_id"] = "t"
					_, err := tables.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: new("ledger"), Item: attribute(r).(*types.AttributeValueMemberM).Value})
					must(t, err)
				}
				w.send(task("t", ""))
				w.die()
				reader, err := ledger.NewReader(ledger.ReaderOptions{Client: tables, Table: "ledger"})
				must(t, err)
				r := w.route()
				r.Stores = []dlqbridge.Store{reader}
				if c.route != nil {
					c.route(&r)
				}
				o := w.options(w.ports())
				o.Places[0].Enricher = enricher(t, r)
				counts, err := w.intake(o)
				must(t, err)
				if counts.Records != 1 || w.depth(w.dlq) != 0 {
					t.Fatalf("counts: %+v", counts)
				}
				k := w.cases()["t"].Control
				if k.Effect != c.effect || k.Cause != c.cause || k.Status != c.status || k.Action != c.action {
					t.Errorf("got %s, %s, %s, %s; want %s, %s, %s, %s\n%v", k.Effect, k.Cause, k.Status, k.Action,
						c.effect, c.cause, c.status, c.action, enrich.Explain(w.cases()["t"], enrich.Around{}).Steps)
				}
			})
		})
	}
}

// A ledger that does not answer costs no letter and no hot loop: the records are
// held, say so, and are looked at again.
func TestLedgerDown(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tables := dynamodb.NewFromConfig(w.AWSConfig())
		must(t, awsdynamodb.CreateTables(t.Context(), tables, awsdynamodb.TableNames{Ledger: "ledger"}))
		w.send(tasks(12)...)
		w.die()
		w.fault(localstack.Fault{Service: "dynamodb", Operation: "Query", Do: localstack.DoBlackHole, Times: -1})
		reader, err := ledger.NewReader(ledger.ReaderOptions{Client: tables, Table: "ledger"})
		must(t, err)
		r := w.route()
		r.Stores = []dlqbridge.Store{reader}
		o := w.options(w.ports())
		o.Places[0].Enricher = enricher(t, r)
		counts, err := w.intake(o)
		must(t, err)
		w.ClearFaults()
		if want := (enrich.Counts{Letters: 12, Records: 12, Arrivals: 12}); counts != want {
			t.Errorf("counts: got %+v, want %+v", counts, want)
		}
		for key, c := range w.cases() {
			if k := c.Control; k.Effect != dlqbridge.EffectUnknown || k.RecheckAt.IsZero() || c.Contexts[0].Unavailable["ledger"] == "" {
				t.Errorf("%s: %+v, %v", key, k, c.Contexts[0].Unavailable)
			}
		}
	})
}

// At most 2.5 calls per letter with a ledger.
func TestCallsPerLetterWithLedger(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const n = 500
		tables := dynamodb.NewFromConfig(w.AWSConfig())
		must(t, awsdynamodb.CreateTables(t.Context(), tables, awsdynamodb.TableNames{Ledger: "ledger"}))
		reader, err := ledger.NewReader(ledger.ReaderOptions{Client: tables, Table: "ledger"})
		must(t, err)
		r := w.route()
		r.Stores = []dlqbridge.Store{reader}
		o := w.options(w.ports())
		o.Places[0].Enricher = enricher(t, r)
		w.fill(n)
		w.ForgetRequests()
		counts, err := w.intake(o)
		must(t, err)
		if per := float64(w.calls()) / n; counts.Records != n || per > 2.5 {
			t.Errorf("%+v, %.2f calls per letter: %v", counts, per, w.Counters().Calls)
		}
	})
}
