package adaptertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge"
)

// facts asks for the destination's facts.
func facts(t testing.TB, s *Setup) dlqbridge.DestinationFacts {
	t.Helper()
	f, err := s.Destination.Facts(t.Context())
	if err != nil {
		t.Fatalf("facts: %v", err)
	}
	return f
}

// batches cuts messages as a caller does: by count and by bytes.
func batches(messages []dlqbridge.Outgoing, f dlqbridge.DestinationFacts) [][]dlqbridge.Outgoing {
	var out [][]dlqbridge.Outgoing
	var batch []dlqbridge.Outgoing
	bytes := 0
	for _, m := range messages {
		if len(batch) > 0 && (len(batch) == f.BatchCount || f.BatchBytes > 0 && bytes+m.Size() > f.BatchBytes) {
			out = append(out, batch)
			batch, bytes = nil, 0
		}
		batch = append(batch, m)
		bytes += m.Size()
	}
	return append(out, batch)
}

// send sends a batch and returns the answers' errors. Ids belong to what was
// sent and to nothing else.
func send(ctx context.Context, t testing.TB, h Harness, s *Setup, batch []dlqbridge.Outgoing) []error {
	t.Helper()
	results := s.Destination.Send(ctx, batch)
	errs := make([]error, len(results))
	for i, r := range results {
		errs[i] = r.Err
		if want := r.Err == nil && h.Differences.NoMessageID == ""; (r.MessageID != "") != want {
			t.Errorf("message %d: id %q with error %v", i, r.MessageID, r.Err)
		}
	}
	return errs
}

// sendAll sends messages that must all go, in batches.
func sendAll(t testing.TB, h Harness, s *Setup, messages []dlqbridge.Outgoing) {
	t.Helper()
	for _, batch := range batches(messages, facts(t, s)) {
		wantErrors(t, "send", send(t.Context(), t, h, s, batch), fine(len(batch))...)
	}
}

func messagesArriveExactly(t testing.TB, h Harness) {
	s := h.New(t, false)
	want := carried(h.Differences)
	sendAll(t, h, s, want)
	sameMessages(t, "arrived", s.Arrived(t), want)
}

func changingIsRefused(t testing.TB, h Harness) {
	s := h.New(t, false)
	single := facts(t, s).BatchCount < 3
	var want []dlqbridge.Outgoing
	tried := 0
	for _, o := range oddMessages(h.Differences) {
		if o.refused() == "" {
			continue
		}
		tried++
		batch := []dlqbridge.Outgoing{o.out}
		wish := []error{dlqbridge.ErrInvalid}
		if !single {
			mates := []dlqbridge.Outgoing{message("before " + o.name), message("after " + o.name)}
			batch = []dlqbridge.Outgoing{mates[0], o.out, mates[1]}
			wish = []error{nil, dlqbridge.ErrInvalid, nil}
			want = append(want, mates...)
		}
		wantErrors(t, o.name, send(t.Context(), t, h, s, batch), wish...)
	}
	if tried == 0 {
		t.Skip("the provider carries everything")
	}
	sameMessages(t, "arrived", s.Arrived(t), want)
}

func marksArrive(t testing.TB, h Harness) {
	s := h.New(t, false)
	mark := attribute(dlqbridge.MarkName, "String", `{"rec":"r_a","job":"j_1","n":1,"act":"retry"}`)
	messages := []dlqbridge.Outgoing{message("marked", attribute("own", "String", "1"), mark), message("traced", mark)}
	if h.Differences.NoTrace == "" {
		messages[1].TraceHeader = "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1"
	}
	sendAll(t, h, s, messages)
	sameMessages(t, "arrived", s.Arrived(t), messages)
}

func groupsArrive(t testing.TB, h Harness) {
	differs(t, h.Differences.NoGroups)
	s := h.New(t, false)
	messages := numbered(3)
	messages[0].Payload.GroupKey = "tenant-17"
	messages[1].Payload.GroupKey = "tenant_4!"
	sendAll(t, h, s, messages)
	sameMessages(t, "arrived", s.Arrived(t), messages)
}

