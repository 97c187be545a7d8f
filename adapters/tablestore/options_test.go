package tablestore_test

import (
	"strings"
	"testing"

	"github.com/dlqbridge/dlqbridge/adapters/tablestore"
)

func TestDeclarationsThatCannotWorkAreRefusedByName(t *testing.T) {
	w := newWorld(t)
	for _, tc := range []struct {
		want   string
		change func(*tablestore.Options)
	}{
		{"Client is required", func(o *tablestore.Options) { o.Client = nil }},
		{"Name is required", func(o *tablestore.Options) { o.Name = "" }},
		{"Table is required", func(o *tablestore.Options) { o.Table = "" }},
		{"Fields.Status is required", func(o *tablestore.Options) { o.Fields.Status = "" }},
		{"could prove nothing", func(o *tablestore.Options) { o.Confirmed = nil }},
		{"Fields.Receipt is required", func(o *tablestore.Options) { o.Fields.Receipt = "" }},
		{"Hash.Attribute is required", func(o *tablestore.Options) { o.Hash.Attribute = "" }},
		{"Hash.Value is required", func(o *tablestore.Options) { o.Hash.Value = "" }},
		{"the same for each task", func(o *tablestore.Options) { o.Hash.Value = "T" }},
		{"only {taskId}", func(o *tablestore.Options) { o.Hash.Value = "{task_id}" }},
		{"a hash key cannot end in *", func(o *tablestore.Options) { o.Hash.Value = "{taskId}#*" }},
		{"a separator before *", func(o *tablestore.Options) { o.Range.Value = "{taskId}*" }},
		{"a number cannot end in *", func(o *tablestore.Options) { o.Range.Number = true }},
		{"Range.Attribute is required", func(o *tablestore.Options) { o.Range.Attribute = "" }},
		{"are both pk", func(o *tablestore.Options) { o.Range.Attribute = "pk" }},
		{"Confirmed holds an empty status", func(o *tablestore.Options) { o.Confirmed = []string{""} }},
		{"is in Confirmed and in Running", func(o *tablestore.Options) { o.Running = o.Confirmed }},
		{"None.Status is required", func(o *tablestore.Options) { o.None.Because = "x" }},
		{"None.Because is required", func(o *tablestore.Options) { looked(o); o.None.Because = " " }},
		{"None.Proof", func(o *tablestore.Options) { looked(o); o.None.Proof = "operator" }},
		{"Fields.Updated is required", func(o *tablestore.Options) { looked(o); o.Fields.Updated = "" }},
		{"None.Settled is negative", func(o *tablestore.Options) { looked(o); o.None.Settled = -1 }},
		{"Fields.Status: \"state\" is no selector", func(o *tablestore.Options) { o.Fields.Status = "state" }},
		{"Fields.Receipt: \"item:result\": a pointer begins with /", func(o *tablestore.Options) { o.Fields.Receipt = "item:result" }},
		{"Fields.Code", func(o *tablestore.Options) { o.Fields.Code = "jmespath:a b" }},
		{"Fields.Run: \"body:/x\": a selector is attr:NAME", func(o *tablestore.Options) { o.Fields.Run = "body:/x" }},
	} {
		_, err := tablestore.New(w.options(tc.change))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("want %s, got %v", tc.want, err)
		}
	}
}
