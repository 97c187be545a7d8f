package enrich

import (
	"strconv"
)

// lambdaMessage is how much of an error message Lambda puts into the attribute
// ErrorMessage, in bytes ("Capturing records of Lambda asynchronous
// invocations", read 2026-11-30). One of that length was probably cut.
const lambdaMessage = 1024

// openLambdaDLQ reads the dead-letter queue of asynchronous invocations: the
// body is the event, the failure is in three attributes (recorded from AWS,
// 2025). There is no queue that it came from.
func openLambdaDLQ(x *extraction) bool {
	if !x.has("RequestID", "ErrorCode", "ErrorMessage") {
		// One of the names alone is the user's own: an SNS subscription with raw
		// delivery puts those on the same list.
		if x.has("ErrorCode") {
			x.conflict("code", "attr:ErrorCode", x.own("ErrorCode")+" (may be the sender's own attribute, not read as the failure)")
		}
		return false
	}
	if _, err := strconv.Atoi(x.own("ErrorCode")); err != nil {
		return false
	}
	x.origin("lambda-async")
	x.marks("RequestID", "ErrorCode", "ErrorMessage")
	x.fact("lambda.requestId", x.own("RequestID"))
	if len(x.own("ErrorMessage")) >= lambdaMessage {
		x.fact("lambda.messageCut", "possibly")
	}
	for field, name := range map[string]string{"code": "ErrorCode", "message": "ErrorMessage"} {
		v := x.own(name)
		x.tell(field, "attr:"+name, found{v, v})
	}
	return true
}

// openLambdaDestination reads what Lambda sends to a destination of
// asynchronous invocations (recorded from AWS, 2025): the event is in
// requestPayload, the failure in responsePayload and requestContext.
func openLambdaDestination(x *extraction, l *layer) ([]byte, bool) {
	condition, ok := l.doc.value([]string{"requestContext", "condition"})
	if !ok {
		return nil, false
	}
	x.origin("lambda-destination")
	x.fact("lambda.condition", condition.text)
	x.factAt("lambda.requestId", l.doc, "requestContext", "requestId")
	x.factAt("lambda.function", l.doc, "requestContext", "functionArn")
	x.factAt("lambda.invocations", l.doc, "requestContext", "approximateInvokeCount")
	if !x.tellAt("code", l, "responsePayload", "errorType") {
		// RetriesExhausted says that it failed, which a letter says anyway.
		if condition.text != "RetriesExhausted" && condition.text != "Success" {
			x.tellAt("code", l, "requestContext", "condition")
		}
	}
	x.tellAt("message", l, "responsePayload", "errorMessage")
	return inside(l.doc.raw([]string{"requestPayload"})), true
}
