package config

import (
	"net/netip"
	"strings"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/langgraph"
	"github.com/dlqbridge/dlqbridge/adapters/openaiagents"
	"github.com/dlqbridge/dlqbridge/adapters/powertools"
	"github.com/dlqbridge/dlqbridge/adapters/reconcile"
	"github.com/dlqbridge/dlqbridge/adapters/stepfunctions"
	"github.com/dlqbridge/dlqbridge/adapters/tablestore"
)

// Settings become the options of the stores' packages here, once, so that what
// is checked at the start is what is asked with. Clients and bounds of time are
// the caller's.

// Options are those of package powertools.
func (p Powertools) Options(name string) powertools.Options {
	return powertools.Options{
		Name: name, Table: p.Table, Runtime: powertools.Runtime(p.Runtime), Prefix: p.Prefix, Input: powertools.Input(p.Input),
		EventKeyJMESPath: p.EventKeyJMESPath, PayloadValidationJMESPath: p.PayloadValidationJMESPath, HashFunction: p.HashFunction,
		KeyAttr: p.KeyAttr, StatusAttr: p.StatusAttr, ExpiryAttr: p.ExpiryAttr, InProgressExpiryAttr: p.InProgressExpiryAttr,
		DataAttr: p.DataAttr, ValidationKeyAttr: p.ValidationKeyAttr, SortKeyAttr: p.SortKeyAttr, StaticPKValue: p.StaticPKValue,
		ReceiptJMESPath: p.ReceiptJMESPath, Step: p.Step, ExpiresAfter: time.Duration(p.ExpiresAfter), MaxRun: time.Duration(p.MaxRun),
	}
}

// Options are those of package langgraph.
func (l LangGraph) Options(name string) langgraph.Options {
	return langgraph.Options{Name: name, Table: l.Table, Thread: l.Thread, Mutating: l.Mutating}
}

// Options are those of package tablestore.
func (t DynamoDBTable) Options(name string) tablestore.Options {
	o := tablestore.Options{
		Name: name, Table: t.Table, Hash: tablestore.Key(t.Hash), Fields: tablestore.Fields(t.Fields),
		Confirmed: t.Confirmed, ConfirmedNeedsReceipt: t.ConfirmedNeedsReceipt, Running: t.Running, MaxRun: time.Duration(t.MaxRun),
	}
	if t.Range != nil {
		o.Range = tablestore.Key(*t.Range)
	}
	if n := t.None; n != nil {
		o.None = tablestore.None{Status: n.Status, Because: n.Because, Proof: dlqbridge.Proof(n.Proof), Settled: time.Duration(n.Settled)}
	}
	return o
}

// Options are those of package openaiagents.
func (a OpenAIAgents) Options(name string) openaiagents.Options {
	o := openaiagents.Options{
		Name: name, Table: a.Table, Hash: openaiagents.Key(a.Hash), State: a.State, Updated: a.Updated, Mutating: a.Mutating,
		SavedBeforeEachCall: strings.TrimSpace(a.SavedBeforeEachCall), MaxRun: time.Duration(a.MaxRun),
	}
	if a.Range != nil {
		o.Range = openaiagents.Key(*a.Range)
	}
	return o
}

// Options are those of package stepfunctions.
func (s StepFunctions) Options(name string) stepfunctions.Options {
	return stepfunctions.Options{Name: name, Execution: s.Execution, Mutating: s.Mutating, Recheck: time.Duration(s.Recheck)}
}

// Options are those of package reconcile. An address that is none is left out:
// validation has named it.
func (r Reconcile) Options(name string) reconcile.Options {
	o := reconcile.Options{
		Name: name, Step: r.Step, Method: r.Method, URL: string(r.URL), Body: r.Body, Headers: map[string]string{},
		Done: matches(r.Done), NotDone: matches(r.NotDone), Unknown: matches(r.Unknown), Receipt: r.Receipt,
		Authoritative: r.Authoritative, ConsistencyDelay: time.Duration(r.ConsistencyDelay), Timeout: time.Duration(r.Timeout),
		CallsPerMinute: r.CallsPerMinute, MaxAnswer: r.MaxAnswerBytes, Parallel: r.Parallel,
	}
	for k, v := range r.Headers {
		o.Headers[k] = string(v)
	}
	for _, a := range r.AllowAddresses {
		if p, err := netip.ParsePrefix(a); err == nil {
			o.AllowAddresses = append(o.AllowAddresses, p)
		}
	}
	return o
}

func matches(in []Match) []reconcile.Match {
	var out []reconcile.Match
	for _, m := range in {
		one := reconcile.Match{Status: m.Status}
		for _, c := range m.Body {
			one.Body = append(one.Body, reconcile.Condition(c))
		}
		out = append(out, one)
	}
	return out
}
