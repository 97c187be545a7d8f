package serve

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awsdynamodb"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/config"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/prom"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/wire"
	"github.com/dlqbridge/dlqbridge/localstack"
)

// A record held because a run may be going is judged anew when that is over,
// by the machine, and nothing is forgiven that waits for a person.
func TestSurveyJudgesAnewWhatIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := localstack.New(localstack.Options{})
		defer cloud.Close()
		ctx := t.Context()
		queues, tables := sqs.NewFromConfig(cloud.AWSConfig()), dynamodb.NewFromConfig(cloud.AWSConfig())
		for _, q := range []string{"orders", "orders-dlq"} {
			if _, err := queues.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &q}); err != nil {
				t.Fatal(err)
			}
		}
		c, err := config.Load(config.Source{File: "x", Env: func(string) (string, bool) { return "", false }, ReadFile: func(string) ([]byte, error) {
			return []byte("routes: [{name: orders, sqs: {dead_letter_queue: orders-dlq, source_queue: orders}}]"), nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := awsdynamodb.CreateTables(ctx, tables, awsdynamodb.TableNames{Records: c.Tables.Records, Payloads: c.Tables.Payloads, Ledger: c.Tables.Ledger}); err != nil {
			t.Fatal(err)
		}
		b, err := wire.New(wire.Options{Config: c, AWS: cloud.AWSConfig(), Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		s := New(Options{Bridge: b, Metrics: prom.New(prom.Options{Routes: []string{"orders"}, Version: "test"}), Log: b.Log})

		text := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
		if _, err := tables.PutItem(ctx, &dynamodb.PutItemInput{TableName: &c.Tables.Ledger, Item: map[string]types.AttributeValue{
			"task_id": text("t-1"), "entry": text("task"), "status": text("running"), "run_id": text("run-1"),
			"intent_before_call": &types.AttributeValueMemberBOOL{Value: true}, "updated_at": text(time.Now().UTC().Format(time.RFC3339)),
			"lease_until": text(time.Now().Add(10 * time.Minute).UTC().Format(time.RFC3339)),
		}}); err != nil {
			t.Fatal(err)
		}
		facts, err := json.Marshal(map[string]any{"v": 1, "task": "t-1", "cause": "timeout"})
		if err != nil {
			t.Fatal(err)
		}
		url, err := queues.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String("orders-dlq")})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := queues.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: url.QueueUrl, MessageBody: aws.String("x"), MessageAttributes: map[string]sqstypes.MessageAttributeValue{
			"agent.ctx": {DataType: aws.String("String"), StringValue: aws.String(string(facts))},
		}}); err != nil {
			t.Fatal(err)
		}
		in, _, err := b.Intake(ctx, c.Routes[0], nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := in.UntilEmpty(ctx); err != nil {
			t.Fatal(err)
		}

		look := func() dlqbridge.Control {
			t.Helper()
			if err := s.survey(ctx); err != nil {
				t.Fatal(err)
			}
			for l, err := range b.Store.List(ctx, dlqbridge.Filter{Now: time.Now()}) {
				if err != nil {
					t.Fatal(err)
				}
				return l.Control
			}
			t.Fatal("no record")
			return dlqbridge.Control{}
		}
		if c := look(); c.Status != dlqbridge.StatusUnderInvestigation || c.RecheckAt.IsZero() || c.Version != 1 {
			t.Errorf("before it is due: %+v", c)
		}
		time.Sleep(11 * time.Minute) // virtual
		if c := look(); c.Status != dlqbridge.StatusClassified || c.Effect != dlqbridge.EffectNone || c.Version != 2 || c.Move.Verb != dlqbridge.VerbRecheck {
			t.Errorf("when it is due: %+v", c)
		}
		if c := look(); c.Version != 2 {
			t.Errorf("judged again without need: %+v", c)
		}
		if _, err := s.mover.Recheck(context.WithoutCancel(ctx), "r_aaaaaaaaaaaaaaaaaaaaaaaaaa"); err == nil {
			t.Error("a record that is not there was judged")
		}
	})
}
