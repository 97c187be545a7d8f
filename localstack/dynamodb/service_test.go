package dynamodb

import (
	"errors"
	"fmt"
	"testing"

	"github.com/dlqbridge/dlqbridge/localstack/clock"
	"github.com/dlqbridge/dlqbridge/localstack/wire"
)

// lettersTable creates a table with a text hash key, a number range key and an
// index over two texts.
const lettersTable = `{"TableName":"letters","BillingMode":"PAY_PER_REQUEST",
	"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"},{"AttributeName":"sk","AttributeType":"N"},
		{"AttributeName":"gk","AttributeType":"S"},{"AttributeName":"gs","AttributeType":"N"}],
	"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"},{"AttributeName":"sk","KeyType":"RANGE"}],
	"GlobalSecondaryIndexes":[{"IndexName":"work","Projection":{"ProjectionType":"KEYS_ONLY"},
		"KeySchema":[{"AttributeName":"gk","KeyType":"HASH"},{"AttributeName":"gs","KeyType":"RANGE"}]}]}`

// newLetters is a service with the table.
func newLetters(t testing.TB) *Service {
	t.Helper()
	s := New(clock.New(nil))
	must(t, s, "CreateTable", lettersTable)
	return s
}

// must carries out a call that is expected to succeed.
func must(t testing.TB, s *Service, operation, body string) string {
	t.Helper()
	answer, err := s.Call(t.Context(), operation, []byte(body))
	if err != nil {
		t.Fatalf("%s %s: %v", operation, body, err)
	}
	return string(answer)
}

// refused carries out a call that is expected to be refused, and gives the
// message.
func refused(t testing.TB, s *Service, operation, body string) string {
	t.Helper()
	answer, err := s.Call(t.Context(), operation, []byte(body))
	refusal, ok := errors.AsType[*wire.Error](err)
	if !ok {
		t.Fatalf("%s %s: got %s, %v, want a refusal", operation, body, answer, err)
	}
	return refusal.Message
}

func BenchmarkPut(b *testing.B) {
	s := newLetters(b)
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			body := fmt.Sprintf(`{"TableName":"letters","ConditionExpression":"attribute_not_exists(pk) OR v < :v",
				"ExpressionAttributeValues":{":v":{"N":"7"}},
				"Item":{"pk":{"S":"letter-%d"},"sk":{"N":"%d"},"gk":{"S":"WORK#q#%d"},"gs":{"N":"17"},"v":{"N":"1"},
				"state":{"S":"pending"},"body":{"S":"a body of some length, as letters have"},"tags":{"M":{"a":{"S":"b"}}}}}`, i, i, i%8)
			if _, err := s.Call(b.Context(), "PutItem", []byte(body)); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "puts/s")
}

func BenchmarkUpdate(b *testing.B) {
	s := newLetters(b)
	must(b, s, "PutItem", `{"TableName":"letters","Item":{"pk":{"S":"a"},"sk":{"N":"1"},"gk":{"S":"w"},"gs":{"N":"17"},"v":{"N":"1"}}}`)
	body := []byte(`{"TableName":"letters","Key":{"pk":{"S":"a"},"sk":{"N":"1"}},"UpdateExpression":"SET v = v + :one, gs = gs + :one",
		"ConditionExpression":"attribute_exists(pk)","ExpressionAttributeValues":{":one":{"N":"1"}},"ReturnValues":"ALL_NEW"}`)
	for b.Loop() {
		if _, err := s.Call(b.Context(), "UpdateItem", body); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "updates/s")
}
