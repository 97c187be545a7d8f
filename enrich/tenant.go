package enrich

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// WhyTenant is the rule where a store has the task for another tenant than the
// letter's. Task ids may be unique within a tenant only, so it may be somebody
// else's work.
const WhyTenant dlqbridge.Why = "tenant_differs"

// otherTenant is the tenant that a store names and that is not the letter's;
// empty where they agree, or one of them says nothing. A group id, or an account
// in a body, is our guess at what a sender meant, and contradicts nobody.
func otherTenant(letter *dlqbridge.Arrival, t *dlqbridge.Task) string {
	said := letter.Task.Tenant
	if t == nil || t.Tenant == "" || said == "" || t.Tenant == said {
		return ""
	}
	if by := letter.Provenance["tenant"]; strings.HasSuffix(by, selectorFairGroup) || strings.HasSuffix(by, selectorAccount) {
		return ""
	}
	return t.Tenant
}

// strangers takes from what stores with another tenant said all that could close
// a record, send it or undo something, and returns their tenants by store. What
// forbids stays: a run that may be going, a send that was seen, and a doubt where
// something was begun, which somebody who looks after it can end.
func strangers(now time.Time, letter *dlqbridge.Arrival, heard []dlqbridge.Testimony) map[string]string {
	var out map[string]string
	for i := range heard {
		t := &heard[i]
		tenant := otherTenant(letter, t.Task)
		if tenant == "" || t.Unavailable != "" {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[t.Store] = cut(tenant, maxName)
		said := dlqbridge.Finding{
			Store: t.Store, Step: dlqbridge.AllSteps, State: dlqbridge.EffectUnknown, Proof: dlqbridge.ProofNothingFound,
			AsOf: now, Detail: "it has this task for another tenant",
		}
		for _, f := range t.Findings {
			if f.State == dlqbridge.EffectNone || f.Step == dlqbridge.AllSteps && f.Proof == dlqbridge.ProofNothingFound {
				continue
			}
			if said.Proof == dlqbridge.ProofNothingFound {
				said.Proof, said.AsOf, said.Detail = dlqbridge.ProofSystemRead, f.AsOf, "it has this task for another tenant, and something of it was begun"
			}
			if f.AsOf.After(said.AsOf) {
				said.AsOf = f.AsOf
			}
		}
		*t = dlqbridge.Testimony{
			Store: t.Store, Findings: []dlqbridge.Finding{said}, RunningUntil: t.RunningUntil,
			SeenRedriveN: t.SeenRedriveN, SeenRun: t.SeenRun, Runs: t.Runs, AskAgain: t.AskAgain,
		}
	}
	return out
}

// strangeness is the contradiction in words.
func strangeness(letter *dlqbridge.Arrival, tenants map[string]string) string {
	store := slices.Min(slices.Collect(maps.Keys(tenants)))
	return fmt.Sprintf("%s has this task for tenant %q, and the letter is of tenant %q", title(store), dlqbridge.CutText(tenants[store], 128), dlqbridge.CutText(letter.Task.Tenant, 128))
}
