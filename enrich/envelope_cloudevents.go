package enrich

import "strings"

// openCloudEvent reads an event in structured mode: specversion, id, source and
// type stand next to data.
func openCloudEvent(x *extraction, l *layer) ([]byte, bool) {
	if _, ok := l.doc.value([]string{"specversion"}); !ok || !x.tellAt("taskType", l, "type") {
		return nil, false
	}
	x.factAt("ce.id", l.doc, "id")
	x.factAt("ce.type", l.doc, "type")
	x.factAt("ce.source", l.doc, "source")
	x.factAt("ce.subject", l.doc, "subject")
	x.factAt("ce.contentType", l.doc, "datacontenttype")
	if data := l.doc.raw([]string{"data"}); data != nil {
		return inside(data), true
	}
	if data, ok := l.doc.value([]string{"data_base64"}); ok {
		if inner, ok := decodeBase64([]byte(data.text), maxDecoded); ok {
			return inner, true
		}
	}
	return nil, true
}

// cloudEventPrefixes are those of the Pub/Sub convention and of the Kafka
// binding; there is none for SQS.
var cloudEventPrefixes = []string{"ce-", "ce_"}

// openCloudEventAttributes reads an event in binary mode: the event's own
// fields are attributes, the body is the data.
func openCloudEventAttributes(x *extraction) bool {
	for _, prefix := range cloudEventPrefixes {
		if !x.has(prefix+"id", prefix+"type", prefix+"source", prefix+"specversion") {
			continue
		}
		for _, name := range []string{"id", "type", "source", "subject"} {
			x.fact("ce."+name, x.own(prefix+name))
		}
		for field, name := range map[string]string{"taskId": "id", "taskType": "type"} {
			v := x.own(prefix + name)
			x.tell(field, "attr:"+prefix+name, found{v, v})
		}
		// The content type goes under several spellings.
		for _, a := range x.letter.Payload.Attributes {
			if name := strings.ToLower(a.Name); name == "content-type" || name == prefix+"datacontenttype" {
				x.fact("ce.contentType", string(a.Value))
			}
		}
		return true
	}
	return false
}
