package enrich

import (
	"strings"

	"github.com/dlqbridge/dlqbridge"
)

// pointerClasses are those of the extended client libraries for SQS, the Java
// one before and since version 1.1.
var pointerClasses = []string{"software.amazon.payloadoffloading.PayloadS3Pointer", "com.amazon.sqs.javamessaging.MessageS3Pointer"}

// openExtended reads the pointer of an extended client: a list of a class name
// and where the object is; an attribute has its declared size. The object is
// not fetched: a pointer is what goes back, and only the worker needs the rest.
func openExtended(x *extraction, l *layer) ([]byte, bool) {
	class, _ := l.doc.value([]string{"0"})
	known := false
	for _, c := range pointerClasses {
		known = known || class.text == c
	}
	if !known || l.doc.raw([]string{"1", "s3Key"}) == nil {
		return nil, false
	}
	x.factAt("pointer.bucket", l.doc, "1", "s3BucketName")
	key, _ := l.doc.value([]string{"1", "s3Key"})
	x.longFact("pointer.key", key.text, maxText)
	for _, name := range []string{"ExtendedPayloadSize", "SQSLargePayloadSize"} {
		x.fact("pointer.bytes", x.own(name))
	}
	x.fact(factPayload, payloadElsewhere)
	return nil, true
}

// openLaravelPointer reads what Laravel sends for a large job: where in its
// cache the payload is.
func openLaravelPointer(x *extraction, l *layer) ([]byte, bool) {
	if len(l.doc.top.members) != 1 {
		return nil, false
	}
	x.factAt("pointer.key", l.doc, "@pointer")
	x.fact(factPayload, payloadElsewhere)
	return nil, true
}

// payloadWarning says what to know before the payload is sent again as it is;
// empty is nothing.
func payloadWarning(a *dlqbridge.Arrival) string {
	switch a.Facts[factPayload] {
	case payloadCut:
		return "its payload was cut by the provider: sent again it would not be whole"
	case payloadNone:
		return "its letter names failed events and holds none of them: fetch them from the bus's own store"
	case payloadElsewhere:
		where := "the object that its payload points to"
		if key := a.Facts["pointer.key"]; key != "" {
			where = "the object " + strings.TrimPrefix(a.Facts["pointer.bucket"]+"/"+key, "/") + " that its payload points to"
		}
		return where + " was not fetched and may be gone: look before sending it again"
	}
	return ""
}
