package gcppubsub

import "github.com/dlqbridge/dlqbridge/adapters/retry"

// DefaultTries with package retry's waits is some 6 s at most, 3 s on average:
// longer than a blip of the service and far shorter than the lease of a letter
// in hand.
const DefaultTries = 7

// surely is for calls whose lost answer is the caller's business. Credentials
// are not waited for: the client renews its own.
func surely(p retry.Policy) retry.Policy {
	if p.Tries == 0 {
		p.Tries = DefaultTries
	}
	p.CredentialsFor = -1
	return p
}

// repeatable is for calls that may be made twice: a lost answer is tried again
// too.
func repeatable(p retry.Policy) retry.Policy {
	p = surely(p)
	p.Repeatable = true
	return p
}
