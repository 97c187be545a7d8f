package dynamodb

import (
	"slices"
	"strings"
)

// maxExpression is the longest expression (Developer Guide, "Quotas": 4 KB).
const maxExpression = 4096

// bindings are a request's placeholders, and which of them its expressions
// have used: the service refuses what is left over.
type bindings struct {
	names      map[string]string
	values     Item
	usedNames  map[string]bool
	usedValues map[string]bool
}

// newBindings checks the placeholders themselves; expressions are the names of
// the request's members that may hold an expression, and given tells whether
// any of them does.
func newBindings(names map[string]string, values Item, given bool, members string) (*bindings, error) {
	switch {
	case names != nil && !given:
		return nil, invalid("ExpressionAttributeNames can only be specified when using expressions")
	case values != nil && !given:
		return nil, invalid("ExpressionAttributeValues can only be specified when using expressions: %s null", members)
	case names != nil && len(names) == 0:
		return nil, invalid("ExpressionAttributeNames must not be empty")
	case values != nil && len(values) == 0:
		return nil, invalid("ExpressionAttributeValues must not be empty")
	}
	for key := range names {
		if len(key) < 2 || key[0] != '#' || wordEnd(key, 1) != len(key) {
			return nil, invalid(`ExpressionAttributeNames contains invalid key: Syntax error; key: "%s"`, key)
		}
	}
	for key, v := range values {
		if len(key) < 2 || key[0] != ':' || wordEnd(key, 1) != len(key) {
			return nil, invalid(`ExpressionAttributeValues contains invalid key: Syntax error; key: "%s"`, key)
		}
		if depth(v) > maxLevels {
			return nil, invalid("ExpressionAttributeValues contains invalid value: Nesting Levels have exceeded supported limits for key %s", key)
		}
	}
	return &bindings{
		names: names, values: values,
		usedNames: make(map[string]bool, len(names)), usedValues: make(map[string]bool, len(values)),
	}, nil
}

// allUsed refuses placeholders that no expression mentions.
func (b *bindings) allUsed() error {
	if left := unused(b.names, b.usedNames); left != "" {
		return invalid("Value provided in ExpressionAttributeNames unused in expressions: keys: {%s}", left)
	}
	if left := unused(b.values, b.usedValues); left != "" {
		return invalid("Value provided in ExpressionAttributeValues unused in expressions: keys: {%s}", left)
	}
	return nil
}

func unused[V any](all map[string]V, used map[string]bool) string {
	if len(all) == len(used) {
		return ""
	}
	var left []string
	for key := range all {
		if !used[key] {
			left = append(left, key)
		}
	}
	slices.Sort(left)
	return strings.Join(left, ", ")
}
