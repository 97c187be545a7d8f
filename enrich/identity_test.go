package enrich

import (
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

func TestUnitOfWork(t *testing.T) {
	e, err := New(Route{Name: "r", Place: "p", Source: "configured"})
	if err != nil {
		t.Fatal(err)
	}
	sent := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	attributes := dlqbridge.Payload{Attributes: []dlqbridge.Attribute{{Name: "op", Type: "String", Value: []byte("purge")}}} // C22: no body
	withID := dlqbridge.Payload{Attributes: []dlqbridge.Attribute{{Name: "agent.task.id", Type: "String", Value: []byte("t")}}}
	for name, c := range map[string]struct {
		letter dlqbridge.Letter
		want   dlqbridge.Identity
		source string
	}{
		"task, its own source":   {dlqbridge.Letter{Provider: dlqbridge.SQS, Source: "own", Payload: withID, MessageID: "m"}, dlqbridge.IdentityTask, "own"},
		"task, the route's":      {dlqbridge.Letter{Provider: dlqbridge.SQS, Payload: withID, MessageID: "m"}, dlqbridge.IdentityTask, "configured"},
		"SQS without task id":    {dlqbridge.Letter{Provider: dlqbridge.SQS, Payload: attributes, MessageID: "m"}, dlqbridge.IdentityMessage, "configured"},
		"PubSub without task id": {dlqbridge.Letter{Provider: dlqbridge.PubSub, Payload: attributes, MessageID: "m", SentAt: sent}, dlqbridge.IdentityContent, "configured"},
	} {
		t.Run(name, func(t *testing.T) {
			u := e.unitOf(c.letter, e.Extract(c.letter))
			if u.identity != c.want || u.source != c.source {
				t.Errorf("got %+v, want %s of %s", u, c.want, c.source)
			}
			again := c.letter
			again.MessageID = "another copy"
			if same := e.unitOf(again, e.Extract(again)).id(0) == u.id(0); same != (c.want != dlqbridge.IdentityMessage) {
				t.Errorf("a copy with a new message id is the same work: %v", same)
			}
			if u.id(0) == u.id(1) {
				t.Error("two episodes have one id")
			}
		})
	}
}
