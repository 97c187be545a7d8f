package wire

import "context"

// Caller is what the front door knows of whoever makes a call: it travels in
// the call's context because Service.Call takes only what the body says.
type Caller struct {
	// Host is the address the client used, as in "127.0.0.1:4566"; queue URLs
	// are made from it so that the client can come back to them.
	Host string
	// AccessKey is the key ID of the request's signature; empty without one.
	AccessKey string
}

type callerKey struct{}

// WithCaller returns ctx with c in it.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns the caller in ctx; the zero Caller if there is none.
func CallerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}
