package enrich_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/enrich"
)

const topic = "arn:aws:sns:eu-west-1:111122223333:orders"

func notification(message string) string {
	quoted, _ := json.Marshal(message)
	return `{"Type":"Notification","MessageId":"n-1","TopicArn":"` + topic + `","Timestamp":"2026-11-30T11:58:00.120Z","Message":` + string(quoted) +
		`,"MessageAttributes":{"tenant":{"Type":"String","Value":"admin"}}}`
}

// C23: nothing in an envelope that anybody can forge says whose work it is or
// where it goes; the whole outer text is what is kept.
func TestC23ForgedEnvelopeSaysNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		bodies := []string{
			`{"MessageId":"m-1","Message":"order 7"}`,
			`{"TopicArn":"arn:aws:sns:eu-west-1:111122223333:x","Message":"{}","MessageAttributes":{"tenant":{"Type":"String","Value":"admin"}}}`,
			notification(`{"tenantId":"admin","source":"arn:aws:sqs:eu-west-1:1:elsewhere"}`),
		}
		for _, b := range bodies {
			w.send(message{body: b})
		}
		w.die()
		w.drain()
		for _, c := range w.cases() {
			if c.Control.Source != arn("orders") || c.Control.Tenant != "" || c.Control.TaskID != "" || c.Control.Route != "orders" {
				t.Errorf("believed: %+v", c.Control)
			}
			p, err := w.store.Payload(t.Context(), c.Control.ID, c.Control.Newest)
			must(t, err)
			if !slices.Contains(bodies, string(p.Body)) {
				t.Errorf("another body is kept: %s", p.Body)
			}
		}
	})
}

// With the topic named by the route the same envelope is opened, and still
// only the transport says where the work belongs.
func TestNamedTopicIsOpened(t *testing.T) {
	e := enricher(t, enrich.Route{Name: "orders", Place: arn("orders-dlq"), Topics: []string{topic}})
	a := e.Extract(sqsLetter(notification(`{"taskId":"t-1"}`)))
	if a.Task.TaskID != "t-1" || a.Task.Tenant != "admin" || a.Source != arn("orders") || len(a.Conflicts) != 0 {
		t.Errorf("got %+v from %s, conflicts %v", a.Task, a.Source, a.Conflicts)
	}
	// An attribute of the message itself goes before one that SNS carries.
	a = e.Extract(sqsLetter(notification(`{}`), text("tenant", "acme")))
	if a.Task.Tenant != "acme" {
		t.Errorf("got tenant %q", a.Task.Tenant)
	}
}

// An envelope of a named topic that lacks what SNS always writes is a forgery
// or something else.
func TestNamedTopicWithAnotherShape(t *testing.T) {
	e := enricher(t, enrich.Route{Name: "orders", Place: arn("orders-dlq"), Topics: []string{topic}})
	for _, change := range [][2]string{{`"Notification"`, `"UnsubscribeConfirmation"`}, {`"Timestamp"`, `"When"`}, {`"MessageId"`, `"Id"`}, {`"Type":"Notification",`, ""}} {
		a := e.Extract(sqsLetter(strings.Replace(notification(`{"taskId":"t-1"}`), change[0], change[1], 1)))
		if a.Task.TaskID != "" || a.Task.Tenant != "" || !slices.Equal(a.Envelopes, []string{"looks-like-sns"}) {
			t.Errorf("%v: got %+v, %v", change, a.Task, a.Envelopes)
		}
	}
}

