package dynamodb

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge/localstack/clock"
)

// TestSortedKeepsWhatAMapKeeps compares the sorted list with a map under
// random inserts, removals and ranges in both directions.
func TestSortedKeepsWhatAMapKeeps(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var list sorted
	all := map[string]int{}
	key := func() string { return fmt.Sprintf("%04d", random.IntN(3000)) }
	for step := range 20_000 {
		k := key()
		if random.IntN(3) == 0 {
			list.remove(k)
			delete(all, k)
		} else {
			list.set(&row{key: k, size: step})
			all[k] = step
		}
		if step%500 != 0 {
			continue
		}
		in := span{key(), key()}
		if random.IntN(4) == 0 {
			in.high = ""
		}
		var want []string
		for _, k := range slices.Sorted(maps.Keys(all)) {
			if in.holds(k) {
				want = append(want, k)
			}
		}
		for _, backward := range []bool{false, true} {
			var got []string
			for r := range list.rows(in, backward) {
				got = append(got, r.key)
			}
			if backward {
				slices.Reverse(got)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("step %d, %v, backward %v (-want +got):\n%s", step, in, backward, diff)
			}
		}
		bytes := 0
		for k, size := range all {
			bytes += size
			if r := list.get(k); r == nil || r.size != size {
				t.Fatalf("step %d: %s is %v, want size %d", step, k, r, size)
			}
		}
		if list.count != len(all) || list.bytes != bytes {
			t.Fatalf("step %d: %d rows of %d bytes, want %d of %d", step, list.count, list.bytes, len(all), bytes)
		}
	}
}

// FuzzItem holds the reader to the standard codec and to the writer.
func FuzzItem(f *testing.F) {
	f.Add([]byte(sampleItem))
	f.Add([]byte(`{"a":{"S":"\ud83d\ude00\u0000\\\"\/"},"b":{"L":[{"NULL":true},{"BS":["AA==","AQ=="]}]}} `))
	f.Add([]byte(`{"a":{"N":"1e5"},"a":{"N":"2"}}`))
	f.Add([]byte(`{"a":{"S":"\ud800"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r := &reader{data: text}
		item, err := r.item()
		if err == nil {
			err = r.end()
		}
		if err != nil {
			return
		}
		if !json.Valid(text) {
			t.Errorf("%s is no JSON and was read", text)
		}
		written := appendItem(nil, item)
		if !json.Valid(written) {
			t.Errorf("%s was written as %s, which is no JSON", text, written)
		}
		if again := readItem(t, string(written)); !equalItems(item, again) || again.itemSize() != item.itemSize() {
			t.Errorf("%s was written as %s, which reads as %v", text, written, again)
		}
	})
}

func TestExpiredItemsLeaveTheIndexesToo(t *testing.T) {
	c := clock.New(func() time.Time { return time.Unix(1_000_000, 0) })
	s := New(c)
	must(t, s, "CreateTable", lettersTable)
	put := func(sk, expires string) {
		must(t, s, "PutItem", `{"TableName":"letters","Item":{"pk":{"S":"a"},"sk":{"N":"`+sk+`"},"gk":{"S":"w"},"gs":{"N":"1"},"ttl":`+expires+`}}`)
	}
	put("1", `{"N":"1000010"}`)
	put("2", `{"N":"1000020.9"}`)
	must(t, s, "UpdateTimeToLive", `{"TableName":"letters","TimeToLiveSpecification":{"AttributeName":"ttl","Enabled":true}}`)
	put("3", `{"N":"1000030"}`)
	put("4", `{"S":"1000010"}`)
	put("5", `{"N":"1000010000"}`)
	put("6", `{"N":"1"}`) // more than five years ago: never deleted
	put("6", `{"N":"1000005"}`)
	left := func() string {
		answer := must(t, s, "Query", `{"TableName":"letters","IndexName":"work","KeyConditionExpression":"gk = :g","Select":"COUNT","ExpressionAttributeValues":{":g":{"S":"w"}}}`)
		table := must(t, s, "Scan", `{"TableName":"letters","Select":"COUNT"}`)
		if answer != table {
			t.Errorf("the index has %s, the table %s", answer, table)
		}
		return table
	}
	for _, step := range []struct {
		advance time.Duration
		want    int
	}{{0, 6}, {4 * time.Second, 6}, {time.Second, 5}, {5 * time.Second, 4}, {9 * time.Second, 4}, {time.Second, 3}, {time.Hour, 2}} {
		c.Advance(step.advance)
		if got, want := left(), fmt.Sprintf(`{"Count":%d,"ScannedCount":%d}`, step.want, step.want); got != want {
			t.Errorf("after another %v: %s, want %s", step.advance, got, want)
		}
	}
	s.SetTTLDeletes(false)
	put("7", `{"N":"1000010"}`)
	if got := left(); got != `{"Count":3,"ScannedCount":3}` {
		t.Errorf("switched off, the expired item is gone: %s", got)
	}
	s.SetTTLDeletes(true)
	if got := left(); got != `{"Count":2,"ScannedCount":2}` {
		t.Errorf("switched on again, the expired item is there: %s", got)
	}
}

func TestATokenIsForgottenAfterTenMinutes(t *testing.T) {
	c := clock.New(nil)
	s := New(c)
	must(t, s, "CreateTable", lettersTable)
	add := func() {
		must(t, s, "TransactWriteItems", `{"ClientRequestToken":"t","TransactItems":[{"Update":{"TableName":"letters","Key":{"pk":{"S":"a"},"sk":{"N":"1"}},
			"UpdateExpression":"ADD n :one","ExpressionAttributeValues":{":one":{"N":"1"}}}}]}`)
	}
	add()
	c.Advance(tokenLife - time.Minute)
	add()
	c.Advance(time.Minute)
	add()
	want := `{"Item":{"n":{"N":"2"},"pk":{"S":"a"},"sk":{"N":"1"}}}`
	if got := must(t, s, "GetItem", `{"TableName":"letters","Key":{"pk":{"S":"a"},"sk":{"N":"1"}}}`); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if known := &s.transactions; len(known.tokens) != 1 || len(known.oldest) != 1 {
		t.Errorf("%d tokens and %d in line, want 1 each", len(known.tokens), len(known.oldest))
	}
}
