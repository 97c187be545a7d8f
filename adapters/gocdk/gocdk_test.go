package gocdk_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"gocloud.dev/pubsub"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/adaptertest"
	"github.com/dlqbridge/dlqbridge/adapters/gocdk"
)

// world is a broker with both sides open, in virtual time.
func world(t *testing.T, run func(t *testing.T, b *broker, dead *gocdk.DeadLetters, jobs *gocdk.Destination)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(visibility)
		s := open(t, b.mux(), gocdk.Options{URL: "test://jobs"}, gocdk.Options{URL: "test://dead"})
		run(t, b, s.DeadLetters.(*gocdk.DeadLetters), s.Destination.(*gocdk.Destination))
	})
}

func plain(body string) []dlqbridge.Outgoing {
	return []dlqbridge.Outgoing{{Payload: dlqbridge.Payload{Body: []byte(body)}}}
}

func receive(t *testing.T, d *gocdk.DeadLetters, n int) []dlqbridge.Letter {
	t.Helper()
	letters, err := d.Receive(t.Context(), n, time.Minute)
	if err != nil || len(letters) != n {
		t.Fatalf("received %d letters and %v, want %d", len(letters), err, n)
	}
	return letters
}

// The library repeats what its driver calls retryable; a message passes once.
func TestTheLibraryDoesNotSendTwice(t *testing.T) {
	for _, do := range []adaptertest.What{adaptertest.LostAnswer, adaptertest.Throttled} {
		world(t, func(t *testing.T, b *broker, _ *gocdk.DeadLetters, jobs *gocdk.Destination) {
			b.retryable = true
			b.order(adaptertest.Fault{Call: adaptertest.Send, Do: do, Times: 1})
			err := jobs.Send(t.Context(), plain("once"))[0].Err
			if !errors.Is(err, dlqbridge.ErrUnclear) || dlqbridge.Retryable(err) {
				t.Errorf("%s: got %v, want ErrUnclear", do, err)
			}
			time.Sleep(time.Hour)
			if n := b.count(adaptertest.Send); n != 1 {
				t.Errorf("%s: %d requests, want 1", do, n)
			}
			if err := jobs.Send(t.Context(), plain("next"))[0].Err; err != nil {
				t.Errorf("%s: the next send: %v", do, err)
			}
		})
	}
}

// Who waits for another's send and gives up has surely sent nothing, also not
// later.
func TestSendThatNeverHadItsTurn(t *testing.T) {
	world(t, func(t *testing.T, b *broker, _ *gocdk.DeadLetters, jobs *gocdk.Destination) {
		b.order(adaptertest.Fault{Call: adaptertest.Send, Do: adaptertest.Silence, Times: 1})
		first := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			first <- jobs.Send(ctx, plain("hangs"))[0].Err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := jobs.Send(ctx, plain("waits"))[0].Err; !errors.Is(err, dlqbridge.ErrUnavailable) || errors.Is(err, dlqbridge.ErrUnclear) {
			t.Errorf("got %v, want ErrUnavailable", err)
		}
		if err := <-first; !errors.Is(err, dlqbridge.ErrUnclear) {
			t.Errorf("got %v for the one that hangs, want ErrUnclear", err)
		}
		// The library still has the first at work and queues behind it: this one
		// reaches no driver before its time is up, and never after.
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := jobs.Send(ctx, plain("queued"))[0].Err; err != nil && !errors.Is(err, dlqbridge.ErrUnavailable) {
			t.Errorf("got %v, want it sent or ErrUnavailable", err)
		}
	})
}

// A failed acknowledgement shows with a later receive; the subscription is
// opened anew and the letter comes again.
func TestFailedAcknowledgementShowsLater(t *testing.T) {
	world(t, func(t *testing.T, b *broker, dead *gocdk.DeadLetters, _ *gocdk.Destination) {
		b.add("dead", []byte("a"), nil)
		b.add("dead", []byte("b"), nil)
		letters := receive(t, dead, 2)
		b.failAcks = true
		if err := errors.Join(dead.Delete(t.Context(), letters[:1])...); err != nil {
			t.Errorf("delete: %v, though it is made in the background", err)
		}
		synctest.Wait()
		if _, err := dead.Receive(t.Context(), 10, time.Second); !errors.Is(err, dlqbridge.ErrDenied) {
			t.Errorf("receive: got %v, want the refusal of the acknowledgement", err)
		}
		b.failAcks = false
		if err := dead.Delete(t.Context(), letters[1:])[0]; !errors.Is(err, gocdk.ErrReceiveOver) {
			t.Errorf("a letter of the failed subscription: got %v, want ErrReceiveOver", err)
		}
		again := receive(t, dead, 2)
		if err := errors.Join(dead.Delete(t.Context(), again)...); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if n := len(b.places["dead"].messages); n != 0 {
			t.Errorf("%d letters left, want none", n)
		}
	})
}

