package enrich

import (
	"encoding/json"
	"strconv"
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
