package main

import (
	"fmt"
	"time"

	"github.com/dlqbridge/dlqbridge/adapters/ledger"
)

// trouble is what happens to a task on its way.
type trouble string

// The troubles of the day.
const (
	troubleNone        trouble = "none"
	troubleFlaky       trouble = "flaky"        // fails once, then works
	troubleOutage      trouble = "outage"       // the card processor is down
	troubleCredential  trouble = "credential"   // the token has expired
	troubleInput       trouble = "input"        // the customer is not in the directory
	troubleSchema      trouble = "schema"       // the model breaks its output contract
	troubleTurns       trouble = "turns"        // the agent talks in circles
	troubleCrashBefore trouble = "crash-before" // the worker dies before it begins the charge
	troubleCrashAfter  trouble = "crash-after"  // it dies after the charge, before the receipt is kept
	troubleCrashCall   trouble = "crash-call"   // it dies before the charge, after the intent is kept
	troubleCrashKept   trouble = "crash-kept"   // it dies after the receipt is kept
	troubleLong        trouble = "long"         // a long task with checkpoints meets the outage
	troubleLostAnswer  trouble = "lost-answer"  // the mailer's answer is lost; the mail is out
	troubleMixUp       trouble = "mix-up"       // the agent saw two customers' data together
)

// job is the body of a task's message: what an agent is asked to do.
type job struct {
	Customer string  `json:"customer"`
	Trouble  trouble `json:"trouble"`
	Chapters int     `json:"chapters,omitempty"`
}

// order is one task of the demo.
type order struct {
	id  string
	job job
	// broker is where it is sent.
	broker broker
}

// facts is what the producer says about the task when it sends it.
func (o order) facts() ledger.Facts {
	return ledger.Task{
		ID: o.id, Type: "invoice", Tenant: o.job.Customer, IdempotencyKey: "invoice-" + o.id, ValidUntil: time.Now().Add(7 * 24 * time.Hour),
	}.Facts()
}

// broker is where a team sends its tasks.
type broker string

const (
	onSQS    broker = "sqs"
	onPubSub broker = "pubsub"
)

// kinds says how many tasks meet which trouble, and what it looks like.
var kinds = []struct {
	trouble trouble
	// count is on SQS, second on Pub/Sub.
	count, second int
	story         string
}{
	{troubleNone, 6, 3, "work at once"},
	{troubleFlaky, 3, 1, "fail once and work on the second delivery"},
	{troubleOutage, 14, 4, "meet a card processor that is down"},
	{troubleCredential, 8, 2, "carry a token that has expired"},
	{troubleInput, 6, 1, "name a customer that does not exist"},
	{troubleSchema, 6, 1, "get model output that breaks its schema"},
	{troubleTurns, 4, 1, "talk in circles up to the turn limit"},
	{troubleCrashBefore, 3, 1, "lose their worker before the charge"},
	{troubleCrashAfter, 3, 1, "lose their worker after the charge, before the receipt is kept"},
	{troubleCrashCall, 1, 0, "lose their worker between the intent and the charge"},
	{troubleCrashKept, 3, 1, "lose their worker after the receipt is kept"},
	{troubleLong, 3, 1, "are long, keep checkpoints, and meet the outage"},
	{troubleLostAnswer, 2, 1, "lose the mailer's answer, look their mail up, and are done"},
	{troubleMixUp, 2, 1, "mix up the data of two customers"},
}

// orders lists the tasks of the demo, the troubles interleaved.
func orders() []order {
	return append(
		ordersOn(onSQS, "task", func(i int) int { return kinds[i].count }),
		ordersOn(onPubSub, "note", func(i int) int { return kinds[i].second })...,
	)
}

func ordersOn(b broker, prefix string, count func(kind int) int) []order {
	left := make([]int, len(kinds))
	total := 0
	for i := range kinds {
		left[i] = count(i)
		total += left[i]
	}
	customers := []string{"acme", "globex"}
	var out []order
	for len(out) < total {
		for i, k := range kinds {
			if left[i] == 0 {
				continue
			}
			left[i]--
			o := order{id: fmt.Sprintf("%s-%02d-%s", prefix, len(out)+1, k.trouble), job: job{Customer: customers[len(out)%2], Trouble: k.trouble}, broker: b}
			if k.trouble == troubleInput {
				o.job.Customer = "initech"
			}
			if k.trouble == troubleLong {
				o.job.Chapters = 4
			}
			out = append(out, o)
		}
	}
	return out
}

// on picks the tasks of one broker.
func on(b broker, all []order) []order {
	var out []order
	for _, o := range all {
		if o.broker == b {
			out = append(out, o)
		}
	}
	return out
}
