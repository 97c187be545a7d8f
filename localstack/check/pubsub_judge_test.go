package check_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pubsub "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/dlqbridge/dlqbridge/localstack/check"
)

// emulatorJars are where Google's SDK puts its emulator.
var emulatorJars = []string{
	"/usr/lib/google-cloud-sdk", "/usr/share/google-cloud-sdk", "/opt/google-cloud-sdk", "/opt/homebrew/share/google-cloud-sdk",
	"/usr/local/share/google-cloud-sdk", "/snap/google-cloud-cli/current", "$HOME/google-cloud-sdk", "$CLOUDSDK_ROOT_DIR",
}

// emulatorJar finds the official emulator: where PUBSUB_EMULATOR_JAR says, or
// in the usual places of the SDK.
func emulatorJar() string {
	if path := os.Getenv("PUBSUB_EMULATOR_JAR"); path != "" {
		return path
	}
	for _, root := range emulatorJars {
		found, _ := filepath.Glob(filepath.Join(os.ExpandEnv(root), "platform/pubsub-emulator/lib/cloud-pubsub-emulator-*.jar"))
		if len(found) > 0 {
			return found[len(found)-1]
		}
	}
	return ""
}

// startEmulator starts the official emulator on a free port and returns its
// address.
func startEmulator(t *testing.T) string {
	t.Helper()
	java, err := exec.LookPath("java")
	if err != nil {
		t.Skip("needs java: the official Pub/Sub emulator is a Java program")
	}
	jar := emulatorJar()
	if jar == "" {
		t.Skip("needs the official Pub/Sub emulator: install the component pubsub-emulator of Google's SDK, or name its jar in PUBSUB_EMULATOR_JAR")
	}
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := probe.Addr().String()
	probe.Close()
	_, port, _ := net.SplitHostPort(address)
	var output bytes.Buffer
	command := exec.Command(java, "-XX:+UseSerialGC", "-Xmx512m", "-jar", jar, "--host=127.0.0.1", "--port="+port)
	command.Stdout, command.Stderr = &output, &output
	if err := command.Start(); err != nil {
		t.Skipf("needs java: %v", err)
	}
	ended := make(chan struct{})
	go func() {
		// It ends when the test kills it, so its error says nothing.
		_ = command.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = command.Process.Kill()
		<-ended
	})
	client, err := pubsub.NewTopicAdminClient(t.Context(), emulatorOptions(address)...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	patience := time.NewTimer(time.Minute)
	defer patience.Stop()
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_, err := client.GetTopic(ctx, &pubsubpb.GetTopicRequest{Topic: "projects/p/topics/none"})
		cancel()
		if err != nil && strings.Contains(err.Error(), "NotFound") {
			return address
		}
		select {
		case <-again.C:
		case <-ended:
			t.Skipf("needs java: the emulator stopped: %s", output.String())
		case <-patience.C:
			t.Skip("needs java: the emulator does not answer within a minute")
		}
	}
}

func emulatorOptions(address string) []option.ClientOption {
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<26)))
	if err != nil {
		panic(err) // the options are constants
	}
	return []option.ClientOption{option.WithGRPCConn(conn), option.WithTelemetryDisabled()}
}

func TestPubSubOfTheOfficialEmulator(t *testing.T) {
	if testing.Short() {
		t.Skip("starts another program and waits for its deadlines")
	}
	address := startEmulator(t)
	check.PubSub(t, check.PubSubHarness{
		Options: func() []option.ClientOption { return emulatorOptions(address) },
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
