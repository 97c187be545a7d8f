package awsread

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dlqbridge/dlqbridge"
)

// Item is one row as DynamoDB gives it.
type Item = map[string]types.AttributeValue

// Plain turns a value into what encoding/json would have made of it, so that
// selectors work on it: maps, lists, strings, booleans, nil and float64. A
// number that a float64 does not hold exactly stays a text (json.Number);
// bytes are base64; a set is a list.
func Plain(v types.AttributeValue) any {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return v.Value
	case *types.AttributeValueMemberN:
		return number(v.Value)
	case *types.AttributeValueMemberB:
		return base64.StdEncoding.EncodeToString(v.Value)
	case *types.AttributeValueMemberBOOL:
		return v.Value
	case *types.AttributeValueMemberSS:
		return listed(v.Value, func(s string) any { return s })
	case *types.AttributeValueMemberNS:
		return listed(v.Value, number)
	case *types.AttributeValueMemberBS:
		return listed(v.Value, func(b []byte) any { return base64.StdEncoding.EncodeToString(b) })
	case *types.AttributeValueMemberL:
		return listed(v.Value, Plain)
	case *types.AttributeValueMemberM:
		return PlainItem(v.Value)
	}
	return nil
}

// PlainItem is Plain for a whole row.
func PlainItem(it Item) map[string]any {
	out := make(map[string]any, len(it))
	for name, v := range it {
		out[name] = Plain(v)
	}
	return out
}

func listed[T any](in []T, each func(T) any) []any {
	out := make([]any, len(in))
	for i, v := range in {
		out[i] = each(v)
	}
	return out
}

func number(text string) any {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || strconv.FormatFloat(f, 'f', -1, 64) != text {
		return json.Number(text)
	}
	return f
}

// Text is a plain value in words, empty if there is nothing in it: a text as it
// is, a number as it is written, a list or map as the words in it. Booleans are
// "true" and "false".
func Text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case bool:
		return strconv.FormatBool(v)
	case []any:
		var parts []string
		for _, e := range v {
			if s := Text(e); s != "" {
				parts = append(parts, s)
			}
		}
		return strings.Join(parts, " ")
	case map[string]any:
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if s := Text(v[name]); s != "" {
				parts = append(parts, fmt.Sprintf("%s=%s", name, s))
			}
		}
		return strings.Join(parts, " ")
	}
	return ""
}

const (
	year2286     = 1e10 // in seconds; as milliseconds it is April 1970
	year2286InMs = 1e13
)

// Time reads RFC 3339, or a number of seconds or milliseconds since 1970, out of
// a plain value; anything else is no time.
func Time(v any) time.Time {
	text := strings.TrimSpace(Text(v))
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t, err := dlqbridge.ParseTime(text)
		if err != nil {
			return time.Time{}
		}
		return t
	}
	switch {
	case math.IsNaN(n) || n <= 0 || n >= year2286InMs:
		return time.Time{}
	case n < year2286:
		n *= 1000
	}
	return time.UnixMilli(int64(n)).UTC()
}
