package dynamodb

import (
	"cmp"
	"maps"
	"slices"
)

// The refusals of an update that depend on the stored item.
func errMissing() error {
	return invalid("The provided expression refers to an attribute that does not exist in the item")
}

func errOperandType() error {
	return invalid("An operand in the update expression has an incorrect data type")
}

func errPath() error {
	return invalid("The document path provided in the update expression is invalid for update")
}

// computed is the operand's value for the item.
func computed(o operand, item Item) (Value, error) {
	switch o := o.(type) {
	case fallback:
		if v := o.where.in(item); v != nil {
			return v, nil
		}
		return computed(o.other, item)
	case arithmetic:
		left, right, err := pair(o.left, o.right, item)
		if err != nil {
			return nil, err
		}
		a, okA := left.(Number)
		b, okB := right.(Number)
		switch {
		case !okA || !okB:
			return nil, errOperandType()
		case o.minus:
			return a.Sub(b)
		}
		return a.Add(b)
	case appended:
		left, right, err := pair(o.first, o.second, item)
		if err != nil {
			return nil, err
		}
		a, okA := left.(listValue)
		b, okB := right.(listValue)
		if !okA || !okB {
			return nil, errOperandType()
		}
		return slices.Concat(a, b), nil
	}
	v := o.in(item)
	if v == nil {
		return nil, errMissing()
	}
	return v, nil
}

func pair(a, b operand, item Item) (left, right Value, err error) {
	if left, err = computed(a, item); err == nil {
		right, err = computed(b, item)
	}
	return left, right, err
}

// change is one value to put at a path; nil removes.
type change struct {
	where path
	to    Value
}

// apply is the item after the update; old stays as it is. All right-hand sides
// are evaluated on the old item (Developer Guide, "Using update expressions"),
// so "SET a = b, b = a" swaps.
func (u *update) apply(old Item) (Item, error) {
	changes, err := u.changes(old)
	if err != nil {
		return nil, err
	}
	var item Value = old
	for _, c := range changes {
		if item, err = put(item, c.where, c.to); err != nil {
			return nil, err
		}
	}
	return item.(Item), nil
}

// changes are the update's effects in an order in which list indexes keep
// their old meaning: sets first, lower indexes before higher so that elements
// beyond a list's end are appended in order, then removals from the back.
func (u *update) changes(old Item) ([]change, error) {
	var puts, drops []change
	for _, a := range u.sets {
		v, err := computed(a.to, old)
		if err != nil {
			return nil, err
		}
		puts = append(puts, change{a.where, v})
	}
	for _, a := range u.adds {
		v, err := added(a.where.in(old), a.by)
		if err != nil {
			return nil, err
		}
		puts = append(puts, change{a.where, v})
	}
	for _, a := range u.deletes {
		stored := a.where.in(old)
		if stored == nil {
			// Nothing to take from, but the way there must exist, as for REMOVE.
			drops = append(drops, change{a.where, nil})
			continue
		}
		v, ok := without(stored, a.by)
		switch {
		case !ok:
			return nil, errOperandType()
		case v == nil:
			drops = append(drops, change{a.where, nil})
		default:
			puts = append(puts, change{a.where, v})
		}
	}
	for _, where := range u.removes {
		drops = append(drops, change{where, nil})
	}
	slices.SortStableFunc(puts, func(a, b change) int { return comparePaths(a.where, b.where) })
	slices.SortStableFunc(drops, func(a, b change) int { return comparePaths(b.where, a.where) })
	return append(puts, drops...), nil
}

func comparePaths(a, b path) int {
	return slices.CompareFunc(a, b, func(x, y step) int {
		return cmp.Or(cmp.Compare(x.name, y.name), cmp.Compare(x.index, y.index))
	})
}

// added is what ADD makes of the stored value: a sum or a union.
func added(stored, by Value) (Value, error) {
	if stored == nil {
		return by, nil
	}
	if a, ok := stored.(Number); ok {
		b, ok := by.(Number)
		if !ok {
			return nil, errOperandType()
		}
		return a.Add(b)
	}
	sum, ok := union(stored, by)
	if !ok {
		return nil, errOperandType()
	}
	return sum, nil
}

// put is container with the value at the path replaced (or removed: v nil);
// every container on the way is copied, none is changed.
func put(container Value, where path, v Value) (Value, error) {
	s, rest := where[0], where[1:]
	switch c := container.(type) {
	case Item:
		if s.isIndex() {
			return nil, errPath()
		}
		inner, there := c[s.name]
		if len(rest) > 0 {
			if !there {
				return nil, errPath()
			}
			var err error
			if v, err = put(inner, rest, v); err != nil {
				return nil, err
			}
		}
		if v == nil && !there {
			return c, nil
		}
		fresh := make(Item, len(c)+1)
		maps.Copy(fresh, c)
		if v == nil {
			delete(fresh, s.name)
		} else {
			fresh[s.name] = v
		}
		return fresh, nil
	case listValue:
		if !s.isIndex() {
			return nil, errPath()
		}
		return putElement(c, s.index, rest, v)
	}
	return nil, errPath()
}

func putElement(list listValue, index int, rest path, v Value) (Value, error) {
	there := index < len(list)
	if len(rest) > 0 {
		if !there {
			return nil, errPath()
		}
		var err error
		if v, err = put(list[index], rest, v); err != nil {
			return nil, err
		}
	}
	switch {
	case v == nil && !there:
		return list, nil
	case v == nil:
		return slices.Concat(list[:index], list[index+1:]), nil
	case !there:
		// Beyond the end means at the end (Developer Guide, "Using update
		// expressions", "Adding elements to a list").
		return append(slices.Clip(list), v), nil
	}
	fresh := slices.Clone(list)
	fresh[index] = v
	return fresh, nil
}
