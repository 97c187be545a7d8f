package gcppubsub

import "time"

// Numbers of the service. Source of each: the Pub/Sub documentation, page
// "Pub/Sub quotas and limits", or the comments of google/pubsub/v1/pubsub.proto
// ("the proto"), read on 2026-11-30.
const (
	// MaxRequestBytes and MaxRequestMessages are the most that one publish
	// takes, and MaxMessageBytes the most that one message can have (quotas and
	// limits: 10 MB, 1,000 messages, 10 MB). The service's refusal draws its
	// line at 10 MiB, so a message of this size has room for the encoding.
	MaxRequestBytes    = 10_000_000
	MaxRequestMessages = 1_000
	MaxMessageBytes    = 10_000_000
	// MaxAttributes of one message, MaxNameBytes of an attribute's name and
	// MaxValueBytes of its value (quotas and limits, message).
	MaxAttributes = 100
	MaxNameBytes  = 256
	MaxValueBytes = 1_024
	// MaxKeyBytes of an ordering key (quotas and limits, message).
	MaxKeyBytes = 1_024
	// MaxHide is the longest deadline that one request can set (the proto,
	// ModifyAckDeadlineRequest.ack_deadline_seconds: 600 s). There is no limit
	// to how often it is set anew.
	MaxHide = 600 * time.Second
	// DefaultMaxAttempts is what a dead-letter policy means that says 0 (the
	// proto, DeadLetterPolicy.max_delivery_attempts).
	DefaultMaxAttempts = 5
	// A dead-letter policy or a retry policy without numbers: the proto,
	// RetryPolicy.
	defaultBackoffMin = 10 * time.Second
	defaultBackoffMax = 600 * time.Second
	// A subscription without an expiration policy is deleted after so long
	// without use (the proto, Subscription.expiration_policy).
	defaultExpiration = 31 * 24 * time.Hour
	// The most ack ids of one request and the most bytes (quotas and limits,
	// acknowledge: 512 KiB; the count is that of the Go client since v2.6.2).
	maxAckIDs   = 1_000
	maxAckBytes = 512 << 10
	// Most messages of one pull (as with publishing; the service gives fewer).
	maxPull = 1_000
	// How many names a list gives at once (the proto says nothing; the service
	// may give fewer).
	listPage = 1_000
)

// Numbers of our own.
const (
	// DefaultCallTimeout bounds one request, so that a connection that went
	// silent cannot hold a worker for ever; the service answers within a second.
	DefaultCallTimeout = 30 * time.Second
	// Letters are hidden for at least firstLease from their receive: longer
	// than the time after which intake first extends, and short enough that
	// they come again soon after a crash. The service's default is 10 s.
	firstLease = 60 * time.Second
	// A subscription whose own deadline is enoughLease needs no extension at
	// the receive: intake has extended by then.
	enoughLease = 30 * time.Second
	// Ordering keys are published side by side, so that one whose request hangs
	// does not keep the others waiting; maxKeys at a time.
	maxKeys = 16
	// MinPull is the shortest that a pull waits. Its deadline covers the way of
	// the answer too: ten messages of 10 MB need some seconds, and what has not
	// arrived by then is lost until its acknowledgement deadline has passed.
	minPull = 5 * time.Second
	// More than an ack id takes in a request besides itself is ackOverhead.
	ackOverhead = 8
)
