package awsdynamodb

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// item is one item of a table, as the SDK has it.
type item = map[string]types.AttributeValue

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// textOf is a text attribute, empty if it is missing or of another type.
func textOf(it item, name string) string {
	if s, ok := it[name].(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

// numberOf is a number attribute, 0 if it is missing or of another type.
func numberOf(it item, name string) int64 {
	n, ok := it[name].(*types.AttributeValueMemberN)
	if !ok {
		return 0
	}
	v, err := strconv.ParseInt(n.Value, 10, 64)
	if err != nil {
		return 0
	}
	return v
}

func keyOf(it item) key { return key{textOf(it, attrPK), textOf(it, attrSK)} }

// gone says whether an item has expired: DynamoDB deletes it some time within
// the next days, we treat it as deleted now.
func (s *Store) gone(it item) bool {
	_, expires := it[attrExpires].(*types.AttributeValueMemberN)
	return len(it) == 0 || expires && numberOf(it, attrExpires) <= s.now().Unix()
}

// maxItemBytes is DynamoDB's limit for one item, names included: 400 KB
// ("Quotas in Amazon DynamoDB", read 2026-11-30).
const maxItemBytes = 400 << 10

// itemSize counts an item as DynamoDB does: names and values in UTF-8 bytes,
// numbers at about half a byte a digit and one more ("DynamoDB item sizes and
// formats", read 2026-11-30). Only the types that we write are counted.
func itemSize(it item) int {
	n := 0
	for name, v := range it {
		n += len(name)
		switch v := v.(type) {
		case *types.AttributeValueMemberS:
			n += len(v.Value)
		case *types.AttributeValueMemberB:
			n += len(v.Value)
		case *types.AttributeValueMemberN:
			n += 1 + (len(v.Value)+1)/2 + 1
		case *types.AttributeValueMemberBOOL:
			n++
		}
	}
	return n
}

// scratch are the buffers of compact: evidence is bounded, so they stay small.
var scratch = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// compact is v as one line of JSON without needless escapes.
func compact(v any) (string, error) {
	b, _ := scratch.Get().(*bytes.Buffer)
	defer scratch.Put(b)
	b.Reset()
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", err
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

// docItem is an item whose body is the JSON of v.
func docItem(k key, v any) (item, error) {
	doc, err := compact(v)
	if err != nil {
		return nil, err
	}
	it := k.attributes()
	it[attrDoc] = text(doc)
	return it, nil
}

// decodeDoc reads an item's body.
func decodeDoc(it item, into any) error {
	if err := json.Unmarshal([]byte(textOf(it, attrDoc)), into); err != nil {
		return fmt.Errorf("decode %s: %w", keyOf(it), err)
	}
	return nil
}

// expiry is a time as DynamoDB's time to live wants it: a number of seconds.
func expiry(t time.Time) types.AttributeValue { return number(t.Unix()) }

// timeUnit is how exactly times of records and of history are kept.
const timeUnit = time.Millisecond
