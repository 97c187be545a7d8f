package enrich

import (
	"strconv"
	"strings"
)

// openRuleDLQ reads the dead-letter queue of a rule: the body is the event, the
// failure is in attributes ("Event retry policy and using dead-letter queues",
// read 2026-11-30).
func openRuleDLQ(x *extraction) bool {
	if !x.has("RULE_ARN", "TARGET_ARN") {
		return false
	}
	x.origin("eventbridge-rule")
	x.marks("RULE_ARN", "TARGET_ARN", "ERROR_CODE", "ERROR_MESSAGE", "RETRY_ATTEMPTS", "EXHAUSTED_RETRY_CONDITION")
	x.fact("eventbridge.rule", x.own("RULE_ARN"))
	x.fact("eventbridge.target", x.own("TARGET_ARN"))
	x.fact("eventbridge.retries", x.own("RETRY_ATTEMPTS"))
	x.fact("eventbridge.exhausted", x.own("EXHAUSTED_RETRY_CONDITION"))
	return true // ERROR_CODE and ERROR_MESSAGE are well-known spellings
}

// openSchedulerDLQ reads the dead-letter queue of EventBridge Scheduler: the
// body is the target's input, which may have been cut.
func openSchedulerDLQ(x *extraction) bool {
	if !x.has("SCHEDULE_ARN", "EXECUTION_ID") {
		return false
	}
	x.origin("eventbridge-scheduler")
	x.marks("SCHEDULE_ARN", "EXECUTION_ID", "SCHEDULED_TIME", "IS_PAYLOAD_TRUNCATED", "ERROR_CODE", "ERROR_MESSAGE", "RETRY_ATTEMPTS", "EXHAUSTED_RETRY_CONDITION")
	x.fact("scheduler.schedule", x.own("SCHEDULE_ARN"))
	x.fact("scheduler.execution", x.own("EXECUTION_ID"))
	x.fact("scheduler.time", x.own("SCHEDULED_TIME"))
	if strings.EqualFold(x.own("IS_PAYLOAD_TRUNCATED"), "true") {
		x.fact(factPayload, payloadCut)
	}
	return true
}

// maxEventIDs is how many ids of failed events are kept.
const maxEventIDs = 5

// openCustomBus reads the record of a custom bus (2026): several events failed
// together, and none of their payloads is in it.
func openCustomBus(x *extraction, l *layer) ([]byte, bool) {
	bus, ok := l.doc.value([]string{"busArn"})
	if !ok || !isARN(bus.text, "events") {
		return nil, false
	}
	x.origin("eventbridge-bus")
	x.fact("eventbridge.bus", bus.text)
	x.factAt("eventbridge.subscriber", l.doc, "subscriberArn")
	x.factAt("eventbridge.target", l.doc, "targetArn")
	x.factAt("eventbridge.retries", l.doc, "retryAttempts")
	x.factAt("eventbridge.exhausted", l.doc, "exhaustedRetryCondition")
	x.fact(factPayload, payloadNone)
	failed := l.doc.members([]string{"failedMessages"})
	x.fact("eventbridge.events", strconv.Itoa(len(failed)))
	var ids []string
	for _, m := range failed {
		if id, ok := openDocument(m.raw).value([]string{"eventId"}); ok && len(ids) < maxEventIDs {
			ids = append(ids, id.text)
		}
	}
	x.fact("eventbridge.eventIds", strings.Join(ids, " "))
	x.tellAt("code", l, "errorCode")
	x.tellAt("message", l, "errorMessage")
	return nil, true
}

// openEventBridge reads an event of a bus: the payload is in detail.
func openEventBridge(x *extraction, l *layer) ([]byte, bool) {
	detail := l.doc.raw([]string{"detail"})
	if detail[0] != '{' {
		return nil, false
	}
	x.factAt("eventbridge.eventId", l.doc, "id")
	x.factAt("eventbridge.source", l.doc, "source")
	x.tellAt("taskType", l, "detail-type")
	return detail, true
}
