package dynamodb

import (
	"maps"
	"slices"
)

// projection is a tree of the paths that a caller wants of an item. A node
// without children stands for the whole value.
type projection struct {
	names   map[string]*projection
	indexes map[int]*projection
}

// parseProjection reads a projection expression.
func parseProjection(text string, binds *bindings) (*projection, error) {
	return parseExpression("ProjectionExpression", text, binds, func(p *parser) *projection {
		paths := []path{p.path()}
		for p.take(",") {
			paths = append(paths, p.path())
		}
		p.apart(paths)
		return projectionOf(paths)
	})
}

func projectionOf(paths []path) *projection {
	root := &projection{}
	for _, where := range paths {
		node := root
		for _, s := range where {
			node = node.child(s)
		}
	}
	return root
}

func (p *projection) child(s step) *projection {
	if s.isIndex() {
		if p.indexes == nil {
			p.indexes = map[int]*projection{}
		}
		if p.indexes[s.index] == nil {
			p.indexes[s.index] = &projection{}
		}
		return p.indexes[s.index]
	}
	if p.names == nil {
		p.names = map[string]*projection{}
	}
	if p.names[s.name] == nil {
		p.names[s.name] = &projection{}
	}
	return p.names[s.name]
}

// of is the wanted part of the item; a nil projection wants all of it.
func (p *projection) of(item Item) Item {
	if p == nil || item == nil {
		return item
	}
	part, _ := p.cut(item).(Item)
	if part == nil {
		return Item{}
	}
	return part
}

// cut is the wanted part of a value, or nil when nothing of it is there. List
// elements close up: [0] and [2] of a list come back as a list of two.
func (p *projection) cut(v Value) Value {
	if len(p.names) == 0 && len(p.indexes) == 0 {
		return v
	}
	switch v := v.(type) {
	case Item:
		part := Item{}
		for name, child := range p.names {
			if inner, ok := v[name]; ok {
				if cut := child.cut(inner); cut != nil {
					part[name] = cut
				}
			}
		}
		if len(part) > 0 {
			return part
		}
	case listValue:
		var part listValue
		for _, i := range slices.Sorted(maps.Keys(p.indexes)) {
			if i < len(v) {
				if cut := p.indexes[i].cut(v[i]); cut != nil {
					part = append(part, cut)
				}
			}
		}
		if len(part) > 0 {
			return part
		}
	}
	return nil
}
