package awsdynamodb_test

import (
	"strconv"
	"testing"

	"github.com/dlqbridge/dlqbridge"
)

// The numbers are those of the local cloud: they show what the store itself
// costs, not the network.

func controlsOf(from, n int) []dlqbridge.Control {
	all := make([]dlqbridge.Control, n)
	for i := range all {
		all[i] = record(from + i)
	}
	return all
}

func perItem(b *testing.B, n int) {
	b.Helper()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/item")
}

func BenchmarkPutEvidenceOfTenLetters(b *testing.B) {
	s := open(b)
	var items []dlqbridge.Evidence
	for n := range 10 {
		items = append(items, evidence(record(n).ID)[:3]...)
	}
	for b.Loop() {
		must(b, s.Put(b.Context(), items)...)
	}
	perItem(b, 10)
}

func BenchmarkCreateTen(b *testing.B) {
	s := open(b)
	n := 0
	for b.Loop() {
		s.create(b, controlsOf(n, 10)...)
		n += 10
	}
	perItem(b, 10)
}

func BenchmarkMoveTen(b *testing.B) {
	s := open(b)
	all := controlsOf(0, 10)
	s.create(b, all...)
	for b.Loop() {
		steps := make([]dlqbridge.Step, len(all))
		for i, c := range all {
			steps[i] = dlqbridge.Step{From: c, To: next(c, "alice")}
			all[i] = steps[i].To
		}
		must(b, s.Move(b.Context(), steps)...)
	}
	perItem(b, 10)
}

func BenchmarkList(b *testing.B) {
	for _, n := range []int{500, 5000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			s := open(b)
			s.create(b, controlsOf(0, n)...)
			for b.Loop() {
				if got := len(collect(b, s.Store, dlqbridge.Filter{})); got != n {
					b.Fatalf("listed %d of %d", got, n)
				}
			}
			perItem(b, n)
		})
	}
}