func factsAreThere(t testing.TB, h Harness) {
	for _, ordered := range []bool{false, h.Differences.NoGroups == ""} {
		f := facts(t, h.New(t, ordered))
		if f.URN == "" || f.BatchCount < 1 {
			t.Errorf("%+v: want a URN and a batch of at least one", f)
		}
		if (f.MaxBytes > 0) != (h.Differences.NoSizeLimit == "") || (f.MaxAttributes > 0) != (h.Differences.NoAttributeLimit == "") {
			t.Errorf("%+v: want limits where the provider has some", f)
		}
		if f.BatchBytes > 0 && f.BatchBytes < f.MaxBytes {
			t.Errorf("%+v: a message of the limit fits in no batch", f)
		}
	}
}

func batchIsOneRequest(t testing.TB, h Harness) {
	s := h.New(t, false)
	batch := numbered(facts(t, s).BatchCount)
	batch = batch[:min(len(batch), 100)]
	before := s.Requests(t, Send)
	wantErrors(t, "send", send(t.Context(), t, h, s, batch), fine(len(batch))...)
	if n := s.Requests(t, Send) - before; n != 1 {
		t.Errorf("%d requests for a batch of %d, want 1", n, len(batch))
	}
	sameMessages(t, "arrived", s.Arrived(t), batch)
}

func batchOverTheLimit(t testing.TB, h Harness) {
	s := h.New(t, false)
	batch := numbered(facts(t, s).BatchCount + 1)
	var want []dlqbridge.Outgoing
	for i, err := range send(t.Context(), t, h, s, batch) {
		switch {
		case err == nil:
			want = append(want, batch[i])
		case errors.Is(err, dlqbridge.ErrUnclear), dlqbridge.Retryable(err):
			t.Errorf("message %d: got %v, want it to be refused for good", i, err)
		}
	}
	sameMessages(t, "arrived", s.Arrived(t), want)
}

func sizeLimit(t testing.TB, h Harness) {
	differs(t, h.Differences.NoSizeLimit)
	s := h.New(t, false)
	f := facts(t, s)
	a := attribute("attribute", "String", strings.Repeat("v", 50))
	sized := func(size int) dlqbridge.Outgoing {
		m := message("", a)
		m.Payload.Body = []byte(strings.Repeat("x", size-m.Size()))
		return m
	}
	full, over := sized(f.MaxBytes), sized(f.MaxBytes+1)
	if full.Size() != f.MaxBytes {
		t.Fatalf("size %d, want %d", full.Size(), f.MaxBytes)
	}
	wantErrors(t, "of the limit", send(t.Context(), t, h, s, []dlqbridge.Outgoing{full}), nil)
	wantErrors(t, "one byte more", send(t.Context(), t, h, s, []dlqbridge.Outgoing{over}), dlqbridge.ErrTooLarge)
	if arrived := s.Arrived(t); len(arrived) != 1 || arrived[0].Size() != f.MaxBytes {
		t.Errorf("%d messages arrived, want one of %d bytes", len(arrived), f.MaxBytes)
	}
}

func attributeLimit(t testing.TB, h Harness) {
	differs(t, h.Differences.NoAttributeLimit)
	s := h.New(t, false)
	with := func(n int) dlqbridge.Outgoing {
		m := message(fmt.Sprintf("%d attributes", n))
		for i := range n {
			m.Payload.Attributes = append(m.Payload.Attributes, attribute(fmt.Sprintf("a%03d", i), "String", "v"))
		}
		return m
	}
	full := with(facts(t, s).MaxAttributes)
	wantErrors(t, "as many as allowed", send(t.Context(), t, h, s, []dlqbridge.Outgoing{full}), nil)
	wantErrors(t, "one more", send(t.Context(), t, h, s, []dlqbridge.Outgoing{with(len(full.Payload.Attributes) + 1)}), dlqbridge.ErrInvalid)
	sameMessages(t, "arrived", s.Arrived(t), []dlqbridge.Outgoing{full})
}

// tooLarge is a message that no request can carry.
func tooLarge(f dlqbridge.DestinationFacts) dlqbridge.Outgoing {
	return message(strings.Repeat("x", f.MaxBytes+1))
}

func badMessageAmongMany(t testing.TB, h Harness) {
	differs(t, h.Differences.NoSizeLimit)
	s := h.New(t, false)
	f := facts(t, s)
	if f.BatchCount < 4 {
		t.Skip("a batch has no mates here")
	}
	batch := numbered(4)
	good := slices.Delete(slices.Clone(batch), 2, 3)
	batch[2] = tooLarge(f)
	wantErrors(t, "send", send(t.Context(), t, h, s, batch), nil, nil, dlqbridge.ErrTooLarge, nil)
	sameMessages(t, "arrived", s.Arrived(t), good)
}

