package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awserr"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/config"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/wire"
)

// Stores looks at the declared stores, in the order of their names. It only
// reads, with the rights that asking needs; an outside system is not asked,
// since nobody's task stands behind the question.
func Stores(ctx context.Context, b *wire.Bridge) []Finding {
	var out []Finding
	for _, name := range sortedNames(b.Config.Stores) {
		c := &storeCheck{b: b, name: name, s: b.Config.Stores[name]}
		c.run(ctx)
		out = append(out, c.out...)
	}
	return out
}

func sortedNames(stores map[string]config.Store) []string {
	var out []string
	for name := range stores {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

type storeCheck struct {
	b    *wire.Bridge
	name string
	s    config.Store
	out  []Finding
}

func (c *storeCheck) say(level Level, hint, format string, args ...any) {
	c.out = append(c.out, Finding{level, "", "store " + c.name + ", " + c.s.Place(), fmt.Sprintf(format, args...), hint})
}

func (c *storeCheck) run(ctx context.Context) {
	if !slices.ContainsFunc(c.b.Config.Routes, func(r config.Route) bool { return slices.Contains(r.Stores, c.name) }) {
		c.say(LevelWarning, "add it to the stores of a route, or leave it out", "no route asks it")
	}
	ok := true
	switch s := c.s; {
	case s.Powertools != nil:
		want := []tableKey{{orName(s.Powertools.KeyAttr, "id"), types.ScalarAttributeTypeS}}
		if s.Powertools.SortKeyAttr != "" {
			want = append(want, tableKey{s.Powertools.SortKeyAttr, types.ScalarAttributeTypeS})
		}
		ok = c.table(ctx, s.Powertools.Table, want, true)
	case s.LangGraph != nil:
		ok = c.table(ctx, s.LangGraph.Table, []tableKey{{"PK", types.ScalarAttributeTypeS}, {"SK", types.ScalarAttributeTypeS}}, true) && c.ask(ctx)
	case s.DynamoDBTable != nil:
		want := []tableKey{keyOf(s.DynamoDBTable.Hash)}
		if s.DynamoDBTable.Range != nil {
			want = append(want, keyOf(*s.DynamoDBTable.Range))
		}
		ok = c.table(ctx, s.DynamoDBTable.Table, want, s.DynamoDBTable.Range != nil) && c.ask(ctx)
	case s.OpenAIAgents != nil:
		want := []tableKey{keyOf(s.OpenAIAgents.Hash)}
		if s.OpenAIAgents.Range != nil {
			want = append(want, keyOf(*s.OpenAIAgents.Range))
		}
		ok = c.table(ctx, s.OpenAIAgents.Table, want, true) && c.ask(ctx) // a task has one row
	case s.StepFunctions != nil:
		ok = c.ask(ctx)
	case s.Reconcile != nil:
		if err := c.b.StoreMissing(c.name); err != nil {
			c.say(LevelError, "set the variable where serve, intake and redrive run", "%v", err)
			ok = false
		}
		for _, advice := range c.b.StoreAdvice(c.name) {
			c.say(LevelWarning, "", "%s", advice)
		}
	}
	if !ok {
		return
	}
	switch {
	case c.s.Reconcile != nil:
		c.say(LevelOK, "", "its settings are complete; the system itself was not asked")
	case c.s.StepFunctions != nil && !strings.HasPrefix(c.s.Place(), "execution arn:"):
		c.say(LevelOK, "", "its settings are complete; which execution is asked about only a letter says")
	case c.s.Powertools != nil: // a key is made from a message, and there is none
		c.say(LevelOK, "", "it is there, with the right keys; whether it may be read shows with the first letter (dynamodb:GetItem)")
	default:
		c.say(LevelOK, "", "it is there and can be asked")
	}
}

// ask asks about a task that is never there.
func (c *storeCheck) ask(ctx context.Context) bool {
	why := c.b.AskStore(ctx, c.name)
	if why != "" {
		c.say(LevelError, "until it can be asked, the effects of its routes stay unknown", "%s", why)
	}
	return why == ""
}

// tableKey is one key attribute and its type.
type tableKey struct {
	name string
	kind types.ScalarAttributeType
}

func (k tableKey) String() string { return k.name + " " + string(k.kind) }

func keyOf(k config.TableKey) tableKey {
	if k.Number {
		return tableKey{k.Attribute, types.ScalarAttributeTypeN}
	}
	return tableKey{k.Attribute, types.ScalarAttributeTypeS}
}

func orName(name, otherwise string) string {
	if name == "" {
		return otherwise
	}
	return name
}

// table compares a table's keys with those that the store asks by. Whole: it
// has no others; a store that asks by the hash key alone may leave the range
// key out.
func (c *storeCheck) table(ctx context.Context, table string, want []tableKey, whole bool) bool {
	out, err := c.b.DynamoDB.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &table})
	switch err = awserr.Wrap(err); {
	case errors.Is(err, dlqbridge.ErrNotFound):
		c.say(LevelError, "is the name right, and the region? A table of another account needs its ARN", "the table does not exist")
		return false
	case errors.Is(err, dlqbridge.ErrDenied): // describing a table is no right that asking needs
		c.say(LevelWarning, hintFor(err), "its keys cannot be looked at: %v", err)
		return true
	case err != nil:
		c.say(LevelError, hintFor(err), "%v", err)
		return false
	}
	var have []tableKey
	for _, k := range out.Table.KeySchema {
		for _, a := range out.Table.AttributeDefinitions {
			if *a.AttributeName == *k.AttributeName {
				have = append(have, tableKey{*k.AttributeName, a.AttributeType})
			}
		}
	}
	same := len(have) >= len(want) && slices.Equal(have[:len(want)], want) && (!whole || len(have) == len(want))
	if !same {
		c.say(LevelError, "name the keys as the table has them", "its keys are %v, and the store asks by %v", have, want)
	}
	return same
}
