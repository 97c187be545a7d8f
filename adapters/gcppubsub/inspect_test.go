package gcppubsub_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"cloud.google.com/go/iam/apiv1/iampb"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/gcppubsub"
	"github.com/dlqbridge/dlqbridge/localstack"
)

func TestInspectSubscription(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.topic("lost")
		w.subscription("leaky", "orders", func(s *pubsubpb.Subscription) {
			s.DeadLetterPolicy = &pubsubpb.DeadLetterPolicy{DeadLetterTopic: topicName("lost"), MaxDeliveryAttempts: 7}
			s.EnableExactlyOnceDelivery, s.EnableMessageOrdering = true, true
			s.MessageRetentionDuration = durationpb.New(time.Hour)
			s.ExpirationPolicy = &pubsubpb.ExpirationPolicy{}
			s.Filter = `attributes:a`
		})
		look := func(name string) gcppubsub.SubscriptionFacts {
			o := w.options()
			o.Subscription = name
			f, err := gcppubsub.InspectSubscription(t.Context(), o)
			must(t, err)
			return f
		}
		f := look("billing")
		if f.Name != subscriptionName("billing") || f.Topic != topicName("orders") || f.Delivery != "pull" || f.AckDeadline != time.Minute ||
			f.Retention != 7*24*time.Hour || f.Expires != 31*24*time.Hour || f.ExactlyOnce || f.Ordered ||
			f.DeadLetterTopic != topicName("orders-dead") || f.MaxAttempts != 5 || f.DeadLetterErr != nil ||
			!slices.Equal(f.DeadLetterReceivers, []string{subscriptionName("billing-dead")}) {
			t.Errorf("billing: %+v", f)
		}
		f = look("leaky")
		if f.Expires != 0 || f.Retention != time.Hour || !f.ExactlyOnce || !f.Ordered || f.Filter != "attributes:a" || f.MaxAttempts != 7 {
			t.Errorf("leaky: %+v", f)
		}
		if f.DeadLetterErr != nil || len(f.DeadLetterReceivers) != 0 {
			t.Errorf("a dead-letter topic that nobody reads: %q, %v", f.DeadLetterReceivers, f.DeadLetterErr)
		}
		// The local cloud has no rights to ask about; that is no error.
		if f.RightsErr == nil || f.Agent != gcppubsub.AgentUnknown {
			t.Errorf("rights %v, agent %s", f.RightsErr, f.Agent)
		}
		for _, topic := range []string{"lost", "orders"} {
			must(t, w.topics.DeleteTopic(t.Context(), &pubsubpb.DeleteTopicRequest{Topic: topicName(topic)}))
		}
		if f = look("leaky"); f.Topic != "" || !errors.Is(f.DeadLetterErr, dlqbridge.ErrNotFound) {
			t.Errorf("topics are gone: topic %q, %v", f.Topic, f.DeadLetterErr)
		}
		o := w.options()
		o.Subscription = "missing"
		_, err := gcppubsub.InspectSubscription(t.Context(), o)
		meanings(t, "missing", []error{err}, dlqbridge.ErrNotFound)
	})
}

func TestInspectTopic(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.subscription("mail", "orders", nil)
		o := w.options()
		o.Topic = "orders"
		f, err := gcppubsub.InspectTopic(t.Context(), o)
		must(t, err)
		if f.Name != topicName("orders") || !slices.Equal(f.Receivers, []string{subscriptionName("billing"), subscriptionName("mail")}) {
			t.Errorf("got %+v", f)
		}
		o.Topic = "missing"
		_, err = gcppubsub.InspectTopic(t.Context(), o)
		meanings(t, "missing", []error{err}, dlqbridge.ErrNotFound)
		w.fault(localstack.Fault{Operation: "GetTopic", Do: localstack.DoError, Code: "PERMISSION_DENIED"})
		_, err = gcppubsub.InspectTopic(t.Context(), o)
		meanings(t, "denied", []error{err}, dlqbridge.ErrDenied)
	})
}

// policies is a service that has rights to ask about, which the local cloud
// has not.
type policies struct {
	pubsubpb.UnimplementedPublisherServer
	iampb.UnimplementedIAMPolicyServer
	granted []string
	policy  *iampb.Policy
}

func (p policies) GetTopic(_ context.Context, in *pubsubpb.GetTopicRequest) (*pubsubpb.Topic, error) {
	return &pubsubpb.Topic{Name: in.GetTopic()}, nil
}

func (p policies) ListTopicSubscriptions(context.Context, *pubsubpb.ListTopicSubscriptionsRequest) (*pubsubpb.ListTopicSubscriptionsResponse, error) {
	return &pubsubpb.ListTopicSubscriptionsResponse{}, nil
}

func (p policies) TestIamPermissions(context.Context, *iampb.TestIamPermissionsRequest) (*iampb.TestIamPermissionsResponse, error) {
	return &iampb.TestIamPermissionsResponse{Permissions: p.granted}, nil
}

func (p policies) GetIamPolicy(context.Context, *iampb.GetIamPolicyRequest) (*iampb.Policy, error) {
	return p.policy, nil
}

// The caller's rights and those of the service's own agent are asked for.
func TestInspectRights(t *testing.T) {
	const agent = "serviceAccount:service-123@gcp-sa-pubsub.iam.gserviceaccount.com"
	bound := func(role, member string) *iampb.Policy {
		return &iampb.Policy{Bindings: []*iampb.Binding{{Role: role, Members: []string{"user:a@example.com", member}}}}
	}
	for name, tt := range map[string]struct {
		service policies
		missing []string
		agent   gcppubsub.AgentRight
	}{
		"all": {policies{granted: []string{"pubsub.topics.publish", "pubsub.topics.get"}, policy: bound("roles/pubsub.publisher", agent)}, nil, gcppubsub.AgentGranted},
		"wider": {
			policies{granted: []string{"pubsub.topics.get"}, policy: bound("roles/pubsub.admin", agent)},
			[]string{"pubsub.topics.publish"},
			gcppubsub.AgentGranted,
		},
		"another role":  {policies{policy: bound("roles/pubsub.viewer", agent)}, []string{"pubsub.topics.publish", "pubsub.topics.get"}, gcppubsub.AgentNotHere},
		"another agent": {policies{policy: bound("roles/pubsub.publisher", "serviceAccount:x@y.iam.gserviceaccount.com")}, []string{"pubsub.topics.publish", "pubsub.topics.get"}, gcppubsub.AgentNotHere},
	} {
		t.Run(name, func(t *testing.T) {
			door := bufconn.Listen(1 << 16)
			server := grpc.NewServer()
			pubsubpb.RegisterPublisherServer(server, tt.service)
			iampb.RegisterIAMPolicyServer(server, tt.service)
			go server.Serve(door) //nolint:errcheck // it ends with Stop
			defer server.Stop()
			conn, err := grpc.NewClient("passthrough:///service", grpc.WithTransportCredentials(insecure.NewCredentials()),
				grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return door.DialContext(ctx) }))
			must(t, err)
			defer conn.Close()
			client, err := gcppubsub.NewClient(t.Context(), option.WithGRPCConn(conn), option.WithTelemetryDisabled())
			must(t, err)
			f, err := gcppubsub.InspectTopic(t.Context(), gcppubsub.Options{Client: client, Project: "acme", Topic: "orders-dead"})
			must(t, err)
			if f.RightsErr != nil || !slices.Equal(f.MissingRights, tt.missing) || f.Agent != tt.agent {
				t.Errorf("missing %q (%v), agent %s", f.MissingRights, f.RightsErr, f.Agent)
			}
		})
	}
}
