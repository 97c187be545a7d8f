package enrich

import (
	"encoding/json"
	"strings"

	"github.com/dlqbridge/dlqbridge"
)

// Unpatchable says why a patch of a letter's body would not change what the
// worker reads; empty is that it would.
func Unpatchable(a dlqbridge.Arrival, body []byte) string {
	switch a.Facts[factPayload] {
	case payloadElsewhere:
		return "its body is a pointer: what the worker reads stands elsewhere, so correct it there"
	case payloadCut, payloadNone:
		return payloadWarning(&a)
	}
	if json.Valid(body) {
		return ""
	}
	if how := PreviewOf(body).How; len(how) > 0 && !strings.HasPrefix(how[0], "without its byte order mark") {
		return "its body is compressed or encoded (" + strings.Join(how, ", ") + "), and a patch changes plain JSON only"
	}
	return ""
}
