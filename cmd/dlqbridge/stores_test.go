package main_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	ddb "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/dlqbridge/dlqbridge/localstack"
)

// withStore is the configuration of one route that asks one store.
func withStore(name, store string) string {
	return `
tables: {records: dlqbridge-records, payloads: dlqbridge-payloads, ledger: agent-ledger}
routes:
  - {name: orders, sqs: {dead_letter_queue: orders-dlq, source_queue: orders}, stores: [message, ` + name + `]}
stores:
  ` + name + `: ` + store + `
`
}

// table makes a table whose keys are strings, and puts items into it.
func (b *bench) table(name string, keys []string, items ...map[string]ddb.AttributeValue) {
	b.t.Helper()
	in := &dynamodb.CreateTableInput{TableName: &name, BillingMode: ddb.BillingModePayPerRequest}
	for i, k := range keys {
		in.AttributeDefinitions = append(in.AttributeDefinitions, ddb.AttributeDefinition{AttributeName: aws.String(k), AttributeType: ddb.ScalarAttributeTypeS})
		in.KeySchema = append(in.KeySchema, ddb.KeySchemaElement{AttributeName: aws.String(k), KeyType: []ddb.KeyType{ddb.KeyTypeHash, ddb.KeyTypeRange}[i]})
	}
	if _, err := b.tables.CreateTable(b.t.Context(), in); err != nil {
		b.t.Fatal(err)
	}
	b.put(name, items...)
}

func (b *bench) put(table string, items ...map[string]ddb.AttributeValue) {
	b.t.Helper()
	for _, it := range items {
		if _, err := b.tables.PutItem(b.t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: it}); err != nil {
			b.t.Fatal(err)
		}
	}
}

// typed reads a fixture's value in DynamoDB's own form.
func typed(t *testing.T, v map[string]any) ddb.AttributeValue {
	t.Helper()
	for kind, raw := range v {
		switch kind {
		case "S":
			return &ddb.AttributeValueMemberS{Value: raw.(string)}
		case "N":
			return &ddb.AttributeValueMemberN{Value: raw.(string)}
		case "B":
			bytes, err := base64.StdEncoding.DecodeString(raw.(string))
			if err != nil {
				t.Fatal(err)
			}
			return &ddb.AttributeValueMemberB{Value: bytes}
		}
	}
	t.Fatalf("no value in %v", v)
	return nil
}

func typedItem(t *testing.T, raw map[string]map[string]any) map[string]ddb.AttributeValue {
	t.Helper()
	out := map[string]ddb.AttributeValue{}
	for name, v := range raw {
		out[name] = typed(t, v)
	}
	return out
}

// fixtureFile decodes a file of a store's own fixtures, which have the shapes
// that the frameworks write.
func fixtureFile[T any](t *testing.T, path string) T {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out T
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// withSockets makes a bench with one queue pair in real time: what waits for a
// socket keeps virtual time from passing.
func withSockets(t *testing.T, config string, do func(*bench)) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "dlqbridge.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cloud := localstack.New(localstack.Options{})
	defer cloud.Close()
	b := &bench{
		t: t, cloud: cloud, sqs: sqs.NewFromConfig(cloud.AWSConfig()), tables: dynamodb.NewFromConfig(cloud.AWSConfig()),
		config: file, person: "ann", env: map[string]string{},
	}
	b.pair("orders")
	b.ok("tables", "create")
	do(b)
}

// letter is the worker's own word that a task failed, taken in.
func (b *bench) letter(body string, facts row) record {
	b.t.Helper()
	b.send("orders-dlq", body, with(row{"v": 1, "task": "t-7", "type": "bill", "cause": "timeout", "code": "ETIMEDOUT"}, facts))
	b.ok("intake", "--until-empty")
	ids := b.byTask()
	if len(ids) != 1 {
		b.t.Fatalf("%d records", len(ids))
	}
	for _, id := range ids {
		return b.show(id)
	}
	return record{}
}

