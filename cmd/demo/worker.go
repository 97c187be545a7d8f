package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/ledger"
)

// crashCode is how a worker dies on purpose: at once, like kill -9, without a
// deferred call or a flush.
const crashCode = 137

// worker is one agent process of the demo's fleet. It is written as a team
// would write its own: the SDK, the kit, and its tools.
type worker struct {
	inbox   inbox
	outside string
	kit     *ledger.Kit
}

// inbox is where a worker's tasks come from.
type inbox interface {
	// receive waits a second for one delivery; nil is none.
	receive(ctx context.Context) (*delivery, error)
	// answer says that a delivery is done, or gives it back.
	answer(ctx context.Context, d *delivery, done bool) error
}

// delivery is a task as one delivery brings it.
type delivery struct {
	task  ledger.Task
	mark  string // the redrive's, empty on a first life
	body  []byte
	first bool
	// bury puts the message into the dead-letter place as it came, with the facts.
	bury func(context.Context, ledger.Facts) error
	// receipt is what the broker wants back.
	receipt string
}

// newWorker reads what the fleet gave it by environment.
func newWorker(ctx context.Context, cfg aws.Config) (*worker, error) {
	kit, err := ledger.NewKit(ledger.Options{
		Client: dynamodb.NewFromConfig(cfg), Table: ledgerTable, Lease: visibility,
		Backoff: ledger.Backoff{Tries: 2, Base: 5 * time.Millisecond, Max: 20 * time.Millisecond},
	})
	if err != nil {
		return nil, err
	}
	w := &worker{outside: os.Getenv(envOutside), kit: kit}
	if subscription := os.Getenv(envSubscription); subscription != "" {
		w.inbox, err = newSubscription(ctx, subscription, os.Getenv(envDead))
	} else {
		w.inbox = &queue{os.Getenv(envQueue), os.Getenv(envDead), sqs.NewFromConfig(cfg)}
	}
	return w, err
}

