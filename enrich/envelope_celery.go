package enrich

import (
	"bytes"
	"strings"
)

// openCelery reads the envelope that kombu puts around a task: body, headers,
// properties; a header "task" marks protocol 2 (Celery's "Task messages", kombu's
// SQS transport, read 2026-11-30). The body inside is encoded once more and
// holds arguments only.
//
// FIFO messages without a deduplication id get a random one from kombu, and a
// task that somebody retries by hand gets a new id: neither is a business key.
func openCelery(x *extraction, l *layer) ([]byte, bool) {
	task, ok := l.doc.value([]string{"headers", "task"})
	if !ok || task.raw[0] != '"' {
		return nil, false
	}
	for _, f := range []struct{ field, header string }{{"taskId", "id"}, {"runId", "root_id"}, {"taskType", "task"}, {"attempts", "retries"}, {"validUntil", "expires"}} {
		x.tellAt(f.field, l, "headers", f.header)
	}
	x.factAt("celery.eta", l.doc, "headers", "eta")
	x.factAt("celery.parent", l.doc, "headers", "parent_id")
	x.factAt("celery.origin", l.doc, "headers", "origin")
	// Stamps are what people add to each task; a stamp may be a list.
	for _, f := range []struct{ field, stamp string }{{"tenant", "tenant"}, {"tenant", "tenant_id"}, {"idempotencyKey", "idempotency_key"}} {
		if !x.tellAt(f.field, l, "headers", "stamps", f.stamp) {
			x.tellAt(f.field, l, "headers", "stamps", f.stamp, "0")
		}
	}
	body, ok := l.doc.value([]string{"body"})
	if !ok {
		return nil, true
	}
	if encoding, _ := l.doc.value([]string{"properties", "body_encoding"}); strings.EqualFold(encoding.text, "base64") {
		if inner, ok := decodeBase64([]byte(body.text), maxDecoded); ok {
			return inner, true
		}
		return nil, true
	}
	return []byte(body.text), true
}

// openCeleryBase64 reads the same envelope as kombu's SQS transport sends it by
// default: all of it in base64. The decoded text becomes a layer, since that is
// where the headers stand.
func openCeleryBase64(x *extraction, l *layer) ([]byte, bool) {
	decoded, ok := decodeBase64JSON(l.text)
	if !ok || !bytes.Contains(decoded, []byte(`"headers"`)) {
		return nil, false
	}
	outer := layer{text: decoded, doc: openDocument(decoded), path: l.path + "base64>"}
	if !outer.doc.object() {
		return nil, false
	}
	inner, ok := openCelery(x, &outer)
	if ok {
		x.layers = append(x.layers, outer)
	}
	return inner, ok
}
