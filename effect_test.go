package dlqbridge

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"
)

var (
	t0 = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	t1 = t0.Add(time.Minute)
	t2 = t0.Add(2 * time.Minute)
)

func finding(step, run string, state Effect, proof Proof, asOf time.Time) Finding {
	return Finding{Store: "test", Step: step, Run: run, State: state, Proof: proof, AsOf: asOf}
}

func TestFold(t *testing.T) {
	othersNotStarted := finding(AllSteps, "", EffectNone, ProofNotStarted, t2)
	nothingFound := finding(AllSteps, "", EffectUnknown, ProofNothingFound, t2)
	charged := finding("0003#charge", "r1", EffectConfirmed, ProofReceipt, t0)
	started := finding("0003#charge", "r1", EffectUnknown, ProofSystemRead, t1)
	declared := finding(AllSteps, "", EffectNone, ProofDeclared, t2)
	personYes := finding("0003#charge", "", EffectConfirmed, ProofOperator, t2)
	personNo := finding("0003#charge", "", EffectNone, ProofOperator, t2)
	allButCharge := func(state Effect) Finding {
		f := finding(AllSteps, "", state, ProofOperator, t2)
		f.Except = []string{"0003#charge"}
		return f
	}
	workerNone := finding(AllSteps, "r1", EffectNone, ProofWorkerStatement, t1)

	for _, tt := range []struct {
		name string
		in   FoldInput
		want Effect
	}{
		{"no findings at all is silence", FoldInput{}, EffectUnknown},
		{"nothing found proves nothing", FoldInput{Findings: []Finding{nothingFound}}, EffectUnknown},
		{"a negative that rests on nothing found is no proof", FoldInput{Findings: []Finding{finding(AllSteps, "", EffectNone, ProofNothingFound, t2)}}, EffectUnknown},
		{"intent before call and no rows", FoldInput{Findings: []Finding{othersNotStarted}}, EffectNone},
		{"a planned step and intent before call", FoldInput{Findings: []Finding{finding("a", "r1", EffectNone, ProofNotStarted, t1), othersNotStarted}}, EffectNone},
		{"a receipt and intent before call", FoldInput{Findings: []Finding{charged, othersNotStarted}}, EffectConfirmed},
		{"a receipt without intent before call leaves the other steps unknown", FoldInput{Findings: []Finding{charged, nothingFound}}, EffectUnknown},
		{"a started step", FoldInput{Findings: []Finding{started, othersNotStarted}}, EffectUnknown},
		{"one step confirmed and another unknown", FoldInput{Findings: []Finding{charged, finding("0004#mail", "r1", EffectUnknown, ProofSystemRead, t1), othersNotStarted}}, EffectUnknown},
		{"started in one run, not started in another", FoldInput{Findings: []Finding{started, finding("0003#charge", "r2", EffectNone, ProofNotStarted, t2), othersNotStarted}}, EffectUnknown},
		{"a receipt in one run does not clear another run's doubt", FoldInput{Findings: []Finding{started, finding("0003#charge", "r2", EffectConfirmed, ProofReceipt, t2), othersNotStarted}}, EffectUnknown},
		{"a receipt ends the doubt about its own step and run", FoldInput{Findings: []Finding{started, charged, othersNotStarted}}, EffectConfirmed},
		{"two stores disagree", FoldInput{Findings: []Finding{charged, finding("0003#charge", "r1", EffectNone, ProofSystemRead, t2), othersNotStarted}}, EffectUnknown},
		{"the tool itself asserts that nothing changed", FoldInput{Findings: []Finding{finding("a", "r1", EffectNone, ProofSystemRead, t1), othersNotStarted}}, EffectNone},

		{"an operator settles a doubt afterwards", FoldInput{Findings: []Finding{started, finding("0003#charge", "", EffectNone, ProofOperator, t2), othersNotStarted}}, EffectNone},
		{"an operator settles all steps", FoldInput{Findings: []Finding{started, finding(AllSteps, "", EffectNone, ProofOperator, t2)}}, EffectNone},
		{"an operator confirms all steps", FoldInput{Findings: []Finding{started, finding(AllSteps, "", EffectConfirmed, ProofOperator, t2), nothingFound}}, EffectConfirmed},
		{"an operator's positive from before a later run's doubt does not end it", FoldInput{Findings: []Finding{finding("0003#charge", "", EffectConfirmed, ProofOperator, t0), started, othersNotStarted}}, EffectUnknown},
		{"an operator's word from before the doubt does not end it", FoldInput{Findings: []Finding{finding("0003#charge", "", EffectNone, ProofOperator, t0), started, othersNotStarted}}, EffectUnknown},
		{"an operator's negative from before the last send is stale", FoldInput{Findings: []Finding{finding(AllSteps, "", EffectNone, ProofOperator, t0), nothingFound}, LastSend: t1}, EffectUnknown},
		{"an operator's positive from before the last send stays", FoldInput{Findings: []Finding{finding("a", "", EffectConfirmed, ProofOperator, t0), othersNotStarted}, LastSend: t1}, EffectConfirmed},
		{"a reconciler's negative at the very time of the send is stale", FoldInput{Findings: []Finding{finding(AllSteps, "", EffectNone, ProofSystemRead, t1)}, LastSend: t1}, EffectUnknown},
		{"a reconciler's negative after the last send counts", FoldInput{Findings: []Finding{finding(AllSteps, "", EffectNone, ProofSystemRead, t2)}, LastSend: t1}, EffectNone},
		{"what an earlier run's tool asserted stays true of that run", FoldInput{Findings: []Finding{finding("a", "r1", EffectNone, ProofSystemRead, t0), othersNotStarted}, LastSend: t1}, EffectNone},
		{"not started does not end a doubt", FoldInput{Findings: []Finding{started, finding("0003#charge", "r1", EffectNone, ProofNotStarted, t2), othersNotStarted}}, EffectUnknown},

		{"two people's words disagree", FoldInput{Findings: []Finding{started, personYes, personNo, othersNotStarted}}, EffectUnknown},
		{"one person's words about all steps and about one disagree", FoldInput{Findings: []Finding{started, personNo, finding(AllSteps, "", EffectConfirmed, ProofOperator, t2)}}, EffectUnknown},
		{"a word about all steps is corrected for one, which happened", FoldInput{Findings: []Finding{started, personYes, allButCharge(EffectNone)}}, EffectConfirmed},
		{"a word about all steps is corrected for one, which did not happen: the others stay", FoldInput{Findings: []Finding{started, personNo, allButCharge(EffectConfirmed)}}, EffectConfirmed},
		{"what was corrected speaks for no step any more", FoldInput{Findings: []Finding{started, allButCharge(EffectNone)}}, EffectUnknown},
		{"a correction does not do away with a receipt", FoldInput{Findings: []Finding{charged, personNo, allButCharge(EffectConfirmed), othersNotStarted}}, EffectUnknown},

		{"tasks declared to change nothing", FoldInput{Findings: []Finding{declared}}, EffectNone},
		{"tasks declared to change nothing, stores silent", FoldInput{Findings: []Finding{declared, nothingFound}}, EffectNone},
		{"a mutating finding voids the declaration", FoldInput{Findings: []Finding{declared, charged}}, EffectUnknown},
		{"a doubt voids the declaration", FoldInput{Findings: []Finding{declared, started}}, EffectUnknown},

		{"a worker's negative without trust", FoldInput{Findings: []Finding{workerNone}, OnlyRun: "r1"}, EffectUnknown},
		{"a worker's negative with trust about the only run", FoldInput{Findings: []Finding{workerNone}, TrustWorker: true, OnlyRun: "r1"}, EffectNone},
		{"a worker's negative with trust, other runs unknown", FoldInput{Findings: []Finding{workerNone}, TrustWorker: true}, EffectUnknown},
		{"a worker's negative about an earlier span", FoldInput{Findings: []Finding{workerNone}, TrustWorker: true, OnlyRun: "r1", LastSend: t2}, EffectUnknown},
		{"a worker's positive counts", FoldInput{Findings: []Finding{finding(AllSteps, "r1", EffectConfirmed, ProofWorkerStatement, t1), nothingFound}}, EffectConfirmed},
		{"a worker's negative does not clear the ledger's doubt", FoldInput{Findings: []Finding{workerNone, finding("a", "r1", EffectUnknown, ProofSystemRead, t0)}, TrustWorker: true, OnlyRun: "r1"}, EffectUnknown},
		{"a worker's negative against a receipt of its run", FoldInput{Findings: []Finding{workerNone, charged, othersNotStarted}, TrustWorker: true, OnlyRun: "r1"}, EffectUnknown},

		{"a run may still be going", FoldInput{Findings: []Finding{othersNotStarted}, Running: true}, EffectUnknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Fold(tt.in)
			if got.State != tt.want {
				t.Errorf("state %s, want %s", got.State, tt.want)
			}
			if got.Uncovered != got.State {
				t.Errorf("uncovered %s without a checkpoint, want %s", got.Uncovered, got.State)
			}
		})
	}
}

