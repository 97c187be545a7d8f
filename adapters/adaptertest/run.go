package adaptertest

import (
	"testing"
	"testing/synctest"
	"time"
)

// test is one sub-test; its name is the sentence that it holds the adapter to.
type test struct {
	name string
	run  func(testing.TB, Harness)
	// waits: it needs timeouts to pass, so it runs in virtual time only.
	waits bool
}

// DeadLetters holds a dlqbridge.DeadLetters against its contract.
func DeadLetters(t *testing.T, h Harness) {
	t.Helper()
	t.Run("DeadLetters", func(t *testing.T) { run(t, h, deadLettersTests()) })
}

// Destination holds a dlqbridge.Destination against its contract.
func Destination(t *testing.T, h Harness) {
	t.Helper()
	t.Run("Destination", func(t *testing.T) { run(t, h, destinationTests()) })
}

func run(t *testing.T, h Harness, tests []test) {
	t.Helper()
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			switch {
			case h.Differences.RealTime == "":
				synctest.Test(t, func(t *testing.T) { c.run(t, h) })
			case c.waits:
				t.Skip(h.Differences.RealTime)
			default:
				c.run(t, h)
			}
		})
	}
}

func deadLettersTests() []test {
	return []test{
		{name: "a letter keeps its exact bytes", run: lettersKeepTheirBytes},
		{name: "a letter keeps its trace header", run: lettersKeepTheirTrace},
		{name: "a letter keeps its group", run: lettersKeepTheirGroup},
		{name: "a letter says what the provider knows", run: lettersSayWhatIsKnown},
		{name: "a count is unknown or includes this delivery", run: countsIncludeThisDelivery, waits: true},
		{name: "no letters is a normal answer", run: noLettersIsNormal},
		{name: "an answer holds at most as many letters as asked for", run: limitsHold},
		{name: "a letter ends the wait for it", run: lettersEndTheWait},
		{name: "waiting ends with the wait", run: waitingEnds, waits: true},
		{name: "the end of the context ends a wait at once", run: contextEndsTheWait},
		{name: "a receive that is not begun takes nothing", run: endedContextTakesNothing},
		{name: "letters of an answer that was lost come again", run: lostLettersComeAgain, waits: true},
		{name: "each letter is with one receiver at a time", run: oneReceiverAtATime},

		{name: "a letter that nobody deletes comes again", run: undeletedComesAgain, waits: true},
		{name: "what is deleted is gone", run: deletedIsGone, waits: true},
		{name: "deleting twice is fine", run: deletingTwice},
		{name: "deleting nothing is fine", run: settlingNothing},
		{name: "more letters than a batch are deleted", run: deletingMany},
		{name: "a bad letter does not speak for the others", run: badLetterAmongMany, waits: true},
		{name: "a letter whose receive is over aborts nothing", run: overAbortsNothing, waits: true},
		{name: "the batch after a bad letter is as good as any", run: batchAfterABadLetter},
		{name: "a refused entry of a deletion does not speak for the others", run: refusedEntryOfADeletion},
		{name: "a throttled entry of a deletion is tried again", run: throttledEntryIsTriedAgain},
		{name: "hiding hides for as long as asked", run: hidingHides, waits: true},
		{name: "hiding for nothing gives back at once", run: hidingForNothing},
		{name: "hiding answers by position", run: hidingByPosition},
		{name: "depth counts what is there", run: depthCounts},
		{name: "a missing place is not found", run: missingPlace},
		{name: "a denied request is denied", run: deniedPlace},
	}
}

func destinationTests() []test {
	return []test{
		{name: "a message arrives with its exact bytes", run: messagesArriveExactly},
		{name: "what would change on the way is refused", run: changingIsRefused},
		{name: "a mark and a trace header arrive", run: marksArrive},
		{name: "a group arrives where nothing is ordered", run: groupsArrive},
		{name: "the facts are there", run: factsAreThere},
		{name: "a batch is one request", run: batchIsOneRequest},
		{name: "a batch over the limit sends nothing in doubt", run: batchOverTheLimit},
		{name: "a message of the size limit goes and one byte more does not", run: sizeLimit},
		{name: "as many attributes as allowed go and one more does not", run: attributeLimit},
		{name: "a bad message does not speak for the others", run: badMessageAmongMany},
		{name: "a refused entry does not speak for the others", run: refusedEntryAmongMany},
		{name: "the batch after a bad message is as good as any", run: batchAfterABadMessage},
		{name: "a lost answer is unclear and nothing is sent again", run: lostAnswerIsUnclear},
		{name: "a lost answer of an ordered send doubles nothing", run: lostAnswerOrdered},
		{name: "a throttled send is surely not sent", run: throttledIsNotSent},
		{name: "a denied send is denied", run: deniedSend},
		{name: "a missing destination is not found", run: missingDestination},
		{name: "a send that is not begun is surely not sent", run: notBegunIsNotSent},
		{name: "the end of the context ends a send that is not answered", run: contextEndsASend},
		{name: "groups keep their order and their key", run: groupsKeepOrder},
		{name: "concurrent sends arrive once each", run: concurrentSends},
		{name: "an empty batch is no request", run: emptyBatch},
		{name: "arguments are neither changed nor kept", run: argumentsAreTheCallers},
	}
}

// differs skips the rest of a sub-test for a difference of the provider.
func differs(t testing.TB, reasons ...string) {
	t.Helper()
	for _, reason := range reasons {
		if reason != "" {
			t.Skip(reason)
		}
	}
}

// pause lets time pass: virtual time, in a bubble.
func pause(t testing.TB, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

// now is the bubble's clock.
func now() time.Time {
	return time.Now() //nolint:forbidigo // a test's look at the virtual clock
}