func TestWhatCannotBeSettled(t *testing.T) {
	world(t, func(t *testing.T, b *broker, dead *gocdk.DeadLetters, _ *gocdk.Destination) {
		for _, body := range []string{"a", "b"} {
			b.add("dead", []byte(body), nil)
		}
		letters := receive(t, dead, 2)
		if err := dead.Hide(t.Context(), letters[:1], 0)[0]; err != nil {
			t.Errorf("give back: %v", err)
		}
		for verb, err := range map[string]error{
			"delete": dead.Delete(t.Context(), letters[:1])[0], "hide": dead.Hide(t.Context(), letters[:1], 0)[0],
		} {
			if !errors.Is(err, gocdk.ErrReceiveOver) {
				t.Errorf("%s after giving back: got %v, want ErrReceiveOver", verb, err)
			}
		}
		time.Sleep(13 * time.Hour)
		if err := dead.Delete(t.Context(), letters[1:])[0]; !errors.Is(err, gocdk.ErrReceiveOver) {
			t.Errorf("after thirteen hours: got %v, want ErrReceiveOver", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(visibility)
		b.noNack = true
		dead := open(t, b.mux(), gocdk.Options{URL: "test://jobs"}, gocdk.Options{URL: "test://dead"}).DeadLetters.(*gocdk.DeadLetters)
		b.add("dead", []byte("a"), nil)
		letters := receive(t, dead, 1)
		if err := dead.Hide(t.Context(), letters, 0)[0]; !errors.Is(err, dlqbridge.ErrInvalid) {
			t.Errorf("give back where the driver cannot: got %v, want ErrInvalid", err)
		}
		if err := dead.Delete(t.Context(), letters)[0]; err != nil {
			t.Error(err)
		}
	})
}

func TestDescribeAndIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(visibility)
		sent := time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)
		o := gocdk.Options{URL: "test://dead", Describe: func(m *pubsub.Message, l *dlqbridge.Letter) {
			if m.Metadata["id"] != "" {
				l.MessageID, l.SentAt = m.Metadata["id"], sent
			}
		}}
		dead := open(t, b.mux(), gocdk.Options{URL: "test://jobs"}, o).DeadLetters.(*gocdk.DeadLetters)
		b.add("dead", []byte("same"), nil)
		b.add("dead", []byte("same"), nil)
		b.add("dead", []byte("same"), map[string]string{"id": "m-1"})
		letters := receive(t, dead, 3)
		if letters[0].MessageID != letters[1].MessageID {
			t.Error("the same content has two ids, so a letter delivered again would not be recognised")
		}
		if letters[2].MessageID != "m-1" || !letters[2].SentAt.Equal(sent) {
			t.Errorf("got id %q, sent %v, want what Describe says", letters[2].MessageID, letters[2].SentAt)
		}
		if err := errors.Join(dead.Delete(t.Context(), letters)...); err != nil {
			t.Error(err)
		}
		if dead.WeakAcknowledgement() == "" {
			t.Error("nothing is said about the acknowledgement")
		}
	})
}

func TestOptions(t *testing.T) {
	const secret = "s3cret"
	mux := newBroker(visibility).mux()
	for _, o := range []gocdk.Options{
		{}, {URL: "no scheme"}, {URL: "test://user:" + secret + "@[bad"}, {URL: "nodriver://user:" + secret + "@x", Mux: mux},
	} {
		_, err := gocdk.Open(t.Context(), o)
		if !errors.Is(err, dlqbridge.ErrInvalid) || strings.Contains(err.Error(), secret) {
			t.Errorf("open %q: %v", o.URL, err)
		}
		if _, err := gocdk.OpenDestination(t.Context(), o); !errors.Is(err, dlqbridge.ErrInvalid) || strings.Contains(err.Error(), secret) {
			t.Errorf("open destination %q: %v", o.URL, err)
		}
	}
	jobs, err := gocdk.OpenDestination(t.Context(), gocdk.Options{URL: "test://user:" + secret + "@jobs?a=b", Mux: mux})
	if err != nil {
		t.Fatal(err)
	}
	defer jobs.Close(t.Context())
	facts, err := jobs.Facts(t.Context())
	if diff := cmp.Diff(dlqbridge.DestinationFacts{URN: "test://jobs?a=b", BatchCount: 1}, facts); err != nil || diff != "" {
		t.Errorf("facts (-want +got), %v:\n%s", err, diff)
	}
}

// What the library cannot carry does not go.
func TestRefusals(t *testing.T) {
	attribute := func(name, typeText, value string) dlqbridge.Attribute {
		return dlqbridge.Attribute{Name: name, Type: typeText, Value: []byte(value)}
	}
	world(t, func(t *testing.T, b *broker, _ *gocdk.DeadLetters, jobs *gocdk.Destination) {
		for name, change := range map[string]func(*dlqbridge.Outgoing){
			"group key":    func(o *dlqbridge.Outgoing) { o.Payload.GroupKey = "g" },
			"trace header": func(o *dlqbridge.Outgoing) { o.TraceHeader = "Root=1" },
			"type with label": func(o *dlqbridge.Outgoing) {
				o.Payload.Attributes = append(o.Payload.Attributes, attribute("a", "String.json", "{}"))
			},
			"name twice": func(o *dlqbridge.Outgoing) {
				o.Payload.Attributes = append(o.Payload.Attributes, attribute("a", "String", "1"), attribute("a", "String", "2"))
			},
			"name that is not UTF-8": func(o *dlqbridge.Outgoing) {
				o.Payload.Attributes = append(o.Payload.Attributes, attribute("\xff", "String", "1"))
			},
		} {
			batch := plain(name)
			change(&batch[0])
			if err := jobs.Send(t.Context(), batch)[0].Err; !errors.Is(err, dlqbridge.ErrInvalid) {
				t.Errorf("%s: got %v, want ErrInvalid", name, err)
			}
		}
		if n := b.count(adaptertest.Send); n != 0 {
			t.Errorf("%d requests, want none", n)
		}
	})
}
