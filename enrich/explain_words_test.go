package enrich

import "testing"

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
	for _, r := range builtInRules {
		if causeWords(r.name+":x") == causeWords("") {
			t.Errorf("rule %s has no words", r.name)
		}
	}
}