func TestFoldWithCheckpoint(t *testing.T) {
	othersNotStarted := finding(AllSteps, "", EffectNone, ProofNotStarted, t2)
	reserved := finding("0002#reserve", "r1", EffectConfirmed, ProofReceipt, t0)
	for _, tt := range []struct {
		name       string
		checkpoint Checkpoint
		findings   []Finding
		want       Folded
	}{
		{
			"covered steps leave nothing uncovered",
			Checkpoint{Step: "0002#reserve", Run: "r1"},
			[]Finding{reserved, othersNotStarted},
			Folded{EffectConfirmed, EffectNone},
		},
		{
			"a later doubt stays uncovered",
			Checkpoint{Step: "0002#reserve", Run: "r1"},
			[]Finding{reserved, finding("0003#charge", "r1", EffectUnknown, ProofSystemRead, t1), othersNotStarted},
			Folded{EffectUnknown, EffectUnknown},
		},
		{
			"a covered doubt",
			Checkpoint{Step: "0003#charge", Run: "r1"},
			[]Finding{finding("0003#charge", "r1", EffectUnknown, ProofSystemRead, t1), othersNotStarted},
			Folded{EffectUnknown, EffectNone},
		},
		{
			"another run's steps are not covered",
			Checkpoint{Step: "0009#end", Run: "r2"},
			[]Finding{reserved, othersNotStarted},
			Folded{EffectConfirmed, EffectConfirmed},
		},
		{
			"runs of its lineage are covered",
			Checkpoint{Step: "0009#end", Run: "r2", Lineage: []string{"r1", "r2"}},
			[]Finding{reserved, othersNotStarted},
			Folded{EffectConfirmed, EffectNone},
		},
		{
			"a checkpoint proves nothing about steps nobody speaks for",
			Checkpoint{Step: "0009#end", Run: "r1"},
			[]Finding{reserved},
			Folded{EffectUnknown, EffectUnknown},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Fold(FoldInput{Findings: tt.findings, Checkpoint: &tt.checkpoint}); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// The order in which stores answer must not matter, and more doubt must never
// make a fold more certain. Both are tried over every set of up to three
// findings from a wide choice.
func TestFoldIsOrderFreeAndDoubtOnlyAdds(t *testing.T) {
	var choice []Finding
	for _, step := range []string{"a", AllSteps} {
		for _, run := range []string{"", "r1", "r2"} {
			for _, state := range []Effect{EffectNone, EffectConfirmed, EffectUnknown} {
				for _, proof := range []Proof{ProofReceipt, ProofSystemRead, ProofNotStarted, ProofDeclared, ProofWorkerStatement, ProofOperator, ProofNothingFound} {
					choice = append(choice, finding(step, run, state, proof, t1))
				}
			}
		}
	}
	doubt := finding("z", "r9", EffectUnknown, ProofSystemRead, t2)
	for i, a := range choice {
		for _, b := range choice[i:] {
			in := FoldInput{Findings: []Finding{a, b}, TrustWorker: true, OnlyRun: "r1", LastSend: t0}
			forth := Fold(in)
			in.Findings = []Finding{b, a}
			if back := Fold(in); back != forth {
				t.Fatalf("order matters for %+v and %+v: %v, %v", a, b, forth, back)
			}
			in.Findings = []Finding{a, b, doubt}
			if got := Fold(in); got.State != EffectUnknown {
				t.Fatalf("a doubt was lost beside %+v and %+v: %v", a, b, got)
			}
			if forth.State == EffectNone && !provesAbsence(a) && !provesAbsence(b) {
				t.Fatalf("none_confirmed without a proof from %+v and %+v", a, b)
			}
		}
	}
}

// A disagreement is found where the fold stops at one, with both sides, and
// nowhere else.
func TestDisagreements(t *testing.T) {
	charged := finding("0003#charge", "r1", EffectConfirmed, ProofReceipt, t0)
	others := finding(AllSteps, "", EffectNone, ProofNotStarted, t2)
	yes, no := finding("0003#charge", "", EffectConfirmed, ProofOperator, t1), finding("0003#charge", "", EffectNone, ProofOperator, t2)
	for name, tt := range map[string]struct {
		in   FoldInput
		want []Disagreement
	}{
		"none":              {FoldInput{Findings: []Finding{charged, others}}, nil},
		"silence is none":   {FoldInput{}, nil},
		"people":            {FoldInput{Findings: []Finding{yes, no, others}}, []Disagreement{{"0003#charge", "", []Finding{yes}, []Finding{no}}}},
		"a receipt":         {FoldInput{Findings: []Finding{charged, no, others}}, []Disagreement{{"0003#charge", "r1", []Finding{charged}, []Finding{no}}}},
		"overtaken by send": {FoldInput{Findings: []Finding{yes, no, others}, LastSend: t2}, nil},
		"covered":           {FoldInput{Findings: []Finding{charged, no, others}, Checkpoint: &Checkpoint{Run: "r1", Step: "0003#charge"}}, nil},
	} {
		if got := Disagreements(tt.in); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, tt.want)
		}
	}
}

func provesAbsence(f Finding) bool {
	switch f.Proof {
	case ProofSystemRead, ProofNotStarted, ProofDeclared, ProofWorkerStatement, ProofOperator:
		return f.State == EffectNone
	case ProofReceipt, ProofNothingFound:
	}
	return false
}

func ExampleFold() {
	// The ledger has intents for every call (no row means not begun), and one
	// step with a receipt.
	got := Fold(FoldInput{Findings: []Finding{
		{Store: "ledger", Step: AllSteps, State: EffectNone, Proof: ProofNotStarted},
		{Store: "ledger", Step: "0003#charge", Run: "run-1", State: EffectConfirmed, Proof: ProofReceipt},
	}})
	fmt.Println(got.State)
	// Output: confirmed
}

// What is confirmed beyond the checkpoint is listed once for each step and run,
// with every receipt, whoever says so.
func TestConfirmedListsEachEffectOnce(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	receipt := func(s string) *string { return &s }
	charge := Finding{Store: "ledger", Step: "0003#charge", Run: "run-1", State: EffectConfirmed, Proof: ProofReceipt, AsOf: at, Receipt: receipt("ch_1")}
	bank := Finding{Store: "bank", Step: "0003#charge", State: EffectConfirmed, Proof: ProofSystemRead, AsOf: at.Add(time.Minute), Receipt: receipt("tx_7")}
	mail := Finding{Store: "ledger", Step: "0005#mail", Run: "run-2", State: EffectNone, Proof: ProofNotStarted, AsOf: at}
	doubt := Finding{Store: "ledger", Step: "0004#ship", Run: "run-1", State: EffectUnknown, Proof: ProofNothingFound, AsOf: at}
	person := Finding{Store: "operator", Step: AllSteps, State: EffectConfirmed, Proof: ProofOperator, AsOf: at.Add(time.Hour)}
	others := Finding{Store: "ledger", Step: AllSteps, State: EffectNone, Proof: ProofNotStarted, AsOf: at}
	for name, c := range map[string]struct {
		in   FoldInput
		want []ConfirmedStep
	}{
		"nothing":          {FoldInput{}, nil},
		"nothing happened": {FoldInput{Findings: []Finding{mail}}, nil},
		"two stores": {FoldInput{Findings: []Finding{charge, mail, bank, others}}, []ConfirmedStep{
			{"0003#charge", "run-1", []string{"ch_1", "tx_7"}, at.Add(time.Minute)},
		}},
		"before the checkpoint": {FoldInput{Findings: []Finding{charge}, Checkpoint: &Checkpoint{Ref: "ck", Step: "0003#charge", Run: "run-1"}}, nil},
		"a person ends a doubt": {FoldInput{Findings: []Finding{doubt, charge, person}}, []ConfirmedStep{
			{"0004#ship", "run-1", nil, at.Add(time.Hour)}, {"0003#charge", "run-1", []string{"ch_1"}, at.Add(time.Hour)},
		}},
		"a person alone": {FoldInput{Findings: []Finding{person}}, []ConfirmedStep{{AllSteps, "", nil, at.Add(time.Hour)}}},
	} {
		got := Confirmed(c.in)
		if len(got) != len(c.want) {
			t.Errorf("%s: %+v", name, got)
			continue
		}
		for i := range got {
			if got[i].Step != c.want[i].Step || got[i].Run != c.want[i].Run || !slices.Equal(got[i].Receipts, c.want[i].Receipts) || !got[i].AsOf.Equal(c.want[i].AsOf) {
				t.Errorf("%s: %+v, want %+v", name, got[i], c.want[i])
			}
		}
		if c.want != nil && Fold(c.in).Uncovered != EffectConfirmed {
			t.Errorf("%s: the fold says %s", name, Fold(c.in).Uncovered)
		}
	}
}
