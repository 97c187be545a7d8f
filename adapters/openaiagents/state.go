package openaiagents

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dlqbridge/dlqbridge/adapters/awserr/awsread"
)

// The shape is that of openai/openai-agents-python, src/agents/run_state.py and
// run_context.py (schema 1.17, read 2026-11-30). The ledger of calls is there
// since 1.15.

// state is what is read of a run state.
type state struct {
	schema string
	// ledger: the state has a ledger of calls.
	ledger bool
	calls  []call
	// hosted: the model's provider ran a tool that may change something.
	hosted bool
	trace  string
}

// call is one tool call.
type call struct {
	id, tool            string
	executed, completed bool
	// hosted: the model's provider ran it, and no ledger speaks of it.
	hosted bool
	// odd: its entry in the ledger cannot be read.
	odd bool
}

// step is the call's name among findings.
func (c call) step() string {
	if c.tool == "" {
		return c.id
	}
	return c.id + "#" + c.tool
}

var errShape = errors.New("it is no run state")

// textOf is the JSON of a state, however the row holds it; nil if it is not there.
func textOf(v types.AttributeValue) []byte {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return []byte(v.Value)
	case *types.AttributeValueMemberB:
		return v.Value
	case *types.AttributeValueMemberM:
		text, err := json.Marshal(awsread.PlainItem(v.Value))
		if err != nil {
			return []byte("?") // there, and not readable
		}
		return text
	case nil, *types.AttributeValueMemberNULL:
		return nil
	}
	return []byte("?")
}

// inOrder are the calls by their ids, so that each look tells the same.
func (s *state) inOrder() []call {
	return slices.SortedFunc(slices.Values(s.calls), func(a, b call) int { return cmp.Compare(a.id, b.id) })
}

// decode reads a state. What does not matter may have any shape; what would
// make the state prove more than it may is an error.
func decode(text []byte) (state, error) {
	var s state
	var top map[string]json.RawMessage
	if err := json.Unmarshal(text, &top); err != nil || top["$schemaVersion"] == nil {
		return s, errShape
	}
	_ = json.Unmarshal(top["$schemaVersion"], &s.schema)
	var trace struct{ ID string }
	if json.Unmarshal(top["trace"], &trace) == nil {
		s.trace = trace.ID
	}
	s.items(top)
	var inner map[string]json.RawMessage
	if raw := top["context"]; raw != nil && json.Unmarshal(raw, &inner) != nil {
		return s, errShape
	}
	raw, there := inner["tool_invocations"]
	if !there {
		return s, nil
	}
	var ledger map[string]json.RawMessage
	if json.Unmarshal(raw, &ledger) != nil || ledger == nil {
		return s, errShape
	}
	s.ledger = true
	for id, entry := range ledger {
		c := s.of(id)
		var e struct{ Executed, Completed *bool }
		if json.Unmarshal(entry, &e) != nil || e.Executed == nil || e.Completed == nil {
			c.odd = true
			continue
		}
		c.executed, c.completed = c.executed || *e.Executed, c.completed || *e.Completed
	}
	return s, nil
}

// of is the call with the id, a new one if there is none.
func (s *state) of(id string) *call {
	i := slices.IndexFunc(s.calls, func(c call) bool { return c.id == id })
	if i < 0 {
		s.calls = append(s.calls, call{id: id})
		i = len(s.calls) - 1
	}
	return &s.calls[i]
}

// item is one thing that happened in a run.
type item struct {
	Type    string
	RawItem struct {
		Type   string
		ID     string
		CallID string `json:"call_id"`
		Name   string
	} `json:"raw_item"`
}

// harmless are tools of the provider that change nothing outside.
var harmless = []string{"web_search_call", "file_search_call", "image_generation_call", "code_interpreter_call"}

// items reads the calls with their tools, and which of them have an output.
func (s *state) items(top map[string]json.RawMessage) {
	var processed struct {
		NewItems []json.RawMessage `json:"new_items"`
	}
	_ = json.Unmarshal(top["last_processed_response"], &processed)
	all := processed.NewItems
	for _, name := range []string{"generated_items", "session_items"} {
		var list []json.RawMessage
		_ = json.Unmarshal(top[name], &list)
		all = append(all, list...)
	}
	for _, raw := range all {
		var it item
		if json.Unmarshal(raw, &it) != nil {
			continue
		}
		r := it.RawItem
		switch {
		case it.Type == "tool_call_output_item" && r.CallID != "":
			s.of(r.CallID).completed = true
		case it.Type != "tool_call_item":
		case r.CallID != "":
			if c := s.of(r.CallID); c.tool == "" {
				c.tool = r.Name
			}
		case r.ID != "" && !slices.Contains(harmless, r.Type):
			c := s.of(r.ID)
			c.tool, c.hosted = r.Name, true
			s.hosted = true
		}
	}
}
