package awsdynamodb

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dlqbridge/dlqbridge"
)

// condition is a condition on the item that is there.
type condition struct {
	expression string
	names      map[string]string
	values     item
}

// absent: there is no such item, or an expired one.
func (s *Store) absent() condition {
	return condition{
		"attribute_not_exists(#pk) OR #ex <= :now",
		map[string]string{"#pk": attrPK, "#ex": attrExpires},
		item{":now": expiry(s.now())},
	}
}

// atVersion: the item is there at that version and has not expired.
func (s *Store) atVersion(version int) condition {
	return condition{
		"#v = :v AND (attribute_not_exists(#ex) OR #ex > :now)",
		map[string]string{"#v": attrVersion, "#ex": attrExpires},
		item{":v": number(int64(version)), ":now": expiry(s.now())},
	}
}

// refusedError says that a condition failed.
type refusedError struct {
	// existing is the item that is there; nil if there is none.
	existing item
}

func (e *refusedError) Error() string { return "the condition failed" }

// Unwrap gives the root's meaning.
func (e *refusedError) Unwrap() error { return dlqbridge.ErrConflict }

// putIf puts an item that carries a writer's token under a condition. It is
// safe to call again: a condition that fails because our own first try was
// carried out and its answer lost finds our token, and that is a success
// (C59). Otherwise *refusedError, or what went wrong.
func (s *Store) putIf(ctx context.Context, it item, c condition) error {
	k := keyOf(it)
	in := &dynamodb.PutItemInput{
		TableName: aws.String(s.records), Item: it,
		ConditionExpression: aws.String(c.expression), ExpressionAttributeNames: c.names, ExpressionAttributeValues: c.values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	err := s.repeat(ctx, func(ctx context.Context) error {
		_, err := s.client.PutItem(ctx, in)
		failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err)
		switch {
		case err == nil:
			return nil
		case !ok:
			return fail("PutItem", s.records, k.String(), err)
		case ours(failed.Item, it):
			return nil
		}
		return &refusedError{failed.Item}
	})
	if !errors.Is(err, dlqbridge.ErrUnclear) {
		return err
	}
	// The tries are used up. A look may still tell what happened; it does not
	// change whether the context has ended.
	existing, lookErr := s.get(ctx, k)
	switch {
	case lookErr != nil:
		return err
	case ours(existing, it):
		return nil
	}
	return err
}

// ours says whether the item that is there was written by this very call.
func ours(existing, written item) bool {
	t := textOf(written, attrToken)
	return t != "" && textOf(existing, attrToken) == t
}

// tokenLength: 50 random bits tell apart the few writers that can meet on one
// item at one version, and the control item is short of room.
const tokenLength = 10

func newToken() string { return dlqbridge.NewToken()[:tokenLength] }

// explain adds the table and key to a failed condition.
func (s *Store) explain(k key, meaning error, why string) error {
	return fmt.Errorf("%w: %s in table %s: %s", meaning, k, s.records, why)
}

func isRefused(err error) bool {
	_, ok := errors.AsType[*refusedError](err)
	return ok
}

// update is one UpdateItem that is the same when carried out twice.
type update struct {
	table                 string
	key                   key
	expression, condition string
	names                 map[string]string
	values                item
}

// update carries it out; *refusedError if the condition fails.
func (s *Store) update(ctx context.Context, u update) error {
	in := &dynamodb.UpdateItemInput{
		TableName: aws.String(u.table), Key: u.key.attributes(), UpdateExpression: aws.String(u.expression),
		ConditionExpression: aws.String(u.condition), ExpressionAttributeNames: u.names, ExpressionAttributeValues: u.values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	return s.repeat(ctx, func(ctx context.Context) error {
		_, err := s.client.UpdateItem(ctx, in)
		if failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
			return &refusedError{failed.Item}
		}
		return fail("UpdateItem", u.table, u.key.String(), err)
	})
}
