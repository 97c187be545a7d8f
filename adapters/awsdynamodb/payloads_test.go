package awsdynamodb_test

import (
	"bytes"
	"testing"

	"github.com/dlqbridge/dlqbridge"
)

// Payloads of several sizes come back together, what is gone is absent, and
// few calls are made.
func TestPayloadsReadsManyAtOnce(t *testing.T) {
	w := open(t)
	want := map[string]dlqbridge.Payload{}
	arrivals := map[string]string{"r_gone": "a"}
	var items []dlqbridge.Evidence
	for id, size := range map[string]int{"r_1": 10, "r_2": 0, "r_3": 900_000} {
		p := dlqbridge.Payload{Body: bytes.Repeat([]byte{0xfe}, size), GroupKey: id}
		want[id], arrivals[id] = p, "a"
		items = append(items, dlqbridge.Evidence{Record: id, Item: dlqbridge.StoredPayload{Arrival: "a", Payload: p}})
	}
	must(t, w.Put(t.Context(), items)...)
	w.cloud.ForgetRequests()
	got, err := w.Payloads(t.Context(), arrivals)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) {
		t.Errorf("%d payloads, want %d", len(got), len(want))
	}
	for id, p := range want {
		if !bytes.Equal(got[id].Encode(), p.Encode()) {
			t.Errorf("%s came back different", id)
		}
	}
	if n := w.calls("BatchGetItem"); n != 2 {
		t.Errorf("%d calls, want 2", n)
	}
}
