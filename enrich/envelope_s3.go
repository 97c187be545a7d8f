package enrich

import (
	"net/url"
	"strconv"
)

// openS3 reads a notification of S3. Object keys are form-encoded in it ("Event
// message structure", read 2026-11-30), so the key is kept both ways.
func openS3(x *extraction, l *layer) ([]byte, bool) {
	at := func(path ...string) []string { return append([]string{"Records", "0"}, path...) }
	if source, _ := l.doc.value(at("eventSource")); source.text != "aws:s3" {
		return nil, false
	}
	raw, ok := l.doc.value(at("s3", "object", "key"))
	if !ok {
		return nil, false
	}
	x.longFact("s3.rawKey", raw.text, maxText)
	if key, err := url.QueryUnescape(raw.text); err == nil {
		x.longFact("s3.key", key, maxText)
	}
	x.factAt("s3.bucket", l.doc, at("s3", "bucket", "name")...)
	x.factAt("s3.event", l.doc, at("eventName")...)
	if n := len(l.doc.members([]string{"Records"})); n > 1 {
		x.fact("s3.records", strconv.Itoa(n))
	}
	return nil, true
}

// openS3Test reads the message that S3 sends when notifications are set up.
func openS3Test(x *extraction, l *layer) ([]byte, bool) {
	if event, _ := l.doc.value([]string{"Event"}); event.text != "s3:TestEvent" {
		return nil, false
	}
	x.factAt("s3.bucket", l.doc, "Bucket")
	return nil, true
}
