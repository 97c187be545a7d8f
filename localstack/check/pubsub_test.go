package check_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlqbridge/dlqbridge/localstack"
	"github.com/dlqbridge/dlqbridge/localstack/check"
)

// ourPubSub runs each row on a fresh local cloud: in virtual time where the
// client can do with it, otherwise with a clock that is moved by hand.
func ourPubSub() check.PubSubHarness {
	return check.PubSubHarness{
		Around: func(t *testing.T, inBubble bool, row func(*testing.T, check.PubSubHarness)) {
			run := func(t *testing.T, settle func()) {
				cloud := localstack.New(localstack.Options{})
				// After the row's own clean-up, which closes its clients.
				t.Cleanup(cloud.Close)
				row(t, check.PubSubHarness{
					Options: cloud.PubSubOptions,
					Project: localstack.Project,
					Advance: func(d time.Duration) { cloud.Clock().Advance(d) },
					Settle:  settle,
				})
			}
			if inBubble {
				synctest.Test(t, func(t *testing.T) { run(t, synctest.Wait) })
			} else {
				run(t, nil)
			}
		},
	}
}

func TestPubSubOfTheLocalCloud(t *testing.T) { check.PubSub(t, ourPubSub()) }