// must compares what follows, and that a finding of the store with this state
// and proof is there.
func (r record) must(t *testing.T, effect, action, store, step, state, proof string) {
	t.Helper()
	found := slices.ContainsFunc(r.Effect.Findings, func(f struct{ Store, Step, State, Proof string }) bool {
		return f.Store == store && f.Step == step && f.State == state && f.Proof == proof
	})
	if r.Effect.State != effect || r.Decision.Action != action || !found {
		t.Errorf("effect %s, action %s, findings %+v; want %s, %s and %s from %s on %s by %s",
			r.Effect.State, r.Decision.Action, r.Effect.Findings, effect, action, state, store, step, proof)
	}
}

const idempotency = `{powertools: {table: idempotency, runtime: python, prefix: billing-fn.handler, event_key_jmespath: powertools_json(body).order_id, receipt_jmespath: charge}}`

func TestPowertoolsStore(t *testing.T) {
	// The key of order 7 in Powertools' own form: md5 of the JSON text 7.
	completed := typedItem(t, fixtureFile[map[string]map[string]map[string]any](t, "../../adapters/powertools/testdata/records.json")["python_completed"])
	for name, c := range map[string]struct {
		items                []map[string]ddb.AttributeValue
		effect, action       string
		step, finding, proof string
	}{
		"completed": {[]map[string]ddb.AttributeValue{completed}, "confirmed", "compensate", "*", "confirmed", "receipt"},
		"silence":   {nil, "unknown", "human_review", "*", "unknown", "nothing_found"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, withStore("idem", idempotency), []string{"orders"}, func(b *bench) {
				b.table("idempotency", []string{"id"}, c.items...)
				b.letter(`{"order_id":7}`, nil).must(t, c.effect, c.action, "idem", c.step, c.finding, c.proof)
			})
		})
	}
}

// Powertools knows no task ids: the message alone is enough to ask by.
func TestPowertoolsStoreIsAskedAboutLettersWithoutIDs(t *testing.T) {
	completed := typedItem(t, fixtureFile[map[string]map[string]map[string]any](t, "../../adapters/powertools/testdata/records.json")["python_completed"])
	inBubble(t, withStore("idem", idempotency), []string{"orders"}, func(b *bench) {
		b.table("idempotency", []string{"id"}, completed)
		b.letter(`{"order_id":7}`, row{"task": ""}).must(t, "confirmed", "compensate", "idem", "*", "confirmed", "receipt")
	})
}

// A store that refuses loses nothing: the record is there, held, and looked at
// again by itself.
func TestAStoreThatRefusesHoldsTheRecord(t *testing.T) {
	inBubble(t, withStore("graph", `{langgraph: {table: checkpoints, thread: "{taskId}"}}`), []string{"orders"}, func(b *bench) {
		if _, err := b.cloud.AddFault(localstack.Fault{Service: "dynamodb", Operation: "Query", Contains: "checkpoints", Times: -1, Do: "error", Code: "AccessDeniedException", Status: 400}); err != nil {
			t.Fatal(err)
		}
		r := b.letter("{}", nil)
		if r.Effect.State != "unknown" || r.Decision.Action != "human_review" || r.RecheckAt == nil {
			t.Errorf("got %+v", r)
		}
	})
}

func TestDeclarationsStandBesideASilentStore(t *testing.T) {
	for effects, want := range map[string]string{"none": "retry", "idempotent, idempotency_window: 12h": "retry"} {
		config := strings.Replace(withStore("idem", idempotency), "stores: [", "effects: "+effects+", stores: [", 1)
		inBubble(t, config, []string{"orders"}, func(b *bench) {
			b.table("idempotency", []string{"id"})
			// When it was first tried only the source's own clock says.
			b.send("orders", `{"order_id":7}`, row{"v": 1, "task": "t-7", "idem": "k", "cause": "timeout"})
			b.die("orders")
			b.ok("intake", "--until-empty")
			if r := b.show(b.byTask()["t-7"]); r.Decision.Action != want {
				t.Errorf("effects %s: %+v, %+v", effects, r.Effect, r.Decision)
			}
		})
	}
}

