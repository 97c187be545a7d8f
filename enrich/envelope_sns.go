package enrich

import (
	"encoding/base64"
	"slices"
)

// openSNS reads a notification that was delivered without raw message delivery:
// Type, MessageId, TopicArn, Message, Timestamp, the user's attributes under
// MessageAttributes (recorded from AWS, 2025). With raw delivery nothing in the
// message tells of SNS.
//
// A sender who may write to the queue can write the same text, and so give
// himself any tenant. So it is opened only for topics that the route names;
// any other is said to look like one, with the topic to be named.
func openSNS(x *extraction, l *layer) ([]byte, bool) {
	topic, _ := l.doc.value([]string{"TopicArn"})
	message := l.doc.raw([]string{"Message"})
	if !isARN(topic.text, "sns") || message[0] != '"' {
		return nil, false
	}
	why := ""
	kind, _ := l.doc.value([]string{"Type"})
	_, stamped := l.doc.value([]string{"Timestamp"})
	_, named := l.doc.value([]string{"MessageId"})
	switch {
	case kind.text != "Notification" || !stamped || !named:
		why = "not opened, SNS would write Type, MessageId and Timestamp"
	case !slices.Contains(x.enricher.route.Topics, topic.text):
		why = "not opened, the route names no such topic: " + topic.text
	}
	if why != "" {
		x.lookalike = true
		x.conflict("envelope", l.path+"body:/TopicArn", why)
		return nil, true
	}
	x.fact("sns.topic", topic.text)
	x.factAt("sns.messageId", l.doc, "MessageId")
	if !fromQueue(x.letter) {
		x.origin("sns-subscription")
	}
	for _, m := range l.doc.members([]string{"MessageAttributes"}) {
		attribute := openDocument(m.raw)
		kind, _ := attribute.value([]string{"Type"})
		value, ok := attribute.value([]string{"Value"})
		if !ok || kind.text == "Binary" || len(x.inner) >= maxFacts {
			continue // a binary one is base64 here, and as on a letter no text
		}
		if x.inner == nil {
			x.inner = map[string]found{}
		}
		x.inner[string(m.key)] = value
	}
	return []byte(text(message)), true
}

// decodeBase64 decodes standard base64, with or without padding, at most limit
// bytes of it; ok is false for anything else.
func decodeBase64(s []byte, limit int) (out []byte, ok bool) {
	encoding := base64.StdEncoding
	if len(s)%4 != 0 {
		encoding = base64.RawStdEncoding
	}
	if encoding.DecodedLen(len(s)) > limit {
		return nil, false
	}
	out = make([]byte, encoding.DecodedLen(len(s)))
	n, err := encoding.Decode(out, s)
	return out[:n], err == nil
}
