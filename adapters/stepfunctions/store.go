package stepfunctions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awserr/awsread"
	"github.com/dlqbridge/dlqbridge/adapters/retry"
)

// DefaultName is the store's name where none is given.
const DefaultName = "stepfunctions"

// Defaults and bounds, each with its reason.
const (
	// DefaultParallel is small: GetExecutionHistory refills at some 20 calls a
	// second and account ("Step Functions service quotas", read 2026-11-30).
	DefaultParallel = 5
	// DefaultTimeout lets a long history of many pages be read.
	DefaultTimeout = 10 * time.Second
	// DefaultRecheck is when a RUNNING execution is looked at again. Standard
	// executions may take a year, so no end can be named.
	DefaultRecheck = 15 * time.Minute
	// The most that GetExecutionHistory returns at once, and the most that a
	// history holds ("Step Functions service quotas", read
	// 2026-11-30).
	pageSize  = 1000
	maxEvents = 25000
)

// Client is what the store needs of a Step Functions client.
type Client interface {
	DescribeExecution(ctx context.Context, in *sfn.DescribeExecutionInput, opts ...func(*sfn.Options)) (*sfn.DescribeExecutionOutput, error)
	GetExecutionHistory(ctx context.Context, in *sfn.GetExecutionHistoryInput, opts ...func(*sfn.Options)) (*sfn.GetExecutionHistoryOutput, error)
}

// Options are the choices of a Store.
type Options struct {
	// Client is required.
	Client Client
	// Name is the store's name on findings; empty means DefaultName.
	Name string
	// Execution is the ARN of a task's execution, with {taskId}, {runId},
	// {idempotencyKey} or {tenant} in it; empty means "{runId}". Without {runId}
	// it promises that a task has one execution, under that name, so what the
	// execution did not begin the task did not begin.
	Execution string
	// Mutating names the states that change something outside; nil means every
	// Task state, an empty list none.
	Mutating []string
	// Recheck is how long after a look at a RUNNING execution the next one makes
	// sense; 0 means DefaultRecheck.
	Recheck time.Duration
	// Parallel and Timeout bound the asking; 0 means the defaults above.
	Parallel int
	Timeout  time.Duration
}

// Store reads execution histories. It may be used concurrently.
type Store struct {
	o      Options
	asking awsread.Asking
	retry  retry.Policy
}

var _ dlqbridge.Store = (*Store)(nil)

// placeholders of Options.Execution.
var placeholders = []string{"{taskId}", "{runId}", "{idempotencyKey}", "{tenant}"}

// New returns a Store; an error names the option that is missing or wrong.
func New(o Options) (*Store, error) {
	o.Name, o.Execution = cmp.Or(o.Name, DefaultName), cmp.Or(o.Execution, "{runId}")
	o.Parallel, o.Timeout, o.Recheck = cmp.Or(o.Parallel, DefaultParallel), cmp.Or(o.Timeout, DefaultTimeout), cmp.Or(o.Recheck, DefaultRecheck)
	if o.Client == nil {
		return nil, errors.New("stepfunctions: Client is required")
	}
	rest := o.Execution
	for _, p := range placeholders {
		rest = strings.ReplaceAll(rest, p, "")
	}
	switch {
	case strings.ContainsAny(rest, "{}"):
		return nil, fmt.Errorf("stepfunctions: Execution %q: only %s can stand in it", o.Execution, strings.Join(placeholders, ", "))
	case rest == o.Execution:
		return nil, fmt.Errorf("stepfunctions: Execution %q is the same for each task: put {taskId} or {runId} in it", o.Execution)
	case o.Execution != "{runId}" && !isExecution(expand(o.Execution, dlqbridge.Question{TaskID: "x", RunID: "x", IdempotencyKey: "x", Tenant: "x"})):
		return nil, fmt.Errorf("stepfunctions: Execution %q is no ARN of an execution (arn:aws:states:REGION:ACCOUNT:execution:MACHINE:NAME)", o.Execution)
	case slices.Contains(o.Mutating, ""):
		return nil, errors.New("stepfunctions: Mutating names an empty state")
	}
	s := &Store{o: o, asking: awsread.Asking{
		Store: o.Name, Place: "the execution", Needs: "states:DescribeExecution and states:GetExecutionHistory",
		Refused: "is its ARN right, and its region the client's?", Parallel: o.Parallel, Timeout: o.Timeout,
	}}
	if c, ok := o.Client.(interface{ Options() sfn.Options }); ok {
		s.retry = awsread.Policy(c.Options().Credentials)
	}
	return s, nil
}

