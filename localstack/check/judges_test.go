package check_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/dlqbridge/dlqbridge/localstack/check"
)

// endpointConfig reaches an endpoint of this machine with any credentials.
func endpointConfig(url string) aws.Config {
	return aws.Config{
		Region:       "us-east-1",
		BaseEndpoint: &url,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "local", SecretAccessKey: "local"}, nil
		}),
	}
}

// TestSQSOfAnotherEndpoint runs the check list on the endpoint that the
// environment names, with the clock of the local cloud if it has one.
func TestSQSOfAnotherEndpoint(t *testing.T) {
	url := os.Getenv("LOCALCLOUD_CHECK_ENDPOINT")
	if url == "" {
		t.Skip("LOCALCLOUD_CHECK_ENDPOINT names no endpoint to check")
	}
	h := check.Harness{Config: endpointConfig(url)}
	if hasClock(t, url) {
		h.Advance = func(d time.Duration) { advance(t, url, d) }
	}
	check.SQS(t, h)
}

func hasClock(t *testing.T, url string) bool {
	t.Helper()
	response, err := http.Get(url + "/_local/health")
	if err != nil {
		t.Fatalf("reach the endpoint: %v", err)
	}
	defer response.Body.Close()
	var health struct{ Ready bool }
	return response.StatusCode == http.StatusOK && json.NewDecoder(response.Body).Decode(&health) == nil && health.Ready
}

func advance(t *testing.T, url string, d time.Duration) {
	t.Helper()
	body := fmt.Sprintf(`{"advance":%q}`, d)
	response, err := http.Post(url+"/_local/clock", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatalf("advance the clock: %v", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("advance the clock: %s", response.Status)
	}
}

func TestSQSOfMoto(t *testing.T) {
	if testing.Short() {
		t.Skip("starts another program")
	}
	check.SQS(t, check.Harness{Config: endpointConfig(check.StartMoto(t)), Known: motoSQS})
}

// motoSQS are the rows that moto 5.2 is known to fail.
var motoSQS = map[string]string{
	"a dead-letter queue may refuse its sources":                 "keeps RedriveAllowPolicy and does not look at it",
	"a deleted queue is gone, its name free after a minute":      "frees the name at once",
	"a purge empties the queue, once a minute":                   "purges as often as asked",
	"a queue of another account does not exist":                  "does not look at the owner's account",
	"a redrive policy needs a dead-letter queue that exists":     "accepts other kinds and other counts, answers 500 to a policy that is no JSON",
	"attributes are checked":                                     "accepts any value and any name",
	"lists come in pages":                                        "answers in one page",
	"names are checked":                                          "accepts dots",
	"operations that are not served are refused":                 "serves AddPermission",
	"a deduplication id belongs to FIFO queues":                  "accepts it on standard queues",
	"a delay is checked":                                         "accepts a negative delay",
	"a group id on a standard queue is kept and orders nothing":  "accepts a group id of 129 characters",
	"a noisy group does not hold up the others on standard":      "has no fair queues",
	"an attribute may not be a system attribute we do not know":  "accepts any",
	"an empty body is refused":                                   "accepts it",
	"attribute names are checked":                                "accepts reserved prefixes and stray periods",
	"attribute types and values are checked":                     "accepts empty and missing values",
	"digests cover body, attributes and system attributes":       "has no digest of system attributes",
	"forbidden characters are refused":                           "accepts them",
	"numbers must be numbers":                                    "accepts any text as a Number",
	"parallel receivers get each message once":                   "gives some twice under parallel load",
	"ten attributes are accepted, eleven refused":                "accepts eleven",
	"a long poll learns that the queue is deleted":               "sleeps on if the poll was there first",
	"a message that is not in flight cannot be hidden":           "accepts it",
	"an old handle of a standard queue deletes nothing":          "deletes with any handle",
	"waits and timeouts of a receive are checked":                "accepts unknown system attribute names",
	"a bad entry of a send fails alone":                          "answers SenderFault as a text, which the SDK cannot read",
	"no entries, eleven entries and repeated ids are refused":    "accepts an empty batch",
	"one MiB per batch counts bodies and attributes in bytes":    "does not count attributes",
	"one MiB per message counts body and attributes in bytes":    "counts characters, and no attributes",
	"the queue's own maximum size is kept":                       "refuses the batch as a whole",
	"a message that is received too often moves with all it has": "gives no DeadLetterQueueSourceArn",
	"a long poll wakes when a move task brings a message":        "has no move tasks",
	"a move task can go elsewhere, one at a time":                "has no move tasks",
	"a move task fails on a message without a source":            "has no move tasks",
	"a move task keeps its rate and can be cancelled":            "has no move tasks",
	"a move task needs a dead-letter queue":                      "has no move tasks",
	"a move task takes dead letters home as new messages":        "has no move tasks",
	"FIFO: a group id and a deduplication id are needed":         "accepts any characters in ids",
	"FIFO: a long poll wakes when the group is free":             "sleeps on",
	"FIFO: a receive attempt can be repeated":                    "does not know ReceiveRequestAttemptId",
	"FIFO: a repeat is swallowed also after the deletion":        "forgets the id with the message",
	"FIFO: a repeat within five minutes is swallowed":            "answers a repeat with an id of its own",
	"FIFO: deduplication can be per group":                       "deduplicates per queue",
	"FIFO: sequence numbers grow":                                "draws them by lot",
}
