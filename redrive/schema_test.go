package redrive_test

import (
	"bytes"
	"context"
	"os"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/dlqbridge/dlqbridge/redrive"
)

// What is sent is what the schema says.
func TestACompensationIsAsItsSchemaSays(t *testing.T) {
	text, err := os.ReadFile("compensation.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("compensation.schema.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("compensation.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.charged(redrive.Route{}, "r_1")
		_, c := w.start(t, nil)
		if _, err := c.Run(ctx, request()); err != nil {
			t.Fatal(err)
		}
		body := w.queues[compensations].all()[0].out.Payload.Body
		sent, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(sent); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	})
}
