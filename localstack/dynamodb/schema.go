package dynamodb

import (
	"hash/fnv"
	"strings"
)

// Bounds of keys and items (Developer Guide, "Quotas").
const (
	maxItemSize  = 409_600 // 400 KB, attribute names included
	maxHashKey   = 2048
	maxRangeKey  = 1024
	maxPageBytes = 1 << 20 // Query and Scan read up to 1 MB before the filter
)

// keyPart is one key attribute; the zero value is no key attribute.
type keyPart struct{ name, kind string }

// schema is the key of a table or an index.
type schema struct{ hash, sort keyPart }

// parts are the schema's key attributes: one or two.
func (s schema) parts() []keyPart {
	if s.sort.name == "" {
		return []keyPart{s.hash}
	}
	return []keyPart{s.hash, s.sort}
}

func (s schema) has(name string) bool {
	return name != "" && (s.hash.name == name || s.sort.name == name)
}

// key is the key attributes of an item.
func (s schema) key(item Item) Item {
	key := make(Item, 4)
	for _, part := range s.parts() {
		if v, ok := item[part.name]; ok {
			key[part.name] = v
		}
	}
	return key
}

// checkKey checks that key holds exactly the schema's attributes, as Get,
// Update and Delete want it.
func (s schema) checkKey(key Item) error {
	if len(key) != len(s.parts()) {
		return invalid("The provided key element does not match the schema")
	}
	for _, part := range s.parts() {
		v, ok := key[part.name]
		if !ok || v.kind() != part.kind {
			return invalid("The provided key element does not match the schema")
		}
	}
	return s.checkSizes(key)
}

// checkItem checks the key attributes of a whole item, as Put wants them.
func (s schema) checkItem(item Item) error {
	for _, part := range s.parts() {
		v, ok := item[part.name]
		switch {
		case !ok:
			return invalidParameter("Missing the key %s in the item", part.name)
		case v.kind() != part.kind:
			return invalidParameter("Type mismatch for key %s expected: %s actual: %s", part.name, part.kind, v.kind())
		}
	}
	return s.checkSizes(item)
}

// checkSizes refuses empty and over-long key values.
func (s schema) checkSizes(item Item) error {
	for i, part := range s.parts() {
		v := item[part.name]
		limit, label := maxHashKey, "hashkey"
		if i == 1 {
			limit, label = maxRangeKey, "rangekey"
		}
		switch {
		case v.kind() != "N" && v.size() == 0:
			return emptyKey(v, "Key: "+part.name)
		case v.size() > limit:
			return invalidParameter("Size of %s has exceeded the maximum size limit of%d bytes", label, limit)
		}
	}
	return nil
}

func emptyKey(v Value, where string) error {
	what := "string"
	if v.kind() == "B" {
		what = "binary"
	}
	return invalid("One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty %s value. %s", what, where)
}

// partition is the prefix of all row keys with the hash key value: a hash
// first, so that a scan comes in no order that a caller could rely on.
func (s schema) partition(hash Value) []byte {
	encoded := appendKey(make([]byte, 8, 64), hash)
	sum := fnv.New64a()
	_, _ = sum.Write(encoded[8:]) // never fails, says hash.Hash
	sum.Sum(encoded[:0])
	return encoded
}

// rowKey is the key that orders the item; the item has all key attributes.
func (s schema) rowKey(item Item) string {
	key := s.partition(item[s.hash.name])
	if s.sort.name != "" {
		key = appendKey(key, item[s.sort.name])
	}
	return string(key)
}

// appendKey appends the scalar so that comparing bytes compares values. Each
// encoding ends itself, so that several can stand in a row.
func appendKey(dst []byte, v Value) []byte {
	switch v := v.(type) {
	case stringValue:
		return append(appendOpen(dst, string(v)), 0, 1)
	case binaryValue:
		return append(appendOpen(dst, string(v)), 0, 1)
	case Number:
		return v.appendKey(dst)
	}
	return dst
}

// appendOpen is appendKey without the end mark: the prefix that begins_with
// looks for. A zero byte is followed by 255 to tell it from the end mark 0, 1.
func appendOpen(dst []byte, s string) []byte {
	for {
		zero := strings.IndexByte(s, 0)
		if zero < 0 {
			return append(dst, s...)
		}
		dst = append(append(dst, s[:zero]...), 0, 255)
		s = s[zero+1:]
	}
}

// appendKey appends sign, exponent and digits; a negative number is the
// complement of the positive one.
func (n Number) appendKey(dst []byte) []byte {
	dst = append(dst, byte(n.sign()+2))
	if n.digits == "" {
		return dst
	}
	start := len(dst)
	exp := uint16(n.exp + 1000)
	dst = append(dst, byte(exp>>8), byte(exp))
	dst = append(append(dst, n.digits...), 0)
	if n.negative {
		for i := start; i < len(dst); i++ {
			dst[i] = ^dst[i]
		}
	}
	return dst
}
