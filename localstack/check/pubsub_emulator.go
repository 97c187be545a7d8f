package check

import (
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

// StartPubSubEmulator starts the official Pub/Sub emulator on a free port and
// returns its address; it ends with the test. Where Java or the emulator is
// missing the test is skipped.
func StartPubSubEmulator(t *testing.T) string {
	t.Helper()
	java, err := exec.LookPath("java")
	if err != nil {
		t.Skip("needs java: the official Pub/Sub emulator is a Java program")
	}
	jar := emulatorJar()
	if jar == "" {
		t.Skip("needs the official Pub/Sub emulator: install the component pubsub-emulator of Google's SDK, or name its jar in PUBSUB_EMULATOR_JAR")
	}
	address := freeAddress(t)
	_, port, _ := net.SplitHostPort(address)
	client, err := pubsub.NewTopicAdminClient(t.Context(), PubSubEmulatorOptions(address)...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	command := exec.Command(java, "-XX:+UseSerialGC", "-Xmx512m", "-jar", jar, "--host=127.0.0.1", "--port="+port)
	startJudge(t, "java", command, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := client.GetTopic(ctx, &pubsubpb.GetTopicRequest{Topic: "projects/p/topics/none"})
		return err != nil && strings.Contains(err.Error(), "NotFound")
	})
	return address
}

// PubSubEmulatorOptions connect a client to an emulator.
func PubSubEmulatorOptions(address string) []option.ClientOption {
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<26)))
	if err != nil {
		panic(err) // the options are constants
	}
	return []option.ClientOption{option.WithGRPCConn(conn), option.WithTelemetryDisabled()}
}
