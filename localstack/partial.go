package localstack

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
)

// object is a JSON object of which only some members are looked at; the
// others keep their bytes.
type object map[string]json.RawMessage

func parseObject(text []byte) (object, bool) {
	var o object
	if len(bytes.TrimSpace(text)) == 0 {
		return object{}, true
	}
	if err := json.Unmarshal(text, &o); err != nil || o == nil {
		return nil, false
	}
	return o, true
}

func (o object) with(member string, value any) object {
	text, err := json.Marshal(value)
	if err != nil {
		// Values here are made of decoded JSON and strings.
		panic(err)
	}
	changed := maps.Clone(o)
	changed[member] = text
	return changed
}

func (o object) text() []byte {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // raw members that were decoded encode again
	}
	return text
}

func answered(in call, body []byte) outcome {
	return outcome{status: http.StatusOK, body: body, header: in.header(body)}
}

// failEntries carries out an SQS batch without the chosen entries and reports
// those as failed.
func (in call) failEntries(ctx context.Context, f *Fault) outcome {
	request, ok := parseObject(in.request)
	var entries []json.RawMessage
	if !ok || json.Unmarshal(request["Entries"], &entries) != nil {
		return in.ask(ctx, in.request) // the service says what is wrong
	}
	type failedEntry struct {
		Id          string
		Code        string
		Message     string
		SenderFault bool
	}
	var failed []failedEntry
	kept := []json.RawMessage{}
	for position, entry := range entries {
		if !f.Entries.chosen(position, len(entries)) {
			kept = append(kept, entry)
			continue
		}
		refusal := errorOf("sqs", f)
		var named struct{ Id string }
		if json.Unmarshal(entry, &named) != nil {
			return in.ask(ctx, in.request)
		}
		code := f.Code
		if code == "" {
			code = "InternalError"
		}
		failed = append(failed, failedEntry{named.Id, code, refusal.Message, f.SenderFault})
	}
	response := object{"Successful": json.RawMessage("[]")}
	if len(kept) > 0 {
		done := in.ask(ctx, request.with("Entries", kept).text())
		if done.status != http.StatusOK {
			return done
		}
		if response, ok = parseObject(done.body); !ok {
			return done
		}
	}
	all := []json.RawMessage{}
	if already, some := response["Failed"]; some {
		if json.Unmarshal(already, &all) != nil {
			return answered(in, response.text())
		}
	}
	for _, one := range failed {
		text, err := json.Marshal(one)
		if err != nil {
			panic(err) // strings and a truth value
		}
		all = append(all, text)
	}
	if len(all) == 0 {
		return answered(in, response.text())
	}
	return answered(in, response.with("Failed", all).text())
}

// unprocessed carries out a DynamoDB batch without the chosen items and hands
// those back. Positions count through the tables in the order of their names.
func (in call) unprocessed(ctx context.Context, f *Fault) outcome {
	request, ok := parseObject(in.request)
	tables := map[string]json.RawMessage{}
	if !ok || json.Unmarshal(request["RequestItems"], &tables) != nil {
		return in.ask(ctx, in.request)
	}
	batch := batchOf(in.operation)
	total := 0
	items := map[string][]json.RawMessage{}
	for table, text := range tables {
		if items[table], ok = batch.items(text); !ok {
			return in.ask(ctx, in.request)
		}
		total += len(items[table])
	}
	chosen := f.Entries
	if f.Count > 0 {
		chosen = Entries{Last: f.Count}
	}
	kept, back := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	position := 0
	for _, table := range slices.Sorted(maps.Keys(tables)) {
		var keep, give []json.RawMessage
		for _, item := range items[table] {
			if chosen.chosen(position, total) {
				give = append(give, item)
			} else {
				keep = append(keep, item)
			}
			position++
		}
		if len(keep) > 0 {
			kept[table] = batch.rebuild(tables[table], keep)
		}
		if len(give) > 0 {
			back[table] = batch.rebuild(tables[table], give)
		}
	}
	response := batch.nothing
	if len(kept) > 0 {
		done := in.ask(ctx, request.with("RequestItems", kept).text())
		if done.status != http.StatusOK {
			return done
		}
		if response, ok = parseObject(done.body); !ok {
			return done
		}
	}
	return answered(in, batch.merge(response, back).text())
}

// batchKind is how the two batch operations of DynamoDB word their items.
type batchKind struct {
	member  string // of the response
	nothing object // the response to an empty batch
	keys    bool   // the items are in the member Keys of an object
}

func batchOf(operation string) batchKind {
	if operation == "BatchGetItem" {
		return batchKind{"UnprocessedKeys", object{"Responses": json.RawMessage("{}")}, true}
	}
	return batchKind{"UnprocessedItems", object{}, false}
}

func (b batchKind) items(table json.RawMessage) (items []json.RawMessage, ok bool) {
	if b.keys {
		whole, isObject := parseObject(table)
		if !isObject {
			return nil, false
		}
		table = whole["Keys"]
	}
	return items, json.Unmarshal(table, &items) == nil
}

func (b batchKind) rebuild(table json.RawMessage, items []json.RawMessage) json.RawMessage {
	if b.keys {
		whole, _ := parseObject(table) // items has read it
		return whole.with("Keys", items).text()
	}
	text, err := json.Marshal(items)
	if err != nil {
		panic(err) // raw members that were decoded encode again
	}
	return text
}

// merge adds what is handed back to what the service itself hands back.
func (b batchKind) merge(response object, back map[string]json.RawMessage) object {
	all := map[string]json.RawMessage{}
	if own, some := response[b.member]; some && json.Unmarshal(own, &all) != nil {
		return response
	}
	for table, text := range back {
		if own, both := all[table]; both {
			mine, _ := b.items(text)
			theirs, _ := b.items(own)
			text = b.rebuild(text, slices.Concat(theirs, mine))
		}
		all[table] = text
	}
	return response.with(b.member, all)
}

// empty is an answer with nothing in it. A query or scan that goes on after a
// key gets that key back, as from a page whose items were all filtered out,
// so that going on loses nothing.
func (in call) empty() outcome {
	if in.operation == "ReceiveMessage" {
		return answered(in, []byte("{}"))
	}
	response := object{"Items": json.RawMessage("[]"), "Count": json.RawMessage("0"), "ScannedCount": json.RawMessage("0")}
	if request, ok := parseObject(in.request); ok {
		if key, goesOn := request["ExclusiveStartKey"]; goesOn {
			response["LastEvaluatedKey"] = key
		}
		if string(request["Select"]) == `"COUNT"` {
			delete(response, "Items")
		}
	}
	return answered(in, response.text())
}
