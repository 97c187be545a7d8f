package ledger_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/ledger"
	"github.com/dlqbridge/dlqbridge/localstack"
)

// One delivery of one message, as a worker handles it.
func ExampleKit() {
	cloud := localstack.New(localstack.Options{}) // in production: config.LoadDefaultConfig
	defer cloud.Close()
	client := dynamodb.NewFromConfig(cloud.AWSConfig())
	ctx := context.Background()
	if _, err := client.CreateTable(ctx, ledger.TableSchema("agent-ledger")); err != nil {
		fmt.Println(err)
		return
	}
	kit, err := ledger.NewKit(ledger.Options{Client: client, Table: "agent-ledger", MaxAttempts: 5})
	if err != nil {
		fmt.Println(err)
		return
	}

	// handle says whether the message may be deleted.
	handle := func(taskID, messageID, markAttribute string) bool {
		mark, err := ledger.ParseMark(markAttribute)
		if err != nil {
			return false
		}
		run, err := kit.Begin(ctx, ledger.Task{ID: taskID, MessageID: messageID, Redrive: mark, Type: "order", IdempotencyKey: "order-7"})
		if err != nil {
			// A *ledger.BusyError says until when to keep the message invisible.
			return ledger.Acknowledge(err)
		}
		defer run.Close(ctx)
		result, err := run.Step(ctx, ledger.StepSpec{
			ID: "0001#charge", Tool: "charge_card", Dependency: "payments", Input: map[string]any{"cents": 4200},
		}, func(_ context.Context, call ledger.Call) (ledger.Result, error) {
			fmt.Println("charging with key", call.IdempotencyKey)
			return ledger.Result{Receipt: "ch_1"}, nil
		})
		if err == nil {
			fmt.Println("receipt", result.Receipt, "reused", result.Reused)
			err = run.Checkpoint(ctx, "s3://state/7", "0001#charge")
		}
		if err == nil && markAttribute == "" {
			err = ledger.WithCause(errors.New("the mail server is down"), dlqbridge.CauseDependencyUnavailable, "E503")
		}
		if err != nil {
			fmt.Println("failed:", err)
			_ = run.Fail(ctx, ledger.FailureOf(err)) // unsaved, the lease ends by itself
			return false
		}
		return run.Complete(ctx) == nil
	}

	fmt.Println("delete:", handle("t-7", "m-1", ""))
	fmt.Println("delete:", handle("t-7", "m-2", `{"rec":"r_aaaaaaaaaaaaaaaaaaaaaaaaaa","job":"j_1","n":1,"act":"retry"}`))
	fmt.Println("delete:", handle("t-7", "m-3", `{"rec":"r_aaaaaaaaaaaaaaaaaaaaaaaaaa","job":"j_1","n":1,"act":"retry"}`))
	// Output:
	// charging with key order-7:0001#charge
	// receipt ch_1 reused false
	// failed: the mail server is down
	// delete: false
	// receipt ch_1 reused true
	// delete: true
	// delete: true
}