// The key is made from the message, so the message must be there again when the
// record is judged before its send.
func TestPowertoolsStoreIsAskedAgainBeforeTheSend(t *testing.T) {
	inBubble(t, withStore("idem", idempotency), []string{"orders"}, func(b *bench) {
		b.table("idempotency", []string{"id"})
		id := b.letter(`{"order_id":7}`, nil).ID
		b.triage(0, "settle-effect", id, append([]string{"--to", "none_confirmed", "--all-steps"}, said...)...)
		b.show(id).must(t, "none_confirmed", "retry", "idem", "*", "unknown", "nothing_found")
		b.ok("redrive", "run", "--cause", "timeout", "--fix", "deploy:1", "--reason", "up again")
		if m := b.receive("orders"); m == nil {
			t.Errorf("nothing was sent: %+v", b.show(id))
		}
	})
}

func TestLangGraphStore(t *testing.T) {
	all := fixtureFile[map[string][]map[string]map[string]any](t, "../../adapters/langgraph/testdata/items.json")
	var items []map[string]ddb.AttributeValue
	for _, raw := range slices.Concat(all["base"], all["finished_and_raised"]) {
		items = append(items, typedItem(t, raw))
	}
	const store = `{langgraph: {table: checkpoints, thread: "{taskId}"}}`
	inBubble(t, withStore("graph", store), []string{"orders"}, func(b *bench) {
		b.table("checkpoints", []string{"PK", "SK"}, items...)
		r := b.letter("{}", nil)
		if r.Effect.State != "unknown" || r.Decision.Action != "human_review" || !slices.ContainsFunc(r.Effect.Findings, func(f struct{ Store, Step, State, Proof string }) bool {
			return f.Store == "graph" && strings.Contains(f.Step, "charge") && f.State == "confirmed"
		}) {
			t.Errorf("got %+v", r.Effect)
		}
	})
	inBubble(t, withStore("graph", store), []string{"orders"}, func(b *bench) {
		b.table("checkpoints", []string{"PK", "SK"})
		b.letter("{}", nil).must(t, "unknown", "human_review", "graph", "*", "unknown", "nothing_found")
	})
}

func TestTableStore(t *testing.T) {
	rows := fixtureFile[map[string]map[string]any](t, "../../adapters/tablestore/testdata/rows.json")
	const store = `
    dynamodb_table:
      table: receipts
      hash: {attribute: pk, value: "T#{tenant}#{taskId}"}
      range: {attribute: sk, value: "STEP#*"}
      fields: {status: "attr:state", receipt: "item:/result/charge/id"}
      confirmed: [DONE]
      none: {status: [SKIPPED], because: "The worker writes BUSY before each call.", proof: not_started}`
	for name, c := range map[string]struct {
		row                   string
		effect, action, proof string
	}{
		"a receipt":             {"done", "confirmed", "compensate", "receipt"},
		"a declared absence":    {"skipped", "none_confirmed", "retry", "not_started"},
		"a status not declared": {"busy", "unknown", "human_review", "system_read"},
		"no row":                {"", "unknown", "human_review", "nothing_found"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, withStore("receipts", store), []string{"orders"}, func(b *bench) {
				b.table("receipts", []string{"pk", "sk"})
				if c.row != "" {
					b.put("receipts", attributes(rows[c.row]))
				}
				b.letter("{}", row{"tenant": "acme"}).must(t, c.effect, c.action, "receipts", "*", c.effect, c.proof)
			})
		})
	}
}

