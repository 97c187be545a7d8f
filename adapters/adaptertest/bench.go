package adaptertest

import (
	"slices"
	"testing"

	"github.com/dlqbridge/dlqbridge"
)

// Benchmark measures the adapter on top of its provider; figures are per
// letter. Compare an adapter with itself: providers in memory differ.
func Benchmark(b *testing.B, h Harness) {
	b.Helper()
	const batch = 10
	b.Run("receive and delete", func(b *testing.B) {
		s := h.New(b, false)
		for b.Loop() {
			b.StopTimer()
			s.Put(b, numbered(batch)...)
			b.StartTimer()
			letters := take(b, s, batch)
			for _, err := range s.DeadLetters.Delete(b.Context(), letters) {
				if err != nil {
					b.Fatal(err)
				}
			}
		}
		perLetter(b, batch)
	})
	b.Run("send", func(b *testing.B) {
		s := h.New(b, false)
		cut := batches(numbered(batch), facts(b, s))
		for b.Loop() {
			for _, part := range cut {
				results := s.Destination.Send(b.Context(), part)
				if slices.ContainsFunc(results, func(r dlqbridge.SendResult) bool { return r.Err != nil }) {
					b.Fatalf("send: %+v", results)
				}
			}
		}
		perLetter(b, batch)
	})
}

func perLetter(b *testing.B, letters int) {
	b.Helper()
	n := float64(b.N * letters)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/n, "ns/letter")
	b.ReportMetric(n/b.Elapsed().Seconds(), "letters/s")
}
