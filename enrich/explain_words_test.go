package enrich

import (
	"testing"

	"github.com/dlqbridge/dlqbridge"
)

// What has a name in the record has words in the explanation.
func TestEverythingHasWords(t *testing.T) {
	for _, e := range bodyEnvelopes {
		if envelopeNames[e.name] == "" {
			t.Errorf("envelope %s has no words", e.name)
		}
	}
	for _, e := range attributeEnvelopes {
		if envelopeNames[e.name] == "" {
			t.Errorf("envelope %s has no words", e.name)
		}
	}
	for _, why := range []dlqbridge.Why{
		dlqbridge.WhyCompleted, dlqbridge.WhyCritical, dlqbridge.WhyEffectUnknown, dlqbridge.WhyEffectConfirmed, dlqbridge.WhyExpired, dlqbridge.WhyCheckpoint,
		dlqbridge.WhyCoveredEffect, dlqbridge.WhyRetryable, dlqbridge.WhyFixable, dlqbridge.WhyUnrepeatable, dlqbridge.WhyUnclassified, dlqbridge.WhyNoFix,
		dlqbridge.WhyLinked, dlqbridge.WhyConflict, WhyLate, WhyIncident, WhyBare, WhyTenant, WhyCompensation,
	} {
		if len(decided(dlqbridge.Control{Why: why})) == 0 {
			t.Errorf("rule %s has no words", why)
		}
	}
	for _, r := range builtInRules {
		if causeWords(r.name+":x") == causeWords("") {
			t.Errorf("rule %s has no words", r.name)
		}
	}
}