// run works until ctx ends, which it does when the fleet closes our input. A
// delivery in hand is brought to its end.
func (w *worker) run(ctx context.Context) error {
	for ctx.Err() == nil {
		d, err := w.inbox.receive(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the end of ctx is how it is stopped
		}
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		if d == nil {
			continue
		}
		if err := w.handle(context.WithoutCancel(ctx), d); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// handle runs one delivery. It acknowledges only what is done, or is in the
// dead-letter place by the worker's own hand; a failed one is given back, and
// the broker counts it until it is dead.
func (w *worker) handle(ctx context.Context, d *delivery) error {
	done, err := w.attempt(ctx, d)
	if err != nil {
		return err
	}
	if err := w.inbox.answer(ctx, d, done); err != nil {
		return fmt.Errorf("answer for the message: %w", err)
	}
	return nil
}

func (w *worker) attempt(ctx context.Context, d *delivery) (done bool, err error) {
	var j job
	if err := json.Unmarshal(d.body, &j); err != nil {
		return false, fmt.Errorf("read the task: %w", err)
	}
	t := d.task
	t.Versions = dlqbridge.Versions{Workflow: "2026.11", Model: "m-1"}
	if t.Redrive, err = ledger.ParseMark(d.mark); err != nil {
		return false, err
	}
	run, err := w.kit.Begin(ctx, t)
	if err != nil {
		return ledger.Acknowledge(err), nil
	}
	defer run.Close(ctx)
	if err := w.work(ctx, run, t.ID, j, d.first); err != nil {
		failure := ledger.FailureOf(err)
		if hopeless(failure) {
			// A further delivery would only fail again. Nil: the dead-letter place has it.
			err := run.DeadLetter(ctx, failure, d.bury)
			return err == nil, err
		}
		return false, run.Fail(ctx, failure)
	}
	return true, run.Complete(ctx)
}

// hopeless: the cause must be mended before the same work can succeed.
func hopeless(f ledger.LastError) bool {
	cause := dlqbridge.Cause(f.Class)
	return cause.Valid() && !dlqbridge.DefaultCausePolicy(cause).Retryable
}

// work is the agent: look the customer up, let the model write, charge the
// card, mail the result.
func (w *worker) work(ctx context.Context, run *ledger.Run, task string, j job, first bool) error {
	if j.Trouble == troubleMixUp {
		return ledger.WithCause(errors.New("the context holds data of two customers"), dlqbridge.CauseCritical, "TENANT_MIX")
	}
	if j.Trouble == troubleFlaky && first {
		return ledger.WithCause(errors.New("connection reset by peer"), dlqbridge.CauseTimeout, "ECONNRESET")
	}
	err := run.Plan(
		ctx,
		ledger.PlannedStep{ID: "0004#charge", Tool: "card-processor"},
		ledger.PlannedStep{ID: "0005#mail", Tool: "mailer"},
	)
	if err != nil {
		return err
	}
	c := call{Task: task, Customer: j.Customer, Trouble: j.Trouble}
	if err := w.step(ctx, run, "0001#lookup", "directory", "/lookup", ledger.EffectFree, c); err != nil {
		return err
	}
	for n := range j.Chapters {
		id := fmt.Sprintf("0002#chapter-%d", n+1)
		if at := run.Resume(); at != nil && at.Step >= id {
			continue // written by an earlier run and kept
		}
		if err := w.step(ctx, run, id, "model", "/model", ledger.EffectFree, c); err != nil {
			return err
		}
		if err := run.Checkpoint(ctx, "chapters/"+task+"/"+id, id); err != nil {
			return err
		}
	}
	if err := w.step(ctx, run, "0003#write", "model", "/model", ledger.EffectFree, c); err != nil {
		return err
	}
	if err := run.AddCost("0.0125"); err != nil { // what the model took
		return err
	}
	if j.Trouble == troubleTurns && w.turnLimit() {
		return ledger.WithCause(errors.New("max turns (10) exceeded"), dlqbridge.CausePolicyLimit, "MaxTurnsExceeded")
	}
	if j.Trouble == troubleCrashBefore && !w.calm() {
		os.Exit(crashCode)
	}
	if j.Trouble == troubleLong {
		c.Trouble = troubleOutage
	}
	if err := w.step(ctx, run, "0004#charge", "card-processor", "/charge", ledger.EffectMutating, c); err != nil {
		return err
	}
	if j.Trouble == troubleCrashKept && !w.calm() {
		os.Exit(crashCode)
	}
	return w.step(ctx, run, "0005#mail", "mailer", "/mail", ledger.EffectMutating, c)
}

// step is one tool call through the kit.
func (w *worker) step(ctx context.Context, run *ledger.Run, id, tool, path string, class ledger.EffectClass, c call) error {
	spec := ledger.StepSpec{ID: id, Tool: tool, Dependency: tool, Class: class, Input: map[string]string{"customer": c.Customer}}
	if path == "/mail" {
		spec.Reconcile, spec.Settled = w.mailed, time.Second
	}
	_, err := run.Step(ctx, spec, func(ctx context.Context, k ledger.Call) (ledger.Result, error) {
		c.Key = k.IdempotencyKey
		if c.Trouble == troubleCrashCall && path == "/charge" && !w.calm() {
			os.Exit(crashCode)
		}
		a, err := ask(ctx, w.outside, path, c)
		if err != nil {
			return ledger.Result{}, explain(err)
		}
		if c.Trouble == troubleCrashAfter && path == "/charge" && !w.calm() {
			os.Exit(crashCode)
		}
		if path == "/model" && !json.Valid([]byte(a.Text)) {
			err := ledger.NothingChanged(errors.New("model output is not the JSON that was asked for"))
			return ledger.Result{}, ledger.Permanent(ledger.WithCause(err, dlqbridge.CauseOutputContract, "ModelBehaviorError"))
		}
		return ledger.Result{Receipt: cmp.Or(a.Receipt, "read")}, nil
	})
	return err
}

// mailed looks in the mailer's book, which has every mail at once.
func (w *worker) mailed(ctx context.Context, k ledger.Call) (ledger.Answer, error) {
	a, err := ask(ctx, w.outside, "/mailed", call{Key: k.IdempotencyKey})
	if r, ok := errors.AsType[*refusal](err); ok && r.status == 404 {
		return ledger.NotDone(), nil
	}
	if err != nil {
		return ledger.Answer{}, err
	}
	return ledger.Done(a.Receipt), nil
}

// explain says what the worker knows about a refusal: the outside answered, so
// nothing changed.
func explain(err error) error {
	r, ok := errors.AsType[*refusal](err)
	if !ok {
		return err
	}
	cause := dlqbridge.CauseInvalidInput
	switch r.status {
	case 401:
		cause = dlqbridge.CausePermission
	case 503:
		cause = dlqbridge.CauseDependencyUnavailable
	}
	err = ledger.WithCause(ledger.NothingChanged(err), cause, r.Code)
	if r.status == 503 {
		return ledger.Transient(err)
	}
	return ledger.Permanent(err)
}

// calm: the day's crashes are over.
func (w *worker) calm() bool { return os.Getenv(envCalm) != "" }

// turnLimit: the limit of ten turns is still in force.
func (w *worker) turnLimit() bool { return os.Getenv(envTurns) == "" }

// waitForEnd ends the context when the parent closes our standard input, so
// that no worker outlives the demo.
func waitForEnd(cancel context.CancelFunc) {
	_, _ = io.Copy(io.Discard, os.Stdin)
	cancel()
}
