package gocdk

import (
	"cmp"
	"fmt"
	"net/url"

	"gocloud.dev/gcerrors"

	"github.com/dlqbridge/dlqbridge"
)

// ErrReceiveOver is a letter that is no longer in our hands: it was given back,
// its subscription has failed, or it was kept for too long. Nothing was done
// with it; it comes again. Its meaning is dlqbridge.ErrNotFound.
var ErrReceiveOver = fmt.Errorf("%w: the receive of this letter is over", dlqbridge.ErrNotFound)

// refusal is the meaning of a code with which a call was surely not carried
// out; nil for every other code.
func refusal(err error) error {
	switch gcerrors.Code(err) {
	case gcerrors.NotFound:
		return dlqbridge.ErrNotFound
	case gcerrors.PermissionDenied:
		return dlqbridge.ErrDenied
	case gcerrors.ResourceExhausted:
		return dlqbridge.ErrThrottled
	case gcerrors.InvalidArgument:
		return dlqbridge.ErrInvalid
	}
	return nil
}

// wrap gives an error its meaning, or the other one where the code has none.
func wrap(err, other error) error {
	return fmt.Errorf("%w: %w", cmp.Or(refusal(err), other), err)
}

// openError is the error of opening a URL. Its cause may repeat the URL, so of
// one with credentials only the code is kept.
func openError(err error, text, place string) error {
	if u, bad := url.Parse(text); bad == nil && u.User == nil {
		return fmt.Errorf("open %s: %w", place, wrap(err, dlqbridge.ErrInvalid))
	}
	return fmt.Errorf("open %s: %w: the driver refuses, code %v (its text may hold credentials)",
		place, cmp.Or(refusal(err), dlqbridge.ErrInvalid), gcerrors.Code(err))
}
