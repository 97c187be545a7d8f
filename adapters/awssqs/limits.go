package awssqs

import "time"

// Numbers of the service. Source of each: "Amazon SQS Developer Guide", the
// page named, read on 2026-11-30.
const (
	// MaxMessageBytes is the most any queue takes for one message, and
	// MaxBatchBytes for a batch together (page "Amazon SQS message quotas").
	MaxMessageBytes = 1_048_576
	MaxBatchBytes   = 1_048_576
	// MaxBatchEntries of a batch (page "Amazon SQS message quotas", batched
	// message size and entries). A receive gives at most as many.
	MaxBatchEntries = 10
	// MaxAttributes of one message (page "Amazon SQS message quotas").
	MaxAttributes = 10
	// MaxInFlight of one queue, standard and FIFO (pages "Amazon SQS standard
	// queue quotas" and "Amazon SQS FIFO queue quotas").
	MaxInFlight = 120_000
	// MaxInFlightTime is how long one receive can hide a message, extensions
	// included (page "Amazon SQS visibility timeout"): 43,200 s.
	MaxInFlightTime = 12 * time.Hour
	// The longest a receive can wait is maxPoll (page "Amazon SQS short and
	// long polling"); minPoll is ours: shorter is a short poll.
	maxPoll = 20 * time.Second
	minPoll = time.Second
	// Most characters: maxIDLength of a group or deduplication id, and
	// maxNameLength of an attribute's name or type (pages "SendMessage" and
	// "Amazon SQS message metadata").
	maxIDLength   = 128
	maxNameLength = 256
	// How long a FIFO queue swallows repeats is dedupWindow (page "Exactly-once
	// processing in Amazon SQS").
	dedupWindow = 5 * time.Minute
	// The largest page of ListDeadLetterSourceQueues (page of that name).
	maxSourcesPage = 1000
)

// Numbers of our own.
const (
	// DefaultCallTimeout bounds one request, so that a connection that went
	// silent cannot hold a worker for ever; SQS answers within a second or two.
	DefaultCallTimeout = 30 * time.Second
	// The leaseMargin is kept from the twelve hours: a request is on its way
	// for a moment, and one that asks for a second too much is refused.
	leaseMargin = 5 * time.Second
	// How often (fifoSendTries) a send to a FIFO queue is made in all when
	// answers get lost.
	fifoSendTries = 3
)
