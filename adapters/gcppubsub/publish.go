package gcppubsub

import (
	"context"
	"fmt"
	"sync"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/proto"

	"github.com/dlqbridge/dlqbridge"
)

// Send implements dlqbridge.Destination. A request has one ordering key, so a
// batch makes one for each of its keys, and one for what has none; they go out
// side by side. A message that Pub/Sub would refuse is refused here, so that it
// cannot fail its batch mates.
//
// Of a key, nothing is sent after a message that was refused or whose request
// failed: later ones answer ErrHeldBack. Nothing is paused beyond the call: the
// next Send begins anew, so a caller keeps the order by dealing with the failed
// message first.
func (d *Destination) Send(ctx context.Context, batch []dlqbridge.Outgoing) []dlqbridge.SendResult {
	results := make([]dlqbridge.SendResult, len(batch))
	lines := map[string][]int{}
	var keys []string
	for i, o := range batch {
		key := o.Payload.GroupKey
		if _, known := lines[key]; !known {
			keys = append(keys, key)
		}
		lines[key] = append(lines[key], i)
	}
	// The caller has journalled the batch: if the process dies from here on,
	// the sends are in doubt until evidence settles them.
	var sending sync.WaitGroup
	slots := make(chan struct{}, maxKeys)
	for _, key := range keys {
		slots <- struct{}{}
		sending.Go(func() {
			defer func() { <-slots }()
			d.sendLine(ctx, batch, lines[key], results, key != "")
		})
	}
	sending.Wait()
	for i := range results {
		if err := results[i].Err; err != nil {
			results[i].Err = fmt.Errorf("send message %d of %d to %s: %w", i+1, len(batch), d.topic, err)
		}
	}
	return results
}

// parcel is one message on its way with its position in the batch.
type parcel struct {
	position int
	message  *pubsubpb.PubsubMessage
	size     int
}

// sendLine sends the messages of one key, or those without, at positions, and
// puts the answers where they belong.
func (d *Destination) sendLine(ctx context.Context, batch []dlqbridge.Outgoing, positions []int, results []dlqbridge.SendResult, keyed bool) {
	var line []parcel
	for n, p := range positions {
		m, err := d.prepare(batch[p])
		if err == nil {
			line = append(line, parcel{p, m, proto.Size(m)})
			continue
		}
		results[p].Err = err
		if keyed {
			for _, later := range positions[n+1:] {
				results[later].Err = heldBack(err)
			}
			break
		}
	}
	var blocked error
	for _, piece := range d.pieces(line) {
		if blocked != nil {
			for _, p := range piece {
				results[p.position].Err = blocked
			}
			continue
		}
		err := d.publish(ctx, piece, results)
		if err != nil && keyed {
			blocked = heldBack(err)
		}
	}
}

// heldBack is the answer for what must not overtake a message that failed.
func heldBack(first error) error {
	if dlqbridge.Retryable(first) {
		return fmt.Errorf("%w: %w", dlqbridge.ErrUnavailable, ErrHeldBack)
	}
	return fmt.Errorf("%w: %w", dlqbridge.ErrConflict, ErrHeldBack)
}

// prepare makes the message, or says why it is not even tried.
func (d *Destination) prepare(o dlqbridge.Outgoing) (*pubsubpb.PubsubMessage, error) {
	if err := Check(o, d.limits()); err != nil {
		return nil, err
	}
	m := messageOf(o, d.to)
	if _, narrowed := m.GetAttributes()[dlqbridge.MarkToName]; d.to != "" && !narrowed && d.receivers.Load() > 1 {
		return nil, invalid("its %d attributes leave no place for %s, and the topic has %d subscriptions that would all get it",
			len(m.GetAttributes()), dlqbridge.MarkToName, d.receivers.Load())
	}
	return m, nil
}

// pieces cuts a line into requests by count and by the bytes that each will
// have. A message over the documented size goes alone, for the service to judge.
func (d *Destination) pieces(line []parcel) [][]parcel {
	const overhead = 6 // tag and length of one message
	base := len(d.topic) + overhead
	var pieces [][]parcel
	begin, bytes := 0, base
	for i, p := range line {
		size := p.size + overhead
		if i > begin && (i-begin == MaxRequestMessages || bytes+size > MaxRequestBytes) {
			pieces = append(pieces, line[begin:i])
			begin, bytes = i, base
		}
		bytes += size
	}
	if begin < len(line) {
		pieces = append(pieces, line[begin:])
	}
	return pieces
}

// publish makes one request, once, and answers for its messages. The error is
// the first that any of them has.
func (d *Destination) publish(ctx context.Context, piece []parcel, results []dlqbridge.SendResult) error {
	in := &pubsubpb.PublishRequest{Topic: d.topic}
	for _, p := range piece {
		in.Messages = append(in.Messages, p.message)
	}
	out, err := call(ctx, d.o.CallTimeout, in, d.o.Client.topics.Publish)
	ids := out.GetMessageIds()
	for i, p := range piece {
		switch {
		case err != nil:
			results[p.position].Err = err
		case i < len(ids) && ids[i] != "":
			results[p.position].MessageID = ids[i]
		default:
			results[p.position].Err = fmt.Errorf("%w: the answer does not mention this message", dlqbridge.ErrUnclear)
		}
	}
	if err == nil && len(ids) < len(piece) {
		err = results[piece[len(ids)].position].Err
	}
	return err
}