// Text, numbers and lists that have a key or two of an envelope are none.
func TestLookAlikesAreLeftAlone(t *testing.T) {
	e := enricher(t, enrich.Route{Name: "orders", Place: arn("orders-dlq"), Topics: []string{topic}})
	for _, body := range []string{
		`{"headers":{"id":"x"},"body":"y"}`, `{"headers":{"task":7}}`, `{"headers":"task"}`, `{"Records":[{"a":1}]}`, `{"Records":{}}`, `{"Records":[]}`,
		`{"Service":"x","Event":"y"}`, `{"detail-type":"x","detail":"y"}`, `{"specversion":1,"id":2,"source":3}`, `{"job":"x","data":[],"displayName":"d"}`,
		`{"metadata":{},"data":"x"}`, `{"metadata":{"encoding":"%%"},"data":"x"}`, `["a.b.C",{"s3Key":"k"}]`, `{"@pointer":"k","x":1}`, `{"tool_calls":[]}`,
		`{"tool_calls":[{"function":{"arguments":"{}"}}]}`, `{"choices":[]}`, `{"requestContext":{},"requestPayload":{}}`, `{"busArn":"x","failedMessages":[]}`,
		`{"TopicArn":"orders","Message":"x"}`, `{"TopicArn":"` + topic + `","Message":{"a":1}}`, `deadbeef`, `SGVsbG8=`, `1234`, `abcd`, `eyJ`, `H4sI`, `e30`, `W10=x`,
		"H4sIAAAAAAAA", "\x1f\x8b\x08", `{"job_class":"A","job_id":{}}`,
	} {
		a := e.Extract(sqsLetter(body))
		if len(a.Envelopes) != 0 || len(a.Facts) != 0 {
			t.Errorf("%s: taken for %v, %v", body, a.Envelopes, a.Facts)
		}
	}
}

// The fifth level is not opened, whatever it is.
func TestAtMostFourLevels(t *testing.T) {
	body := `{"taskId":"deep"}`
	for range 10 {
		body = inBase64([]byte(`{"detail-type":"x","detail":` + body + `}`))
		body = `{"specversion":"1.0","id":"i","source":"s","type":"t","data":"` + body + `"}`
	}
	a := plain(t).Extract(sqsLetter(body))
	if len(a.Envelopes) != 4 || a.Task.TaskID == "deep" {
		t.Errorf("got %v, task %q", a.Envelopes, a.Task.TaskID)
	}
}

// C25: what an asynchronous invocation left has no queue to go back to.
func TestC25NoPlainRedriveOfAnInvocation(t *testing.T) {
	e := enricher(t, enrich.Route{Name: "calls", Place: arn("calls-dlq")})
	l := sqsLetter(`{"order":7}`, text("RequestID", "r-1"), dlqbridge.Attribute{Name: "ErrorCode", Type: "Number", Value: []byte("200")},
		text("ErrorMessage", strings.Repeat("x", 1020)+"\n  a"))
	l.Source = ""
	a := e.Extract(l)
	if len(a.Envelopes) != 1 || a.Facts["lambda.messageCut"] != "possibly" || a.Facts["lambda.requestId"] != "r-1" || a.Failure.Code != "200" || a.Source != "" {
		t.Errorf("got %v, %v, %+v", a.Envelopes, a.Facts, a.Failure)
	}
	j := e.Judge(t.Context(), start, []enrich.Subject{{Arrival: &a}})[0]
	if !strings.Contains(j.Context.Restriction, "target_missing") || !strings.Contains(j.Context.Restriction, "Invoke it") {
		t.Errorf("no advice: %q", j.Context.Restriction)
	}
	named := enricher(t, enrich.Route{Name: "calls", Place: arn("calls-dlq"), Source: arn("calls")})
	if j := named.Judge(t.Context(), start, []enrich.Subject{{Arrival: &a}})[0]; strings.Contains(j.Context.Restriction, "target_missing") {
		t.Errorf("a route with a source: %q", j.Context.Restriction)
	}
}

