// Package sqs is the local cloud's Amazon SQS: standard, fair and FIFO queues
// with dead-letter queues, strict where the service is strict.
//
// Sources, read in November 2026: "Amazon SQS API Reference" and "Amazon SQS
// Developer Guide" (quotas, message metadata, visibility timeout, dead-letter
// queues, FIFO delivery logic), and the wire shapes that others recorded from
// the service. Where a comment names a page, it is a page of these two.
package sqs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/dlqbridge/dlqbridge/localstack/clock"
	"github.com/dlqbridge/dlqbridge/localstack/wire"
)

// DefaultInFlightLimit is how many received and undeleted messages a queue
// may have (page "Amazon SQS message quotas").
const DefaultInFlightLimit = 120_000

// Service is one account's SQS. Calls may be concurrent.
type Service struct {
	clock         *clock.Clock
	inFlightLimit int

	// One lock for all queues: a receive on one queue moves messages to
	// another, and a call holds it for microseconds.
	mu      sync.Mutex
	queues  map[string]*queue
	deleted map[string]deletion // by name; a name may be used again after a minute
	moves   []*moveTask         // oldest first
	order   uint64              // the last position given to a message
}

var _ wire.Service = (*Service)(nil)

// New returns an SQS without queues that lives by c. An inFlightLimit of zero
// means DefaultInFlightLimit.
func New(c *clock.Clock, inFlightLimit int) *Service {
	if inFlightLimit == 0 {
		inFlightLimit = DefaultInFlightLimit
	}
	return &Service{
		clock:         c,
		inFlightLimit: inFlightLimit,
		queues:        map[string]*queue{},
		deleted:       map[string]deletion{},
	}
}

// Name implements wire.Service.
func (s *Service) Name() string { return "sqs" }

// Call implements wire.Service.
func (s *Service) Call(ctx context.Context, operation string, request []byte) ([]byte, error) {
	carryOut, known := operations[operation]
	if !known {
		return nil, refuse("UnsupportedOperation", "The local cloud does not serve the SQS operation %s.", operation)
	}
	if err := checkText(request); err != nil {
		return nil, err
	}
	answer, err := carryOut(ctx, s, request)
	if err != nil {
		return nil, err
	}
	if answer == nil {
		return nil, nil
	}
	response, err := json.Marshal(answer)
	if err != nil {
		return nil, fmt.Errorf("encode the answer to %s: %w", operation, err)
	}
	return response, nil
}

type operation func(ctx context.Context, s *Service, request []byte) (any, error)

var operations = map[string]operation{
	"CreateQueue":                  decode((*Service).createQueue),
	"DeleteQueue":                  decode((*Service).deleteQueue),
	"GetQueueUrl":                  decode((*Service).getQueueURL),
	"GetQueueAttributes":           decode((*Service).getQueueAttributes),
	"SetQueueAttributes":           decode((*Service).setQueueAttributes),
	"ListQueues":                   decode((*Service).listQueues),
	"ListDeadLetterSourceQueues":   decode((*Service).listDeadLetterSourceQueues),
	"PurgeQueue":                   decode((*Service).purgeQueue),
	"TagQueue":                     decode((*Service).tagQueue),
	"UntagQueue":                   decode((*Service).untagQueue),
	"ListQueueTags":                decode((*Service).listQueueTags),
	"SendMessage":                  decode((*Service).sendMessage),
	"SendMessageBatch":             decode((*Service).sendMessageBatch),
	"ReceiveMessage":               decode((*Service).receiveMessage),
	"DeleteMessage":                decode((*Service).deleteMessage),
	"DeleteMessageBatch":           decode((*Service).deleteMessageBatch),
	"ChangeMessageVisibility":      decode((*Service).changeMessageVisibility),
	"ChangeMessageVisibilityBatch": decode((*Service).changeMessageVisibilityBatch),
	"StartMessageMoveTask":         decode((*Service).startMessageMoveTask),
	"ListMessageMoveTasks":         decode((*Service).listMessageMoveTasks),
	"CancelMessageMoveTask":        decode((*Service).cancelMessageMoveTask),
}

// decode turns a method on typed requests and answers into an operation.
func decode[In, Out any](method func(*Service, context.Context, *In) (*Out, error)) operation {
	return func(ctx context.Context, s *Service, request []byte) (any, error) {
		in := new(In)
		decoder := json.NewDecoder(bytes.NewReader(request))
		// A member we do not know is a feature we do not have; silence about
		// it would be worse than a refusal.
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(in); err != nil && !errors.Is(err, io.EOF) {
			return nil, serialization(err)
		}
		out, err := method(s, ctx, in)
		if err != nil || out == nil {
			return nil, err
		}
		return out, nil
	}
}

func serialization(err error) *wire.Error {
	return &wire.Error{Status: 400, Type: "com.amazon.coral.service#SerializationException", Message: err.Error()}
}

// checkText refuses what Go's decoder would silently turn into U+FFFD: bytes
// that are no UTF-8 and halves of surrogate pairs.
func checkText(request []byte) error {
	if !utf8.Valid(request) {
		return serialization(errors.New("the request is not UTF-8"))
	}
	if loneSurrogate(request) {
		return refuse("InvalidMessageContents", "Invalid binary character was found in the request, the set of allowed characters is %s", allowedCharacters)
	}
	return nil
}

func loneSurrogate(request []byte) bool {
	if !bytes.Contains(request, []byte(`\ud`)) && !bytes.Contains(request, []byte(`\uD`)) {
		return false
	}
	for i := 0; i+1 < len(request); i++ {
		if request[i] != '\\' {
			continue
		}
		if request[i+1] != 'u' {
			i++
			continue
		}
		switch unit := hexUnit(request[i:]); {
		case unit >= 0xDC00 && unit <= 0xDFFF:
			return true
		case unit >= 0xD800 && unit <= 0xDBFF:
			if next := hexUnit(request[min(i+6, len(request)):]); next < 0xDC00 || next > 0xDFFF {
				return true
			}
			i += 11
		default:
			i += 5
		}
	}
	return false
}

// hexUnit reads an escape like \u00e4 at the start of text; -1 if there is none.
func hexUnit(text []byte) int {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	unit := 0
	for _, c := range text[2:6] {
		digit := strings.IndexByte("0123456789abcdefABCDEF", c)
		switch {
		case digit < 0:
			return -1
		case digit > 15:
			digit -= 6
		}
		unit = unit<<4 | digit
	}
	return unit
}
