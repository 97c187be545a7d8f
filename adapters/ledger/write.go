package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awserr"
	"github.com/dlqbridge/dlqbridge/adapters/retry"
)

// Client is what the kit needs of a DynamoDB client.
type Client interface {
	Querier
	GetItem(ctx context.Context, in *dynamodb.GetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
}

// change is one conditional write of one row. It carries a mark that no other
// write has, so that a lost answer can be told from a refusal by reading back,
// and its condition names the state it replaces, so that a copy of it that the
// network delivers late changes nothing.
type change struct {
	set    item     // attributes to set; nil values are left out
	remove []string // attributes to remove
	// If: the row must be as seen. Values are what the attribute must equal,
	// nil that it must not be there.
	when item
	// markName and mark are the attribute and value that only this write sets.
	markName, mark string
	// done says of a row that carries the mark whether this very write is in
	// it; nil means that the mark is enough.
	done func(item) bool
}

// table is the ledger's table as the kit uses it.
type table struct {
	client Client
	name   string
	retry  retry.Policy
}

// errRefused: the row was not as seen; nothing was changed.
var errRefused = errors.New("the row has changed meanwhile")

// write carries out a change. It returns nil once the change is durable,
// errRefused with the row as it is now (nil: there is none) when the condition
// failed, and any other error when nobody knows: a caller must then assume both.
func (t table) write(ctx context.Context, key, entry string, c change) (item, error) {
	in := c.input(t.name, key, entry)
	var now item
	// Trying again after a lost answer is safe: if the first try was carried
	// out, the second fails its condition and the mark is found.
	policy := t.retry
	policy.Repeatable = true
	err := retry.Do(ctx, policy, func(ctx context.Context) error {
		_, err := t.client.UpdateItem(ctx, in)
		if err == nil {
			return nil
		}
		err = awserr.Wrap(err)
		refused := isConditionFailed(err)
		if !refused && !errors.Is(err, dlqbridge.ErrUnclear) {
			return err
		}
		row, readErr := t.read(ctx, key, entry)
		switch {
		case readErr != nil && refused:
			// Whose write is there? As long as that cannot be read, nobody knows.
			return fmt.Errorf("%w: read back: %w", dlqbridge.ErrUnclear, readErr)
		case readErr != nil:
			return err
		case row.text(c.markName, maxText) == c.mark && (c.done == nil || c.done(row)):
			return nil
		case refused:
			now = row
			return errRefused
		}
		return err
	})
	return now, err
}

// read reads one row, consistently; nil if there is none.
func (t table) read(ctx context.Context, key, entry string) (item, error) {
	var out *dynamodb.GetItemOutput
	policy := t.retry
	policy.Repeatable = true
	err := retry.Do(ctx, policy, func(ctx context.Context) error {
		var err error
		out, err = t.client.GetItem(ctx, &dynamodb.GetItemInput{
			TableName: aws.String(t.name), Key: entryKey(key, entry), ConsistentRead: aws.Bool(true),
		})
		return awserr.Wrap(err)
	})
	if err != nil {
		return nil, fmt.Errorf("read ledger entry %s: %w", entry, err)
	}
	return out.Item, nil
}

func entryKey(key, entry string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{KeyTask: str(key), KeyEntry: str(entry)}
}

func isConditionFailed(err error) bool {
	_, ok := errors.AsType[*types.ConditionalCheckFailedException](err)
	return ok
}

// input words the change for DynamoDB. All names go through placeholders,
// since several are reserved words.
func (c change) input(tableName, key, entry string) *dynamodb.UpdateItemInput {
	names := map[string]string{}
	values := map[string]types.AttributeValue{}
	name := func(attribute string) string {
		n := "#" + attribute
		names[n] = attribute
		return n
	}
	set := maps.Clone(c.set)
	set[c.markName] = str(c.mark)
	var sets, conditions, removes []string
	for attribute, v := range set {
		if v == nil {
			continue
		}
		values[":s_"+attribute] = v
		sets = append(sets, name(attribute)+" = :s_"+attribute)
	}
	for attribute, v := range c.when {
		if v == nil {
			conditions = append(conditions, "attribute_not_exists("+name(attribute)+")")
			continue
		}
		values[":w_"+attribute] = v
		conditions = append(conditions, name(attribute)+" = :w_"+attribute)
	}
	for _, attribute := range c.remove {
		removes = append(removes, name(attribute))
	}
	update := "SET " + strings.Join(sets, ", ")
	if len(removes) > 0 {
		update += " REMOVE " + strings.Join(removes, ", ")
	}
	return &dynamodb.UpdateItemInput{
		TableName:                 aws.String(tableName),
		Key:                       entryKey(key, entry),
		UpdateExpression:          aws.String(update),
		ConditionExpression:       aws.String(strings.Join(conditions, " AND ")),
		ExpressionAttributeNames:  names,
		ExpressionAttributeValues: values,
	}
}

// Attribute values; of the zero value of optional ones there is none, so that
// a change leaves them out.

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func num(n int) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.Itoa(n)}
}

func boolean(b bool) types.AttributeValue { return &types.AttributeValueMemberBOOL{Value: b} }

func dict(m item) types.AttributeValue {
	maps.DeleteFunc(m, func(_ string, v types.AttributeValue) bool { return v == nil })
	return &types.AttributeValueMemberM{Value: m}
}

// some is the string, unless it is empty.
func some(s string) types.AttributeValue {
	if s == "" {
		return nil
	}
	return str(s)
}
