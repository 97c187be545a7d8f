package check_test

import (
	"testing"

	"google.golang.org/api/option"

	"github.com/dlqbridge/dlqbridge/localstack/check"
)

func TestPubSubOfTheOfficialEmulator(t *testing.T) {
	if testing.Short() {
		t.Skip("starts another program and waits for its deadlines")
	}
	address := check.StartPubSubEmulator(t)
	check.PubSub(t, check.PubSubHarness{
		Options: func() []option.ClientOption { return check.PubSubEmulatorOptions(address) },
		Project: "check", Parallel: true, Known: officialPubSub,
	})
}

// officialPubSub are the rows that the official emulator 0.8.20 is known to
// fail.
var officialPubSub = map[string]string{
	"a topic's retention and labels can be changed":                        "cannot update labels",
	"what is not served is refused":                                        "serves push and more",
	"a detached subscription holds and gets nothing":                       "has no DetachSubscription",
	"settings of a subscription are checked":                               "accepts deadlines under 10 s, short expirations and any label",
	"settings of a subscription can be changed, but not its nature":        "cannot update labels",
	"a pull gives no more than was asked for":                              "accepts a pull of none",
	"a deadline can be moved":                                              "accepts deadlines over 600 s",
	"a retry policy delays what failed, more each time":                    "ignores retry policies",
	"exactly once takes an acknowledgement again":                          "refuses it",
	"whoever waits for dead letters gets one when a deadline is missed":    "forwards only when the source is asked again",
	"a missed deadline holds up its key and no other":                      "ignores retry policies",
	"a dead letter lets the later ones of its key go on":                   "delivers a later one while an earlier one comes again",
	"what fails brings the later ones of its key again":                    "delivers them in any order then",
	"what is acknowledged too early comes again with what it followed":     "does not bring it again",
	"filters choose by attributes":                                         "keeps filters and ignores them",
	"filters are checked":                                                  "accepts any text",
	"seeking to a time brings what was acknowledged since":                 "has no Seek",
	"seeking to a time acknowledges what came before":                      "has no Seek",
	"without retention an acknowledged message stays gone":                 "has no Seek",
	"a topic's retention serves subscriptions made later":                  "has no Seek",
	"seeking keeps the order of a key":                                     "has no Seek",
	"a seek needs a target":                                                "has no Seek",
	"10 MB of data are accepted, more refused":                             "accepts more than 10 MB, and hangs beyond some size",
	"100 attributes are accepted, 101 refused":                             "accepts any number",
	"an ordering key has up to 1,024 bytes":                                "accepts any length",
	"attribute names have 1 to 256 bytes":                                  "accepts any length, also none",
	"attribute names must not start with goog":                             "accepts them",
	"attribute values have up to 1,024 bytes":                              "accepts any length",
	"one request has one ordering key":                                     "accepts several",
	"the service gives IDs and times":                                      "ignores what the publisher says",
	"Nack leads to the dead-letter topic":                                  "forwards only when the source is asked again",
	"an acknowledgement by a call lets a stream that is held back go on":   "knows no flow control",
	"a stream is held back by bytes too, and let go by rejections":         "knows no flow control",
	"the messages of a key go to one stream":                               "gives a pull what a stream has of the key",
	"a stream is refused what the service refuses":                         "accepts a malformed ack ID on a stream",
	"exactly once refuses an ack ID that is over":                          "accepts one whose deadline was missed",
	"a stream answers keep-alives and tells the subscription's properties": "does not answer keep-alives",
}
