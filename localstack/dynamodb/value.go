package dynamodb

import (
	"cmp"
	"slices"
	"strings"
)

// Value is one attribute value. Values are immutable: a write replaces the
// whole item, so readers may keep what they were given.
type Value interface {
	// kind is the type's name on the wire, such as "S".
	kind() string
	// size is the value's share of the item size, in bytes.
	size() int
}

// The ten attribute types.
type (
	stringValue  string
	binaryValue  string // the raw bytes
	boolValue    bool
	nullValue    struct{}
	listValue    []Value
	stringsValue []string // sorted, no repeats
	binaryValues []string // sorted, no repeats
	numbersValue []Number // sorted, no repeats
)

// Item is a map of attributes: a whole item, a key, or a nested map.
type Item map[string]Value

func (stringValue) kind() string  { return "S" }
func (binaryValue) kind() string  { return "B" }
func (Number) kind() string       { return "N" }
func (boolValue) kind() string    { return "BOOL" }
func (nullValue) kind() string    { return "NULL" }
func (listValue) kind() string    { return "L" }
func (Item) kind() string         { return "M" }
func (stringsValue) kind() string { return "SS" }
func (binaryValues) kind() string { return "BS" }
func (numbersValue) kind() string { return "NS" }

// typeNames are the types as the service's messages about operands spell them.
var typeNames = map[string]string{
	"S": "STRING", "N": "NUMBER", "B": "BINARY", "BOOL": "BOOLEAN", "NULL": "NULL",
	"L": "LIST", "M": "MAP", "SS": "STRING_SET", "NS": "NUMBER_SET", "BS": "BINARY_SET",
}

// Sizes follow the Developer Guide, "DynamoDB item sizes and formats": lists
// and maps cost 3 bytes and one more per element.

func (v stringValue) size() int { return len(v) }
func (v binaryValue) size() int { return len(v) }
func (boolValue) size() int     { return 1 }
func (nullValue) size() int     { return 1 }

func (v listValue) size() int {
	size := 3
	for _, e := range v {
		size += 1 + e.size()
	}
	return size
}

func (v Item) size() int { return 3 + len(v) + v.itemSize() }

// itemSize is the size of a whole item: names and values.
func (v Item) itemSize() int {
	size := 0
	for name, e := range v {
		size += len(name) + e.size()
	}
	return size
}

func (v stringsValue) size() int { return textSize(v) }
func (v binaryValues) size() int { return textSize(v) }

func textSize(texts []string) int {
	size := 0
	for _, t := range texts {
		size += len(t)
	}
	return size
}

func (v numbersValue) size() int {
	size := 0
	for _, n := range v {
		size += n.size()
	}
	return size
}

// equal tells whether two values have the same type and content. Sets compare
// without order, numbers by value.
func equal(a, b Value) bool {
	switch a := a.(type) {
	case Number:
		b, ok := b.(Number)
		return ok && a == b
	case stringValue:
		b, ok := b.(stringValue)
		return ok && a == b
	case binaryValue:
		b, ok := b.(binaryValue)
		return ok && a == b
	case boolValue:
		b, ok := b.(boolValue)
		return ok && a == b
	case nullValue:
		_, ok := b.(nullValue)
		return ok
	case listValue:
		b, ok := b.(listValue)
		return ok && slices.EqualFunc(a, b, equal)
	case Item:
		b, ok := b.(Item)
		return ok && equalItems(a, b)
	case stringsValue:
		b, ok := b.(stringsValue)
		return ok && slices.Equal(a, b)
	case binaryValues:
		b, ok := b.(binaryValues)
		return ok && slices.Equal(a, b)
	case numbersValue:
		b, ok := b.(numbersValue)
		return ok && slices.Equal(a, b)
	}
	return false
}

func equalItems(a, b Item) bool {
	if len(a) != len(b) {
		return false
	}
	for name, v := range a {
		other, ok := b[name]
		if !ok || !equal(v, other) {
			return false
		}
	}
	return true
}

// order compares two values of one ordered type (S, N, B); ok is false for all else.
func order(a, b Value) (result int, ok bool) {
	switch a := a.(type) {
	case Number:
		if b, same := b.(Number); same {
			return a.Compare(b), true
		}
	case stringValue:
		if b, same := b.(stringValue); same {
			return cmp.Compare(a, b), true
		}
	case binaryValue:
		if b, same := b.(binaryValue); same {
			return cmp.Compare(a, b), true
		}
	}
	return 0, false
}

// depth is how many lists and maps enclose the deepest value of v, v included.
func depth(v Value) int {
	deepest := 0
	switch v := v.(type) {
	case listValue:
		for _, e := range v {
			deepest = max(deepest, depth(e))
		}
	case Item:
		for _, e := range v {
			deepest = max(deepest, depth(e))
		}
	default:
		return 0
	}
	return deepest + 1
}

// union is the elements of both sets; ok is false when the types differ.
func union(a, b Value) (sum Value, ok bool) {
	switch a := a.(type) {
	case stringsValue:
		b, same := b.(stringsValue)
		return stringsValue(merge(a, b, strings.Compare)), same
	case binaryValues:
		b, same := b.(binaryValues)
		return binaryValues(merge(a, b, strings.Compare)), same
	case numbersValue:
		b, same := b.(numbersValue)
		return numbersValue(merge(a, b, Number.Compare)), same
	}
	return nil, false
}

// without is a less the elements of b; nil when nothing is left, because the
// service keeps no empty set. Ok is false when the types differ.
func without(a, b Value) (rest Value, ok bool) {
	switch a := a.(type) {
	case stringsValue:
		b, same := b.(stringsValue)
		if left := subtract(a, b, strings.Compare); len(left) > 0 {
			return stringsValue(left), same
		}
		return nil, same
	case binaryValues:
		b, same := b.(binaryValues)
		if left := subtract(a, b, strings.Compare); len(left) > 0 {
			return binaryValues(left), same
		}
		return nil, same
	case numbersValue:
		b, same := b.(numbersValue)
		if left := subtract(a, b, Number.Compare); len(left) > 0 {
			return numbersValue(left), same
		}
		return nil, same
	}
	return nil, false
}

func merge[T any](a, b []T, compare func(T, T) int) []T {
	all := slices.Concat(a, b)
	slices.SortFunc(all, compare)
	return slices.CompactFunc(all, func(x, y T) bool { return compare(x, y) == 0 })
}

func subtract[T any](a, b []T, compare func(T, T) int) []T {
	var left []T
	for _, e := range a {
		if _, found := slices.BinarySearchFunc(b, e, compare); !found {
			left = append(left, e)
		}
	}
	return left
}

// has tells whether a set holds the scalar.
func has(set, scalar Value) bool {
	switch set := set.(type) {
	case stringsValue:
		s, ok := scalar.(stringValue)
		_, found := slices.BinarySearch(set, string(s))
		return ok && found
	case binaryValues:
		s, ok := scalar.(binaryValue)
		_, found := slices.BinarySearch(set, string(s))
		return ok && found
	case numbersValue:
		n, ok := scalar.(Number)
		_, found := slices.BinarySearchFunc(set, n, Number.Compare)
		return ok && found
	}
	return false
}
