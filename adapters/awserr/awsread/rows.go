package awsread

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/retry"
)

// Bounds of DynamoDB's keys, in bytes ("Quotas and limits in Amazon DynamoDB",
// read 2026-11-30).
const (
	maxHashKey  = 2048
	maxRangeKey = 1024
)

// Querier is what reading a task's rows needs of a DynamoDB client.
type Querier interface {
	Query(ctx context.Context, in *dynamodb.QueryInput, opts ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
}

// Key is one key attribute and its value for a task.
type Key struct {
	Attribute string
	// Value is a template with {taskId}, {runId}, {idempotencyKey} and {tenant}.
	// A task that lacks one of them has no row that could be found.
	Value string
	// Number: the attribute is a number (N), not a string (S).
	Number bool
}

// Rows declares which rows of a table are a task's.
type Rows struct {
	Client Querier
	Table  string
	// Hash is the table's hash key. Range is that of the range key, if the
	// task's rows are fewer than the hash key has; a Value that ends in * means
	// all that begin so.
	Hash, Range Key
	// Max is how many rows a task may have: one with more is not told in part.
	Max   int
	Retry retry.Policy
}

var placeholders = []string{"{taskId}", "{runId}", "{idempotencyKey}", "{tenant}"}

// Check names what is missing or wrong in the keys.
func (r Rows) Check() error {
	if err := r.Hash.check("Hash", false); err != nil {
		return err
	}
	if r.Range != (Key{}) {
		if err := r.Range.check("Range", true); err != nil {
			return err
		}
		if r.Range.Attribute == r.Hash.Attribute {
			return fmt.Errorf("Range.Attribute and Hash.Attribute are both %s", r.Hash.Attribute)
		}
	}
	if !strings.Contains(r.Hash.Value+r.Range.Value, "{") {
		return fmt.Errorf("Hash.Value %q is the same for each task: put {taskId} or another placeholder in it", r.Hash.Value)
	}
	return nil
}

func (k Key) check(name string, mayEndOpen bool) error {
	rest := k.Value
	for _, p := range placeholders {
		rest = strings.ReplaceAll(rest, p, "")
	}
	switch {
	case k.Attribute == "":
		return fmt.Errorf("%s.Attribute is required", name)
	case k.Value == "":
		return fmt.Errorf("%s.Value is required", name)
	case strings.ContainsAny(rest, "{}"):
		return fmt.Errorf("%s.Value %q: only %s can stand in it", name, k.Value, strings.Join(placeholders, ", "))
	case strings.HasSuffix(k.Value, "*") && !mayEndOpen:
		return fmt.Errorf("%s.Value %q: a hash key cannot end in *", name, k.Value)
	case strings.HasSuffix(k.Value, "}*"):
		return fmt.Errorf("%s.Value %q: put a separator before *, or task t-1 has the rows of t-10", name, k.Value)
	case strings.HasSuffix(k.Value, "*") && k.Number:
		return fmt.Errorf("%s.Value %q: a number cannot end in *", name, k.Value)
	}
	return nil
}

// Refused says what to look at when the table takes the call for invalid.
func (r Rows) Refused() string {
	return fmt.Sprintf("are Hash (%s) and Range (%s) its keys, and of these types?", r.Hash.Attribute, r.Range.Attribute)
}

// Read reads all rows of a task, consistently: what was written before the
// letter died must be seen. Why says why the task can have no row; there is
// nothing to read then.
func (r Rows) Read(ctx context.Context, q dlqbridge.Question) (rows []Item, why string, err error) {
	in, why := r.query(q)
	if why != "" {
		return nil, why, nil
	}
	for {
		out, err := Call(ctx, r.Retry, func(ctx context.Context) (*dynamodb.QueryOutput, error) { return r.Client.Query(ctx, in) })
		if err != nil {
			return nil, "", fmt.Errorf("query %s: %w", r.Table, err)
		}
		rows = append(rows, out.Items...)
		if len(rows) > r.Max {
			return nil, "", UnavailableError(fmt.Sprintf("the task has more than %d rows", r.Max))
		}
		if len(out.LastEvaluatedKey) == 0 {
			return rows, "", nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}

// query asks for a task's rows. A task that lacks a part of the key has no row.
func (r Rows) query(q dlqbridge.Question) (in *dynamodb.QueryInput, why string) {
	in = &dynamodb.QueryInput{
		TableName: aws.String(r.Table), ConsistentRead: aws.Bool(true),
		KeyConditionExpression:    aws.String("#h = :h"),
		ExpressionAttributeNames:  map[string]string{"#h": r.Hash.Attribute},
		ExpressionAttributeValues: Item{},
	}
	keys := []struct {
		key         Key
		placeholder string
		limit       int
	}{{r.Hash, ":h", maxHashKey}, {r.Range, ":r", maxRangeKey}}
	for _, k := range keys {
		if k.key == (Key{}) {
			continue
		}
		text, whole := fill(strings.TrimSuffix(k.key.Value, "*"), q)
		if !whole {
			return nil, "no key: the task has not all of " + k.key.Value
		}
		if len(text) > k.limit {
			return nil, fmt.Sprintf("no key: %s gives more than %d bytes", k.key.Value, k.limit)
		}
		if k.key.Number && checkNumber(text) != nil {
			return nil, fmt.Sprintf("no key: %s gives no number", k.key.Value)
		}
		if k.key.Number {
			in.ExpressionAttributeValues[k.placeholder] = &types.AttributeValueMemberN{Value: text}
		} else {
			in.ExpressionAttributeValues[k.placeholder] = &types.AttributeValueMemberS{Value: text}
		}
	}
	if r.Range != (Key{}) {
		in.ExpressionAttributeNames["#r"] = r.Range.Attribute
		condition := "#h = :h AND #r = :r"
		if strings.HasSuffix(r.Range.Value, "*") {
			condition = "#h = :h AND begins_with(#r, :r)"
		}
		in.KeyConditionExpression = aws.String(condition)
	}
	return in, ""
}

// fill puts a task into a template; false if the task lacks what it needs.
func fill(template string, q dlqbridge.Question) (string, bool) {
	values := map[string]string{"{taskId}": q.TaskID, "{runId}": q.RunID, "{idempotencyKey}": q.IdempotencyKey, "{tenant}": q.Tenant}
	var pairs []string
	for _, p := range placeholders {
		if strings.Contains(template, p) && values[p] == "" {
			return "", false
		}
		pairs = append(pairs, p, values[p])
	}
	return strings.NewReplacer(pairs...).Replace(template), true
}

var errNumber = errors.New("not a number")

// checkNumber says whether DynamoDB would take a text for a number.
func checkNumber(text string) error {
	if _, err := strconv.ParseFloat(text, 64); err != nil || strings.ContainsAny(text, "xXpP_nNiI") {
		return errNumber
	}
	return nil
}
