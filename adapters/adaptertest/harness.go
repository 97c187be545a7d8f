package adaptertest

import (
	"context"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// Harness is what an adapter's package tells the suite about itself.
type Harness struct {
	// New makes a provider of its own for one sub-test, with an empty
	// dead-letter place and an empty destination, both open. With ordered the
	// destination keeps the order within a group. What it makes ends with the
	// test (t.Cleanup). It is called inside the test's bubble. Required.
	New func(t testing.TB, ordered bool) *Setup
	// Visibility is how long a receive hides a letter of the places that New
	// makes. Required.
	Visibility time.Duration
	// Differences are the promises that the provider cannot keep.
	Differences Differences
}

// Setup is one provider with the adapter on top.
type Setup struct {
	DeadLetters dlqbridge.DeadLetters
	Destination dlqbridge.Destination
	// Put brings messages into the dead-letter place, in that order, with the
	// provider's own means.
	Put func(t testing.TB, messages ...dlqbridge.Outgoing)
	// Arrived lists what is in the destination with the provider's own means,
	// in the order in which a consumer would get it. It may be called once.
	Arrived func(t testing.TB) []dlqbridge.Outgoing
	// MissingPlace opens a dead-letter place that does not exist and uses it if
	// opening succeeds; the first error is returned. MissingDestination does so
	// with a destination, whose first use is a Send.
	MissingPlace, MissingDestination func(context.Context) error
	// Break makes the provider do something to the next requests.
	Break func(t testing.TB, f Fault)
	// Requests counts the requests of a kind that have reached the provider.
	Requests func(t testing.TB, c Call) int
}

// Call is a kind of request to the provider.
type Call string

// The kinds: one for each method of the contracts.
const (
	Receive Call = "Receive"
	Delete  Call = "Delete"
	Hide    Call = "Hide"
	Depth   Call = "Depth"
	Facts   Call = "Facts"
	Send    Call = "Send"
)

// Fault is what the provider does to requests.
type Fault struct {
	Call Call
	Do   What
	// Entry is the position of the one entry in a request's batch that it is
	// done to, if OneEntry; else it is done to the whole request.
	Entry    int
	OneEntry bool
	// Times is to how many requests; 0 means to all that follow.
	Times int
}

// What can go wrong.
type What string

// The faults.
const (
	// Denied: the caller has no right to it.
	Denied What = "denied"
	// Throttled: refused for now, nothing is done.
	Throttled What = "throttled"
	// LostAnswer: the request is carried out and its connection is cut.
	LostAnswer What = "lost answer"
	// Silence: nothing is ever answered.
	Silence What = "silence"
)

// Differences are promises that a provider cannot keep. Each field's value is
// the reason, in words for the reader of the test's output; empty means that
// the promise is kept.
type Differences struct {
	// TextOnly: bodies and values are text in UTF-8 without control characters
	// (values of type Binary excepted). Others are refused with ErrInvalid.
	TextOnly string
	// TextValues: like TextOnly, of attribute values alone.
	TextValues string
	// NoEmptyBody, NoEmptyValue: refused with ErrInvalid.
	NoEmptyBody, NoEmptyValue string
	// OneType: every attribute has the type "String"; others are refused with
	// ErrInvalid.
	OneType string
	// NoGroups: no group or ordering key exists.
	NoGroups string
	// NoTrace: no trace header exists.
	NoTrace string
	// NoAttributeLimit, NoSizeLimit: the facts state none.
	NoAttributeLimit, NoSizeLimit string
	// NoMessageID: a send is answered without an id.
	NoMessageID string
	// UnknownDeliveries, UnknownTimes (SentAt and LostAt), UnknownSystem
	// (System), UnknownDepth: the provider does not say.
	UnknownDeliveries, UnknownTimes, UnknownSystem, UnknownDepth string
	// NoExtension: a letter cannot be hidden for longer than the receive does;
	// Hide answers ErrInvalid.
	NoExtension string
	// NoGiveBack: Hide for 0 does not give back.
	NoGiveBack string
	// BlindSettle: Delete and Hide answer before the provider has, so its
	// refusals are not seen.
	BlindSettle string
	// BlindReceive: the provider's refusals of a receive, and its lost answers,
	// are tried again inside the library, so they are not seen.
	BlindReceive string
	// BlindSend: of a refused send the adapter cannot know that it was not
	// carried out, so it says ErrUnclear.
	BlindSend string
	// NoEntryFaults: the provider cannot fail one entry of a request.
	NoEntryFaults string
	// NoMissing: opening makes what is not there, or its absence cannot be told.
	NoMissing string
	// RealTime: the provider cannot run in virtual time, so sub-tests that wait
	// for timeouts are skipped.
	RealTime string
}
