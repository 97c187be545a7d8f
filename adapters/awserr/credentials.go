package awserr

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/dlqbridge/dlqbridge"
)

// Credentials is a provider that can be told to start over. The SDK's default
// chain reads the shared credentials file once, at the start; a process that
// runs for days then never sees the keys that somebody rotated. After
// Invalidate the chain is built anew by Load, so the file is read again.
//
// A failure to get credentials carries dlqbridge.ErrCredentials.
type Credentials struct {
	// Load builds the chain, usually by config.LoadDefaultConfig(ctx) and its
	// Credentials. Required. It may be called again at any time.
	Load func(context.Context) (aws.CredentialsProvider, error)

	mu    sync.Mutex
	chain aws.CredentialsProvider
}

var _ aws.CredentialsProvider = (*Credentials)(nil)

// Retrieve implements aws.CredentialsProvider; the chain caches and refreshes.
func (c *Credentials) Retrieve(ctx context.Context) (aws.Credentials, error) {
	chain, err := c.current(ctx)
	if err == nil {
		var found aws.Credentials
		if found, err = chain.Retrieve(ctx); err == nil {
			return found, nil
		}
	}
	if isContext(err) && ctx.Err() != nil {
		return aws.Credentials{}, err
	}
	return aws.Credentials{}, fmt.Errorf("%w: %w", dlqbridge.ErrCredentials, err)
}

func (c *Credentials) current(ctx context.Context) (aws.CredentialsProvider, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.chain != nil {
		return c.chain, nil
	}
	chain, err := c.Load(ctx)
	if err != nil {
		return nil, fmt.Errorf("load credentials: %w", err)
	}
	if chain == nil {
		return nil, errors.New("load credentials: none are configured")
	}
	if _, caches := chain.(*aws.CredentialsCache); !caches {
		chain = aws.NewCredentialsCache(chain)
	}
	c.chain = chain
	return chain, nil
}

// Invalidate forgets the chain and what it has cached; the next Retrieve
// starts over.
func (c *Credentials) Invalidate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.chain = nil
}

// Renew returns what a Policy's Renew should be for a client's provider:
// forgetting what the provider has cached, if it can. The provider is found
// as it is, as *Credentials or as *aws.CredentialsCache.
func Renew(provider aws.CredentialsProvider) func() {
	if p, ok := provider.(interface{ Invalidate() }); ok {
		return p.Invalidate
	}
	return nil
}
