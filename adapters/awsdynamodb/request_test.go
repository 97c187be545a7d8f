package awsdynamodb_test

import (
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awsdynamodb"
	"github.com/dlqbridge/dlqbridge/localstack"
)

// C60: what is tried again is the same request, token and times included.
func TestWhatIsTriedAgainIsTheSameRequest(t *testing.T) {
	b := open(t)
	c := record(1)
	b.create(t, c)
	var hours atomic.Int64
	b.Store = b.another(t, func(o *awsdynamodb.Options) {
		o.Now = func() time.Time { hours.Add(1); return start.Add(time.Duration(hours.Load()) * time.Hour) } // time passes between tries
	})
	b.fault(t, localstack.Fault{Operation: "PutItem", Contains: "work_pk", Do: localstack.DoDropBefore, Times: 3})
	b.fault(t, localstack.Fault{Operation: "BatchWriteItem", Do: localstack.DoDropAfter, Times: 2})
	b.cloud.ForgetRequests()
	must(t, b.Move(t.Context(), step(c, next(c, "alice")))...)
	must(t, b.Put(t.Context(), evidence(c.ID))...)
	first := map[string]any{}
	tries := map[string]int{}
	for _, r := range b.cloud.Requests("dynamodb", 0) {
		kind := r.Operation
		if strings.Contains(string(r.Request), "event#") {
			kind += " of history"
		}
		var body any // the order of members says nothing
		must(t, json.Unmarshal(r.Request, &body))
		if tries[kind]++; tries[kind] == 1 {
			first[kind] = body
		} else {
			diff(t, kind, first[kind], body)
		}
	}
	diff(t, "tries", map[string]int{"PutItem": 4, "PutItem of history": 1, "BatchWriteItem": 3}, tries)
}

// C67: an index key is left out where it is unknown, and is never anything but text.
func TestIndexKeysAreTextOrAbsent(t *testing.T) {
	b := open(t)
	bare := dlqbridge.Control{ID: "r_bare", Version: 1}
	unnamed := record(1)
	unnamed.Source, unnamed.TaskType, unnamed.TaskID, unnamed.Signature, unnamed.Route = "", "", "", "", ""
	numeric := record(2)
	numeric.TaskType, numeric.Signature, numeric.Route = "42", "42", "42"
	b.create(t, bare, unnamed, numeric)
	for _, it := range b.table(t, "records") {
		for _, name := range []string{"work_pk", "work_sk", "sig_pk", "sig_sk"} {
			v, there := it[name]
			if s, text := v.(*types.AttributeValueMemberS); there && (!text || s.Value == "") {
				t.Errorf("%s %s: %s is %v", textAt(it, "pk"), textAt(it, "sk"), name, v)
			}
		}
	}
	if got := len(collect(t, b.Store, dlqbridge.Filter{})); got != 3 {
		t.Errorf("listed %d of 3", got)
	}
	if got := len(collect(t, b.Store, dlqbridge.Filter{Signature: "42"})); got != 1 {
		t.Errorf("listed %d by signature, want 1", got)
	}
}