// C31: one letter's event is not the next one's, whatever came before it.
func TestC31NoEventLeaksIntoTheNext(t *testing.T) {
	e := plain(t)
	binary := sqsLetter(`{}`, text("ce-id", "e-1"), text("ce-type", "a"), text("ce-source", "/a"), text("ce-specversion", "1.0"), text("Content-Type", "application/json"))
	structured := sqsLetter(`{"specversion":"1.0","id":"e-2","type":"b","source":"/b"}`, text("content-type", "application/cloudevents+json"))
	want := [][3]string{{"e-1", "a", "/a"}, {"e-2", "b", "/b"}}
	for i, l := range []dlqbridge.Letter{binary, structured} {
		a := e.Extract(l)
		if got := [3]string{a.Facts["ce.id"], a.Facts["ce.type"], a.Facts["ce.source"]}; got != want[i] || a.Task.TaskID != want[i][0] {
			t.Errorf("got %v, task %q", got, a.Task.TaskID)
		}
	}
}

// C49: the provider's own dead-letter marks are in the record and not among
// what the sender wrote, so they choose nothing.
func TestC49ServiceAttributesAreTheProviders(t *testing.T) {
	l := sqsLetter(`{"taskId":"t-1"}`, text("goods", "1"))
	l.Provider, l.Place, l.Source = dlqbridge.PubSub, "projects/p/subscriptions/dead", "projects/p/subscriptions/orders"
	l.System = map[string]string{"CloudPubSubDeadLetterSourceSubscription": "orders", "CloudPubSubDeadLetterSourceDeliveryCount": "5", "googclient_deliveryattempt": "5"}
	a := plain(t).Extract(l)
	if diff := gocmp.Diff(l.System, a.System); diff != "" || a.Task.Attempts != nil {
		t.Errorf("attempts %v, system: %s", a.Task.Attempts, diff)
	}
}

func FuzzUnwrap(f *testing.F) {
	for _, body := range []string{
		notification(`{"taskId":"t"}`), `{"headers":{"task":"a","stamps":{"tenant":[1]}},"body":"W10=","properties":{"body_encoding":"base64"}}`,
		`["software.amazon.payloadoffloading.PayloadS3Pointer",{"s3Key":"k"}]`, `{"Records":[{"eventSource":"aws:s3","s3":{"object":{"key":"%zz+"}}}]}`,
		`{"metadata":{"encoding":"anNvbi9wbGFpbg=="},"data":"e30="}`, `{"tool_calls":[{"function":{"arguments":"{","name":1}}],"finish_reason":"length"}`,
		`{"job":"x","data":{},"displayName":"d","illuminate:log:context":{"data":{"tenant":"s:1:\"a\";"}}}`, inBase64([]byte(`{"headers":{"task":"a"}}`)),
		`{"version":"1","busArn":"arn:aws:events:r:a:b","failedMessages":[1,{"eventId":2}]}`, `{"requestContext":{"condition":"x"},"requestPayload":"[]"}`,
		`{"detail-type":1,"detail":{"specversion":"1","id":1,"source":1,"type":2,"data_base64":"e30="}}`,
	} {
		f.Add([]byte(body), "RequestID", "1", "agent__0x2e__ctx", "%7B%22task%22%3A1%7D")
	}
	f.Add(gzipped(f, `{"taskId":"t"}`), "base64encoded", "true", "ce-id", "1")
	e := enricher(f, enrich.Route{Name: "r", Place: "p", Topics: []string{topic}})
	f.Fuzz(func(t *testing.T, body []byte, name1, value1, name2, value2 string) {
		l := sqsLetter(string(body), text(name1, value1), text(name2, value2), text("ErrorCode", value1), text("ErrorMessage", value2))
		before := l.Payload.Encode()
		a := e.Extract(l)
		if string(before) != string(l.Payload.Encode()) {
			t.Fatal("the letter was changed")
		}
		if a.Source != arn("orders") || len(a.Envelopes) > 8 || len(a.Facts) > 32 {
			t.Fatalf("source %s, envelopes %v, %d facts", a.Source, a.Envelopes, len(a.Facts))
		}
		if out, err := json.Marshal(a); err != nil || len(out) > 200_000 {
			t.Fatalf("%d bytes, %v", len(out), err)
		}
		if diff := gocmp.Diff(a, e.Extract(l)); diff != "" {
			t.Fatalf("read again it is another: %s", diff)
		}
	})
}
