package dynamodb

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge/localstack/clock"
	"github.com/dlqbridge/dlqbridge/localstack/wire"
)

// comparedTable has no indexes: what the judge does with them is no measure.
const comparedTable = `{"TableName":"compared","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],
	"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}]}`

// noAnswer is the judge's refusal when it breaks down.
const noAnswer = "no answer"

// judge is another implementation, such as npm's dynalite.
type judge string

func (j judge) call(t *testing.T, operation, body string) (answer map[string]any, refusal string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, string(j), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-amz-json-1.0")
	request.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
	request.Header.Set("X-Amz-Date", "20260801T000000Z")
	request.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=local/20260801/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0")
	client := &http.Client{Timeout: 300 * time.Millisecond}
	response, err := client.Do(request)
	if err != nil {
		return nil, noAnswer // some requests are too much for it
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if response.StatusCode == http.StatusOK {
		if attributes, ok := answer["Attributes"].(map[string]any); ok && len(attributes) == 0 {
			delete(answer, "Attributes")
		}
		return answer, ""
	}
	kind, _ := answer["__type"].(string)
	message, _ := answer["message"].(string)
	_, kind, _ = strings.Cut(kind, "#")
	return nil, kind + ": " + message
}

func (s *Service) compared(t *testing.T, operation, body string) (answer map[string]any, refusal string) {
	t.Helper()
	text, err := s.Call(t.Context(), operation, []byte(body))
	if e, ok := errors.AsType[*wire.Error](err); ok {
		_, kind, _ := strings.Cut(e.Type, "#")
		return nil, kind + ": " + e.Message
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return answer, ""
}

// TestRandomRequestsAreAnsweredAsByAnotherImplementation sends random updates
// and conditions to both. Where they differ, one is wrong: the judge's known
// faults make up the few per cent that are let through; read the log.
func TestRandomRequestsAreAnsweredAsByAnotherImplementation(t *testing.T) {
	url := os.Getenv("LOCALCLOUD_COMPARE_ENDPOINT")
	if url == "" {
		t.Skip("LOCALCLOUD_COMPARE_ENDPOINT names no endpoint, such as one of npm's dynalite")
	}
	count, err := strconv.Atoi(cmp.Or(os.Getenv("LOCALCLOUD_COMPARE_COUNT"), "2000"))
	if err != nil {
		t.Fatal(err)
	}
	theirs, ours := judge(url), New(clock.New(nil))
	if _, refusal := theirs.call(t, "CreateTable", comparedTable); refusal != "" && !strings.Contains(refusal, "ResourceInUse") {
		t.Fatal(refusal)
	}
	must(t, ours, "CreateTable", comparedTable)
	for tries := 0; ; tries++ {
		answer, refusal := theirs.call(t, "DescribeTable", `{"TableName":"compared"}`)
		if table, ok := answer["Table"].(map[string]any); ok && table["TableStatus"] == "ACTIVE" {
			break
		}
		if refusal != "" || tries == 1000 {
			t.Fatalf("the table is not there: %s", refusal)
		}
	}
	g := generator{rand.New(rand.NewPCG(5, uint64(count)))}
	outcomes, wordings := 0, 0
	for i := range count {
		key := strconv.Itoa(i) // a request that breaks the judge keeps its item locked
		put := `{"TableName":"compared","Item":` + g.item(key) + `}`
		_, a := ours.compared(t, "PutItem", put)
		_, b := theirs.call(t, "PutItem", put)
		if a != b {
			t.Logf("%s\nours   %s\ntheirs %s", put, a, b)
		}
		body := g.update(key)
		answerA, refusalA := ours.compared(t, "UpdateItem", body)
		answerB, refusalB := theirs.call(t, "UpdateItem", body)
		if refusalB == noAnswer || refusalA == refusalB && reflect.DeepEqual(answerA, answerB) {
			continue
		}
		kindA, _, _ := strings.Cut(refusalA, ":")
		kindB, _, _ := strings.Cut(refusalB, ":")
		if kindA == kindB && reflect.DeepEqual(answerA, answerB) {
			wordings++
			t.Logf("wording: %s\nours   %s\ntheirs %s", body, refusalA, refusalB)
			continue
		}
		outcomes++
		t.Logf("outcome: %s\nitem   %s\nours   %v %s\ntheirs %v %s", body, put, answerA, refusalA, answerB, refusalB)
	}
	t.Logf("of %d requests %d differ in outcome, %d in wording", count, outcomes, wordings)
	if outcomes*20 > count {
		t.Errorf("%d of %d requests differ in outcome, more than one in twenty", outcomes, count)
	}
}

// generator makes random requests that are mostly right.
type generator struct{ *rand.Rand }

func (g generator) pick(from ...string) string { return from[g.IntN(len(from))] }

func (g generator) value(levels int) string {
	if levels > 0 && g.IntN(3) == 0 {
		if g.IntN(2) == 0 {
			return fmt.Sprintf(`{"L":[%s,%s]}`, g.value(levels-1), g.value(levels-1))
		}
		return fmt.Sprintf(`{"M":{"x":%s,"y":%s}}`, g.value(levels-1), g.value(levels-1))
	}
	return g.pick(`{"N":"1"}`, `{"N":"-2.5"}`, `{"N":"1E3"}`, `{"S":"a"}`, `{"S":"ab"}`, `{"BOOL":true}`, `{"NULL":true}`, `{"SS":["a","b"]}`, `{"NS":["1","2"]}`, `{"B":"AAE="}`, `{"SS":["c"]}`, `{"NS":["1"]}`)
}

func (g generator) item(key string) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"pk":{"S":%q}`, key)
	for _, name := range []string{"a", "b", "c", "d"} {
		if g.IntN(4) > 0 {
			fmt.Fprintf(&b, `,"%s":%s`, name, g.value(2))
		}
	}
	b.WriteString("}")
	return b.String()
}

func (g generator) path() string {
	parts := []string{g.pick("a", "b", "c", "d", "e", "a", "b", "c", "d", "#n", "status", "pk")}
	for g.IntN(3) == 0 {
		parts = append(parts, g.pick(".x", ".y", "[0]", "[1]", "[7]"))
	}
	return strings.Join(parts, "")
}

func (g generator) operand() string { return g.pick(g.path(), g.path(), ":v", ":w", ":n") }

func (g generator) condition(levels int) string {
	if levels > 0 {
		switch g.IntN(6) {
		case 0:
			return g.condition(levels-1) + " AND " + g.condition(levels-1)
		case 1:
			return g.condition(levels-1) + " OR " + g.condition(levels-1)
		case 2:
			return "NOT " + g.condition(levels-1)
		case 3:
			return "(" + g.condition(levels-1) + ")"
		}
	}
	switch g.IntN(8) {
	case 0:
		return g.pick("attribute_exists", "attribute_not_exists") + "(" + g.path() + ")"
	case 1:
		return g.pick("begins_with", "contains") + "(" + g.path() + ", " + g.operand() + ")"
	case 2:
		return g.operand() + " BETWEEN " + g.operand() + " AND " + g.operand()
	case 3:
		return g.operand() + " IN (" + g.operand() + ", " + g.operand() + ")"
	case 4:
		return "size(" + g.path() + ") " + g.pick("=", "<", ">") + " " + g.operand()
	case 5:
		return "attribute_type(" + g.path() + ", :t)"
	}
	return g.operand() + " " + g.pick("=", "<>", "<", "<=", ">", ">=") + " " + g.operand()
}

func (g generator) right() string {
	switch g.IntN(5) {
	case 0:
		return g.operand() + g.pick(" + ", " - ") + g.operand()
	case 1:
		return "if_not_exists(" + g.path() + ", " + g.operand() + ")"
	case 2:
		return "list_append(" + g.operand() + ", " + g.operand() + ")"
	}
	return g.operand()
}

func (g generator) update(key string) string {
	var sections []string
	if g.IntN(4) > 0 {
		sets := []string{g.path() + " = " + g.right()}
		for g.IntN(3) == 0 {
			sets = append(sets, g.path()+" = "+g.right())
		}
		sections = append(sections, "SET "+strings.Join(sets, ", "))
	}
	if g.IntN(3) == 0 {
		sections = append(sections, "REMOVE "+g.path())
	}
	if g.IntN(4) == 0 {
		sections = append(sections, "ADD "+g.path()+" "+g.pick(":v", ":n", ":w"))
	}
	if g.IntN(4) == 0 {
		sections = append(sections, "DELETE "+g.path()+" "+g.pick(":v", ":w"))
	}
	expressions := map[string]string{}
	if len(sections) > 0 {
		expressions["UpdateExpression"] = strings.Join(sections, " ")
	}
	if g.IntN(2) == 0 {
		expressions["ConditionExpression"] = g.condition(2)
	}
	text := expressions["UpdateExpression"] + " " + expressions["ConditionExpression"]
	values := map[string]json.RawMessage{}
	for _, name := range []string{":v", ":w", ":n", ":t"} {
		if !strings.Contains(text, name) && g.IntN(60) > 0 || g.IntN(60) == 0 {
			continue
		}
		switch name {
		case ":n":
			values[name] = json.RawMessage(g.pick(`{"N":"1"}`, `{"N":"0.5"}`))
		case ":t":
			values[name] = json.RawMessage(g.pick(`{"S":"N"}`, `{"S":"M"}`, `{"S":"X"}`, `{"S":"SS"}`))
		default:
			values[name] = json.RawMessage(g.value(1))
		}
	}
	body := map[string]any{
		"TableName": "compared", "Key": json.RawMessage(fmt.Sprintf(`{"pk":{"S":%q}}`, key)),
		"ReturnValues": g.pick("ALL_NEW", "UPDATED_NEW", "UPDATED_OLD", "ALL_OLD", "NONE", "ALL_NEW"),
	}
	for member, expression := range expressions {
		body[member] = expression
	}
	if len(values) > 0 {
		body["ExpressionAttributeValues"] = values
	}
	if strings.Contains(text, "#n") {
		body["ExpressionAttributeNames"] = map[string]string{"#n": g.pick("a", "e", "pk")}
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		panic(err) // strings and raw JSON
	}
	return string(encoded)
}
