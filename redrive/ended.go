package redrive

import "github.com/dlqbridge/dlqbridge"

// JobStateError is an order that a job in its state cannot follow, such as to
// continue one that has ended.
type JobStateError struct {
	Job   string
	State dlqbridge.JobState
	// Why says what the order is for.
	Why string
}

// Error implements error.
func (e *JobStateError) Error() string {
	return "job " + e.Job + " is " + string(e.State) + ": " + e.Why
}

// Unwrap gives it its meaning.
func (e *JobStateError) Unwrap() error { return dlqbridge.ErrInvalid }