func TestOpenAIAgentsStore(t *testing.T) {
	all := fixtureFile[map[string]json.RawMessage](t, "../../adapters/openaiagents/testdata/states.json")
	const store = `
    openai_agents:
      table: agent-states
      hash: {attribute: pk, value: "TASK#{taskId}"}
      state: state
      updated: saved_at
      mutating: [charge_card, send_mail]
      saved_before_each_call: "The wrapper of each tool saves the state first."`
	for name, c := range map[string]struct{ effect, action, step, state, proof string }{
		"waits_for_approval": {"none_confirmed", "retry", "call_2#charge_card", "none_confirmed", "not_started"},
		"done":               {"confirmed", "compensate", "call_2#charge_card", "confirmed", "system_read"},
		"died_in_the_charge": {"unknown", "human_review", "call_2#charge_card", "unknown", "nothing_found"},
		"":                   {"unknown", "human_review", "*", "unknown", "nothing_found"},
	} {
		t.Run("state "+name, func(t *testing.T) {
			inBubble(t, withStore("state", store), []string{"orders"}, func(b *bench) {
				b.table("agent-states", []string{"pk"})
				if name != "" {
					b.put("agent-states", attributes(map[string]any{
						"pk": "TASK#t-7", "state": string(all[name]), "saved_at": time.Now().Add(-time.Hour).UTC().Format(time.RFC3339),
					}))
				}
				b.letter("{}", nil).must(t, c.effect, c.action, "state", c.step, c.state, c.proof)
			})
		})
	}
}

// states is Step Functions with one execution.
func states(t *testing.T, execution string) http.Handler {
	all := fixtureFile[map[string]struct{ Describe, Events json.RawMessage }](t, "../../adapters/stepfunctions/testdata/executions.json")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		switch e, there := all[execution]; {
		case !there:
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprint(w, `{"__type":"ExecutionDoesNotExist","message":"no such execution"}`)
		case strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".DescribeExecution"):
			_, _ = w.Write(e.Describe)
		default:
			_, _ = fmt.Fprintf(w, `{"events":%s}`, e.Events)
		}
	})
}

func TestStepFunctionsStore(t *testing.T) {
	const store = `{stepfunctions: {execution: "arn:aws:states:us-east-1:123456789012:execution:billing:{taskId}"}}`
	for execution, c := range map[string]struct{ effect, action, step, state, proof string }{
		"scheduled_only": {"none_confirmed", "retry", "*", "none_confirmed", "not_started"},
		"failed_call":    {"unknown", "human_review", "*", "none_confirmed", "not_started"},
		"":               {"unknown", "human_review", "*", "unknown", "nothing_found"},
	} {
		t.Run("execution "+execution, func(t *testing.T) {
			inBubble(t, withStore("flow", store), []string{"orders"}, func(b *bench) {
				b.states = states(t, execution)
				b.letter("{}", nil).must(t, c.effect, c.action, "flow", c.step, c.state, c.proof)
			})
		})
	}
}

func TestReconcileStore(t *testing.T) {
	for name, c := range map[string]struct {
		status               int
		body                 string
		effect, action       string
		state, proof         string
		unavailable, noToken bool
	}{
		"done":           {status: 200, body: `{"data":[{"id":"ch_1","status":"succeeded"}]}`, effect: "confirmed", action: "compensate", state: "confirmed", proof: "system_read"},
		"not done yet":   {status: 200, body: `{"data":[]}`, effect: "unknown", action: "human_review"},
		"something else": {status: 200, body: `{"data":[{"id":"ch_1","status":"odd"}]}`, effect: "unknown", action: "human_review"},
		"refused":        {status: 401, body: `{}`, effect: "unknown", action: "human_review", unavailable: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked []string
			system := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked = append(asked, r.Header.Get("Authorization")+" "+r.URL.String())
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(c.status)
				_, _ = fmt.Fprint(w, c.body)
			}))
			defer system.Close()
			store := `
    reconcile:
      url: "` + system.URL + `/charges?key={idempotencyKey}"
      headers: {Authorization: "Bearer env:PAYMENTS_TOKEN"}
      done: [{body: [{at: /data/0/status, equals: [succeeded]}]}]
      not_done: [{body: [{at: /data, empty: true}]}]
      receipt: /data/0/id
      authoritative: true
      consistency_delay: 2m
      allow_addresses: [127.0.0.1/32]`
			withSockets(t, withStore("charges", store), func(b *bench) {
				b.env["PAYMENTS_TOKEN"] = "s3cr3t"
				r := b.letter("{}", row{"idem": "k-7"})
				if len(asked) != 1 || asked[0] != "Bearer s3cr3t /charges?key=k-7" {
					t.Errorf("asked %q", asked)
				}
				if c.state != "" {
					r.must(t, c.effect, c.action, "charges", "*", c.state, c.proof)
				} else if r.Effect.State != c.effect || r.Decision.Action != c.action {
					t.Errorf("got %+v, %+v", r.Effect, r.Decision)
				}
				if strings.Contains(b.ok("config").stdout, "s3cr3t") {
					t.Error("the secret is shown")
				}
				if name != "not done yet" {
					return
				}
				// What the system does not know by now did not happen.
				b.later = 5 * time.Minute
				b.triage(0, "investigate", r.ID, "--reason", "its delay is over")
				b.show(r.ID).must(t, "none_confirmed", "retry", "charges", "*", "none_confirmed", "system_read")
			})
		})
	}
}

