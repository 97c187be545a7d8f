package enrich

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// openTemporal reads a payload of Temporal: metadata with an encoding, and
// data, both in base64 (Temporal's api, common/v1 Payload, read 2026-11-30). An
// encrypted one cannot be opened here, which is no failure.
func openTemporal(x *extraction, l *layer) ([]byte, bool) {
	encoded, ok := l.doc.value([]string{"metadata", "encoding"})
	if !ok {
		return nil, false
	}
	encoding, ok := decodeBase64([]byte(encoded.text), maxName)
	data, has := l.doc.value([]string{"data"})
	if !ok || !has {
		return nil, false
	}
	x.fact("temporal.encoding", string(encoding))
	switch string(encoding) {
	case "binary/encrypted":
		x.fact(factPayload, payloadEncrypted)
	case "json/plain", "json/protobuf":
		if inner, ok := decodeBase64([]byte(data.text), maxDecoded); ok {
			return inner, true
		}
	}
	return nil, true
}

// maxCauses is how many failures in failures are looked through.
const maxCauses = 8

// openTemporalFailure reads a failure as Temporal writes it (api, failure/v1,
// read 2026-11-30): a message, one kind of info, and the failure that caused it.
// The innermost one that names a type is what went wrong; what is around it says
// how often it was tried and whether trying again makes sense.
func openTemporalFailure(x *extraction, l *layer) ([]byte, bool) {
	at, seen := []string{"failure"}, false
	for range maxCauses {
		failure := openDocument(l.doc.raw(at))
		if !failure.object() {
			break
		}
		for _, info := range []struct{ name, kind string }{{"applicationFailureInfo", "type"}, {"timeoutFailureInfo", "timeoutType"}, {"serverFailureInfo", ""}, {"activityFailureInfo", ""}, {"childWorkflowExecutionFailureInfo", ""}} {
			if failure.raw([]string{info.name}) == nil {
				continue
			}
			seen = true
			if v, ok := failure.value([]string{info.name, info.kind}); ok && info.kind != "" {
				x.retell("code", l.path+"body:/"+strings.Join(append(at, info.name, info.kind), "/"), v)
			}
			if m, ok := failure.value([]string{"message"}); ok {
				x.retell("message", l.path+"body:/"+strings.Join(append(at, "message"), "/"), m)
			}
			x.factAt("temporal.activity", failure, info.name, "activityType", "name")
			x.factAt("temporal.retryState", failure, info.name, "retryState")
			if string(failure.raw([]string{info.name, "nonRetryable"})) == "true" {
				x.arrival.Failure.Retryable = new(false)
				x.fact("temporal.nonRetryable", "true")
			}
		}
		at = append(at, "cause")
	}
	return nil, seen
}

// retell tells a field again: the last one told counts.
func (x *extraction) retell(field, selector string, v found) {
	x.told = slices.DeleteFunc(x.told, func(t told) bool { return t.field == field && t.level == len(x.layers) })
	x.tell(field, selector, v)
}

// openToolCalls looks at the calls that a model asked for. Arguments are a text
// that should be JSON; one that is none was malformed or cut, and is never read
// as an empty object. That it was cut is said only where the model stopped for
// its length.
func openToolCalls(x *extraction, l *layer) ([]byte, bool) {
	at := []string{}
	calls := l.doc.members([]string{"tool_calls"})
	if len(calls) == 0 {
		at = []string{"choices", "0"}
		calls = l.doc.members([]string{"choices", "0", "message", "tool_calls"})
	}
	if len(calls) == 0 {
		return nil, false
	}
	finish, _ := l.doc.value(append(at, "finish_reason"))
	bad := 0
	for _, m := range calls {
		call := openDocument(m.raw)
		arguments, ok := call.value([]string{"function", "arguments"})
		if !ok || arguments.raw[0] != '"' || json.Valid([]byte(arguments.text)) {
			continue
		}
		if bad++; bad == 1 {
			x.factAt("toolcall.tool", call, "function", "name")
			x.fact("toolcall.arguments", "not JSON")
			x.fact("toolcall.raw", arguments.text)
			if v, ok := call.value([]string{"function", "name"}); ok {
				x.tell("tool", l.path+"body:/tool_calls", v)
			}
		}
	}
	if bad == 0 {
		return nil, false
	}
	if bad > 1 {
		x.fact("toolcall.bad", strconv.Itoa(bad))
	}
	x.fact("toolcall.finish", finish.text)
	if finish.text == "length" {
		x.tell("code", l.path+"body:/finish_reason", found{"finish_reason_length", finish.raw})
	}
	return nil, true
}
