package enrich

import "github.com/dlqbridge/dlqbridge"

// Regrouped is the control item of a record in the group that today's rules put
// its failure into; ok is false where the record's context is gone, since nothing
// else says how it failed. Only the signature is made anew, from what was known
// when the record was decided: no store is asked and no decision is touched.
func Regrouped(c dlqbridge.Case) (k dlqbridge.Control, ok bool) {
	k = c.Control
	x := c.Context(k.Context)
	if x == nil {
		return k, false
	}
	k.Signature, k.Signed.Rule = Signature(x.Task, x.Failure), SignatureRule
	return k, true
}