func expand(template string, q dlqbridge.Question) string {
	return strings.NewReplacer("{taskId}", q.TaskID, "{runId}", q.RunID, "{idempotencyKey}", q.IdempotencyKey, "{tenant}", q.Tenant).Replace(template)
}

// isExecution recognises the ARN of a standard execution:
// arn:PARTITION:states:REGION:ACCOUNT:execution:MACHINE:NAME.
func isExecution(arn string) bool {
	parts := strings.Split(arn, ":")
	return len(parts) == 8 && parts[0] == "arn" && parts[2] == "states" && parts[5] == "execution" && !slices.Contains(parts, "")
}

// Name implements dlqbridge.Store.
func (s *Store) Name() string { return s.o.Name }

// Ask implements dlqbridge.Store: one description and the pages of one history
// per task.
func (s *Store) Ask(ctx context.Context, questions []dlqbridge.Question) []dlqbridge.Testimony {
	return s.asking.Ask(ctx, questions, s.read)
}

func (s *Store) read(ctx context.Context, q dlqbridge.Question) (dlqbridge.Testimony, error) {
	arn := expand(s.o.Execution, q)
	if !isExecution(arn) {
		return s.silence(q, "the task names no execution: Execution gives no ARN of a standard one"), nil
	}
	d, err := awsread.Call(ctx, s.retry, func(ctx context.Context) (*sfn.DescribeExecutionOutput, error) {
		return s.o.Client.DescribeExecution(ctx, &sfn.DescribeExecutionInput{ExecutionArn: aws.String(arn)})
	})
	if gone(err) {
		return s.silence(q, "no such execution; its history may be past retention"), nil
	}
	if err != nil {
		return dlqbridge.Testimony{}, fmt.Errorf("describe execution: %w", err)
	}
	events, err := s.history(ctx, arn)
	if gone(err) {
		return s.silence(q, "the execution's history is past retention"), nil
	}
	if err != nil {
		return dlqbridge.Testimony{}, fmt.Errorf("read execution history: %w", err)
	}
	return s.testify(q, arn, d, events), nil
}

func gone(err error) bool {
	_, is := errors.AsType[*types.ExecutionDoesNotExist](err)
	return is
}

// history reads all pages. Inputs and outputs stay where they are: a history
// is read for what happened.
func (s *Store) history(ctx context.Context, arn string) ([]types.HistoryEvent, error) {
	var events []types.HistoryEvent
	in := &sfn.GetExecutionHistoryInput{ExecutionArn: aws.String(arn), MaxResults: pageSize, IncludeExecutionData: aws.Bool(false)}
	for {
		out, err := awsread.Call(ctx, s.retry, func(ctx context.Context) (*sfn.GetExecutionHistoryOutput, error) {
			return s.o.Client.GetExecutionHistory(ctx, in)
		})
		if err != nil {
			return nil, err
		}
		events = append(events, out.Events...)
		if aws.ToString(out.NextToken) == "" {
			return events, nil
		}
		if len(events) > maxEvents {
			return nil, awsread.UnavailableError(fmt.Sprintf("the history has more than %d events", maxEvents))
		}
		in.NextToken = out.NextToken
	}
}

func (s *Store) silence(q dlqbridge.Question, detail string) dlqbridge.Testimony {
	return dlqbridge.Testimony{Findings: []dlqbridge.Finding{{
		Store: s.o.Name, Step: dlqbridge.AllSteps, State: dlqbridge.EffectUnknown, Proof: dlqbridge.ProofNothingFound,
		AsOf: q.Now, Detail: detail,
	}}}
}
