package check

import (
	"context"

	"github.com/dlqbridge/dlqbridge/adapters/gocdk"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/config"
)

// url opens the places of a route by URL, and says what they do not promise.
// Most drivers ask their broker only with the first receive or send.
func (c *routeCheck) url(ctx context.Context, u config.URL) {
	letters, err := gocdk.Open(ctx, gocdk.Options{URL: u.DeadLetter, Now: c.b.Now})
	if err != nil {
		c.say(LevelError, c.r.DeadLetterPlace(), "is the driver for this kind of URL built in (-tags gocdk_drivers)?", "%v", err)
		return
	}
	c.say(LevelOK, c.r.DeadLetterPlace(), "", "%s", letters.WeakAcknowledgement())
	if err := letters.Close(ctx); err != nil {
		c.say(LevelWarning, c.r.DeadLetterPlace(), "", "%v", err)
	}
	if _, err := c.b.Source(ctx, c.r); err != nil {
		c.say(LevelError, c.r.SourcePlace(), "", "%v", err)
	}
	if u.MaxBytes == 0 || u.MaxAttributes == 0 {
		c.say(LevelOK, c.r.SourcePlace(), "say max_bytes and max_attributes, if the broker has such limits",
			"its limits are not known: what is too large is refused by the broker, and only when it is sent")
	}
}