func refusedEntryAmongMany(t testing.TB, h Harness) {
	differs(t, h.Differences.NoEntryFaults)
	s := h.New(t, false)
	batch := numbered(4)
	s.Break(t, Fault{Call: Send, Do: Throttled, OneEntry: true, Entry: 1, Times: 1})
	wantErrors(t, "send", send(t.Context(), t, h, s, batch), nil, dlqbridge.ErrThrottled, nil, nil)
	if n := s.Requests(t, Send); n != 1 {
		t.Errorf("%d requests, want 1: throttled messages are the caller's to send again", n)
	}
	sameMessages(t, "arrived", s.Arrived(t), slices.Delete(batch, 1, 2))
}

func batchAfterABadMessage(t testing.TB, h Harness) {
	s := h.New(t, false)
	f := facts(t, s)
	bad := tooLarge(f)
	if h.Differences.NoSizeLimit != "" {
		bad = message("bad", attribute("bad", "String", "\xff"))
	}
	if errs := send(t.Context(), t, h, s, []dlqbridge.Outgoing{bad}); errs[0] == nil {
		t.Error("the bad message went")
	}
	sendAll(t, h, s, numbered(5))
	sameMessages(t, "arrived", s.Arrived(t), numbered(5))
}

func emptyBatch(t testing.TB, h Harness) {
	s := h.New(t, false)
	if results := s.Destination.Send(t.Context(), nil); len(results) != 0 {
		t.Errorf("%d answers for no messages", len(results))
	}
	if n := s.Requests(t, Send); n != 0 {
		t.Errorf("%d requests for no messages", n)
	}
}

func argumentsAreTheCallers(t testing.TB, h Harness) {
	s := h.New(t, false)
	make2 := func() []dlqbridge.Outgoing {
		a := message("first", attribute("z", "String", "1"), attribute("a", "String", "2"))
		slices.Reverse(a.Payload.Attributes) // not sorted, and to stay so
		return []dlqbridge.Outgoing{a, message("second", attribute("b", "String", "3"))}
	}
	batch, want := make2(), make2()
	for i := range batch {
		one := batch[i : i+1]
		wantErrors(t, "send", send(t.Context(), t, h, s, one), nil)
	}
	if diff := cmp.Diff(want, batch); diff != "" {
		t.Errorf("the argument was changed (-want +got):\n%s", diff)
	}
	for _, m := range batch {
		m.Payload.Body[0] = '!'
		m.Payload.Attributes[0].Value[0] = '!'
	}
	sameMessages(t, "arrived, after the caller has used its memory again", s.Arrived(t), want)
}

func concurrentSends(t testing.TB, h Harness) {
	const senders, each = 6, 10
	s := h.New(t, false)
	f := facts(t, s)
	want := numbered(senders * each)
	errs := make([][]error, senders)
	var wg sync.WaitGroup
	for i, share := range slices.Collect(slices.Chunk(want, each)) {
		wg.Go(func() {
			for _, batch := range batches(share, f) {
				for _, r := range s.Destination.Send(t.Context(), batch) {
					errs[i] = append(errs[i], r.Err)
				}
			}
		})
	}
	wg.Wait()
	wantErrors(t, "send", slices.Concat(errs...), fine(senders*each)...)
	sameMessages(t, "arrived", s.Arrived(t), want)
}

func groupsKeepOrder(t testing.TB, h Harness) {
	differs(t, h.Differences.NoGroups)
	s := h.New(t, true)
	messages := numbered(10)
	groups := map[string][]string{}
	for i := range messages {
		key := []string{"left", "right", "middle"}[i%3]
		messages[i].Payload.GroupKey = key
		messages[i].DedupID = fmt.Sprintf("dedup-%d", i)
		groups[key] = append(groups[key], string(messages[i].Payload.Body))
	}
	// One key per request is a caller's rule; that of the provider may allow more.
	for _, batch := range batches(messages, facts(t, s)) {
		wantErrors(t, "send", send(t.Context(), t, h, s, batch), fine(len(batch))...)
	}
	arrived := s.Arrived(t)
	sameMessages(t, "arrived", arrived, messages)
	got := map[string][]string{}
	for _, m := range arrived {
		got[m.Payload.GroupKey] = append(got[m.Payload.GroupKey], string(m.Payload.Body))
	}
	if diff := cmp.Diff(groups, got); diff != "" {
		t.Errorf("order within the groups (-want +got):\n%s", diff)
	}
}
