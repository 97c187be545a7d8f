package gocdk_test

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"gocloud.dev/gcerrors"
	"gocloud.dev/pubsub"
	"gocloud.dev/pubsub/driver"

	"github.com/dlqbridge/dlqbridge/adapters/adaptertest"
)

// broker is a driver of the Go CDK with faults to order: topics by name, each
// with one subscription.
type broker struct {
	mu         sync.Mutex
	visibility time.Duration
	places     map[string]*place
	faults     []adaptertest.Fault
	requests   map[adaptertest.Call]int
	retryable  bool // what the driver says of its errors
	failAcks   bool
	noNack     bool
}

type place struct {
	messages []*stored
	last     int
}

type stored struct {
	driver.Message

	visibleAt time.Time
}

func newBroker(visibility time.Duration) *broker {
	return &broker{
		visibility: visibility,
		places:     map[string]*place{"dead": {}, "jobs": {}},
		requests:   map[adaptertest.Call]int{},
	}
}

// mux opens test://NAME.
func (b *broker) mux() *pubsub.URLMux {
	mux := new(pubsub.URLMux)
	mux.RegisterTopic("test", b)
	mux.RegisterSubscription("test", b)
	return mux
}

func (b *broker) OpenTopicURL(_ context.Context, u *url.URL) (*pubsub.Topic, error) {
	return pubsub.NewTopic(topic{b, u.Host}, nil), nil
}

func (b *broker) OpenSubscriptionURL(_ context.Context, u *url.URL) (*pubsub.Subscription, error) {
	return pubsub.NewSubscription(subscription{topic{b, u.Host}}, nil, nil), nil
}

// codeError is an error with the library's code.
type codeError struct{ code gcerrors.ErrorCode }

func (e codeError) Error() string { return fmt.Sprintf("by order: %v", e.code) }

// begin counts a request and answers with the fault made to it.
func (b *broker) begin(ctx context.Context, call adaptertest.Call) (lost, err error) {
	b.mu.Lock()
	b.requests[call]++
	var do adaptertest.What
	for i, f := range b.faults {
		if f.Call == call && f.Times != 0 {
			b.faults[i].Times--
			do = f.Do
			break
		}
	}
	b.mu.Unlock()
	switch do {
	case adaptertest.Denied:
		return nil, codeError{gcerrors.PermissionDenied}
	case adaptertest.Throttled:
		return nil, codeError{gcerrors.ResourceExhausted}
	case adaptertest.LostAnswer:
		return codeError{gcerrors.Unknown}, nil
	case adaptertest.Silence:
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return nil, nil
}

func (b *broker) count(call adaptertest.Call) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.requests[call]
}

func (b *broker) order(f adaptertest.Fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if f.Times == 0 {
		f.Times = -1
	}
	b.faults = append(b.faults, f)
}

// add puts a message into a place.
func (b *broker) add(name string, body []byte, metadata map[string]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.places[name]
	p.last++
	m := &stored{Message: driver.Message{
		Body: slices.Clone(body), Metadata: maps.Clone(metadata), AckID: p.last, LoggableID: strconv.Itoa(p.last), AsFunc: func(any) bool { return false },
	}}
	p.messages = append(p.messages, m)
}

type topic struct {
	b    *broker
	name string
}

func (t topic) SendBatch(ctx context.Context, messages []*driver.Message) error {
	// As the drivers do: the callback comes first, then the request.
	for _, m := range messages {
		if m.BeforeSend == nil {
			continue
		}
		if err := m.BeforeSend(func(any) bool { return false }); err != nil {
			return err
		}
	}
	lost, err := t.b.begin(ctx, adaptertest.Send)
	switch {
	case err != nil:
		return err
	case t.b.places[t.name] == nil:
		return codeError{gcerrors.NotFound}
	}
	for _, m := range messages {
		t.b.add(t.name, m.Body, m.Metadata)
	}
	return lost
}

func (t topic) IsRetryable(err error) bool {
	_, ordered := err.(codeError) //nolint:errorlint // ours, unwrapped
	return ordered && t.b.retryable
}

func (topic) As(any) bool             { return false }
func (topic) ErrorAs(error, any) bool { return false }
func (topic) Close() error            { return nil }

func (topic) ErrorCode(err error) gcerrors.ErrorCode {
	if e, ok := err.(codeError); ok { //nolint:errorlint // ours, unwrapped
		return e.code
	}
	return gcerrors.Unknown
}

type subscription struct{ topic }

// ReceiveBatch answers with nothing after a moment, as drivers do.
func (s subscription) ReceiveBatch(ctx context.Context, limit int) ([]*driver.Message, error) {
	if _, err := s.b.begin(ctx, adaptertest.Receive); err != nil {
		return nil, err
	}
	for range 2 {
		if messages, err := s.take(limit); len(messages) > 0 || err != nil {
			return messages, err
		}
		timer := time.NewTimer(100 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
	}
	return nil, nil
}

func (s subscription) take(limit int) ([]*driver.Message, error) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	p := s.b.places[s.name]
	if p == nil {
		return nil, codeError{gcerrors.NotFound}
	}
	var out []*driver.Message
	for _, m := range p.messages {
		if len(out) < limit && !m.visibleAt.After(time.Now()) {
			m.visibleAt = time.Now().Add(s.b.visibility)
			given := m.Message
			given.Body = slices.Clone(m.Body)
			out = append(out, &given)
		}
	}
	return out, nil
}

func (s subscription) SendAcks(_ context.Context, ids []driver.AckID) error {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if s.b.failAcks {
		return codeError{gcerrors.PermissionDenied}
	}
	p := s.b.places[s.name]
	p.messages = slices.DeleteFunc(p.messages, func(m *stored) bool { return slices.Contains(ids, m.AckID) })
	return nil
}

func (s subscription) CanNack() bool { return !s.b.noNack }

func (s subscription) SendNacks(_ context.Context, ids []driver.AckID) error {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	for _, m := range s.b.places[s.name].messages {
		if slices.Contains(ids, m.AckID) {
			m.visibleAt = time.Time{}
		}
	}
	return nil
}
