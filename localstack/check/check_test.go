package check_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlqbridge/dlqbridge/localstack"
	"github.com/dlqbridge/dlqbridge/localstack/check"
)

// inFlightLimit makes the limits on messages in flight small enough to try.
const inFlightLimit = 25

// ours runs each row on a fresh local cloud in virtual time.
func ours() check.Harness {
	return check.Harness{
		InFlightLimit: inFlightLimit,
		Around: func(t *testing.T, row func(*testing.T, check.Harness)) {
			synctest.Test(t, func(t *testing.T) {
				cloud := localstack.New(localstack.Options{InFlightLimit: inFlightLimit})
				defer cloud.Close()
				row(t, check.Harness{
					Config:        cloud.AWSConfig(),
					Advance:       func(d time.Duration) { cloud.Clock().Advance(d) },
					Settle:        synctest.Wait,
					InFlightLimit: inFlightLimit,
				})
			})
		},
	}
}

func TestSQSOfTheLocalCloud(t *testing.T) { check.SQS(t, ours()) }