func TestASecretThatIsNotThereKeepsLettersWhereTheyAre(t *testing.T) {
	const store = `{reconcile: {url: "https://pay.example.com/{taskId}", headers: {Authorization: "env:PAYMENTS_TOKEN"}, done: [{status: [200]}]}}`
	inBubble(t, withStore("charges", store), []string{"orders"}, func(b *bench) {
		r := document[refused](b, 1, "intake", "--until-empty")
		if !strings.Contains(r.Error.Message, "PAYMENTS_TOKEN is not set") {
			t.Errorf("got %+v", r)
		}
		b.ok("records", "list") // who only reads needs no secret
	})
}

func TestOwnRulesAndSelectors(t *testing.T) {
	inBubble(t, `
tables: {records: dlqbridge-records, payloads: dlqbridge-payloads, ledger: agent-ledger}
routes:
  - name: orders
    sqs: {dead_letter_queue: orders-dlq, source_queue: orders}
    effects: none
    fields: {taskId: ["jmespath:items[?kind == 'order'].id | [0]"], tenant: ["jmespath:items[?kind == 'customer'].id | [0]"]}
    classify:
      - {when: 'failure.code == "E_CARD"', cause: business_rule}
classify:
  - {when: 'failure.code.startsWith("E_")', cause: invalid_input}
`, []string{"orders"}, func(b *bench) {
		for code, order := range map[string]string{"E_CARD": "90071992547409931", "E_SCHEMA_17": "2", "ETIMEDOUT": "3"} {
			b.send("orders", `{"items":[{"kind":"customer","id":"acme"},{"kind":"order","id":`+order+`}]}`, row{"v": 1, "code": code})
		}
		b.die("orders")
		b.ok("intake", "--until-empty")
		ids := b.byTask()
		for order, want := range map[string]string{"90071992547409931": "business_rule", "2": "invalid_input", "3": "timeout"} {
			if r := b.show(ids[order]); r.Failure.Cause != want {
				t.Errorf("order %s: cause %s, want %s", order, r.Failure.Cause, want)
			}
		}
		if text := b.ok("records", "explain", ids["90071992547409931"]).stdout; !strings.Contains(text, `rule 1: failure.code == "E_CARD"`) {
			t.Errorf("the rule is not named:\n%s", text)
		}
	})
}

func TestMalformedRulesStopEveryCommand(t *testing.T) {
	inBubble(t, oneRoute, nil, func(b *bench) {
		if err := os.WriteFile(b.config, []byte(oneRoute+"classify:\n  - cause: timeout\n    when: failure.code == \"E\" &&\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if c := b.want(2, "records", "list"); !strings.Contains(c.stderr, ":7: classify[0].when: line 1:") {
			t.Errorf("got %s", c.stderr)
		}
	})
}
