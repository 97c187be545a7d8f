package main_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

type repairResult struct {
	DryRun            bool
	Repaired, Refused int
	Records           []struct {
		ID, Status, Action, Note string
		Version                  int
		Repair                   *struct {
			Before, After struct {
				Version, Bytes int
				SHA256         string
			}
			Form, PatchSHA256 string
			Ops               []struct {
				Op, Path      string
				Before, After json.RawMessage
			}
		}
		Error *struct{ Code, Message string }
	}
}

const (
	repairStoryRecords = 50
	repairStoryMisfits = 3
)

// repairStoryBody is the body of task i, and what the patch makes of it. Every
// sixteenth has no customer, which the patch does not fit.
func repairStoryBody(i int) (body, repaired string) {
	if i%16 == 15 {
		return fmt.Sprintf(`{"id":616581622363398142,"order":%d}`, i), ""
	}
	return fmt.Sprintf(`{"id":616581622363398142,"customer":{"z":1.50,"cur":null,"a":"<é>"},"order":%d}`, i),
		fmt.Sprintf(`{"id":616581622363398142,"customer":{"z":1.50,"cur":"EUR","a":"<é>"},"order":%d}`, i)
}

const repairStoryPatch = `[{"op":"test","path":"/customer/cur","value":null},{"op":"replace","path":"/customer/cur","value":"EUR"}]`

// A patch for a whole class over both brokers, black-box: 50 records each, of
// which 3 do not fit. 47 are sent repaired, 3 are listed, and all originals can
// be read.
func TestStoryABulkRepair(t *testing.T) {
	t.Parallel()
	w, g := newMixedWorld(t, bothBrokers)
	w.queues("orders", false)
	g.consumer("invoices")
	originals, wantOrders, wantInvoices := map[string]string{}, map[string]int{}, map[string]int{}
	for i := range repairStoryRecords {
		body, repaired := repairStoryBody(i)
		ctx := types.MessageAttributeValue{DataType: aws.String("String"), StringValue: aws.String(fmt.Sprintf(`{"v":1,"task":"s-%d","type":"bill","cause":"invalid_input","idem":"k-%d"}`, i, i))}
		flags := types.MessageAttributeValue{DataType: aws.String("String.json"), StringValue: aws.String(`{"x":1}`)}
		attributes := map[string]types.MessageAttributeValue{"agent.ctx": ctx, "flags": flags}
		w.sendOne("orders", body, attributes)
		m := &pubsubpb.PubsubMessage{Data: []byte(body), Attributes: map[string]string{
			"agent.v": "1", "agent.task.id": "p-" + strconv.Itoa(i), "agent.task.type": "bill", "agent.cause": "invalid_input", "x": strconv.Itoa(i),
		}}
		if repaired != "" { // what stays behind would block those behind it in its group
			m.OrderingKey = "key-" + strconv.Itoa(i%3)
		}
		g.publish("invoices", m)
		originals["s-"+strconv.Itoa(i)], originals["p-"+strconv.Itoa(i)] = body, body
		if repaired != "" {
			wantOrders[sumOf(repaired, attributes, "", "")]++
			m.Data = []byte(repaired)
			wantInvoices[sumOfMessage(m)]++
		}
	}
	w.die("orders")
	g.die("invoices")
	w.run(0, "tables", "create")
	w.run(0, "intake", "--until-empty")
	tasks := map[string]string{}
	for _, r := range runJSON[listResult](w, 0, "records", "list", "--limit", "0").Records {
		tasks[r.ID] = r.TaskID
	}
	if len(tasks) != 2*repairStoryRecords {
		t.Fatalf("%d records", len(tasks))
	}
	patch := filepath.Join(w.dir, "fix.json")
	if err := os.WriteFile(patch, []byte(repairStoryPatch), 0o600); err != nil {
		t.Fatal(err)
	}

	// First a look, which changes nothing.
	command := []string{"triage", "repair", "--cause", "invalid_input", "--patch", patch}
	seen := runJSON[repairResult](w, 3, append(command, "--dry-run")...)
	if !seen.DryRun || seen.Repaired != 2*(repairStoryRecords-repairStoryMisfits) || seen.Refused != 2*repairStoryMisfits {
		t.Fatalf("dry run: %d and %d", seen.Repaired, seen.Refused)
	}
	if out := string(w.run(3, append(command, "--dry-run")...)); !strings.Contains(out, "- /customer/cur  null\n  + /customer/cur  \"EUR\"\n") {
		t.Errorf("the difference is not shown:\n%s", out)
	}
	// Then in earnest; given again it repairs nothing twice.
	got := runJSON[repairResult](w, 3, append(command, "--reason", "the currency was missing")...)
	if got.DryRun || got.Repaired != seen.Repaired || got.Refused != seen.Refused {
		t.Fatalf("repair: %d and %d", got.Repaired, got.Refused)
	}
	refused := map[string]bool{}
	for _, r := range got.Records {
		if r.Error != nil {
			refused[r.ID] = true
			if i, _ := strconv.Atoi(tasks[r.ID][2:]); i%16 != 15 || r.Error.Code != "does_not_apply" || !strings.Contains(r.Error.Message, `operation 1, test "/customer/cur": there is nothing`) {
				t.Errorf("%s: %+v", tasks[r.ID], r.Error)
			}
			continue
		}
		p := r.Repair
		if r.Status != "fix_validated" || r.Action != "repair" || p.Form != "json_patch" || p.Before.Version != 1 || p.After.Version != 2 || p.Before.SHA256 == p.After.SHA256 ||
			len(p.Ops) != 1 || p.Ops[0].Op != "replace" || p.Ops[0].Path != "/customer/cur" || string(p.Ops[0].After) != `"EUR"` {
			t.Fatalf("%s: %+v", tasks[r.ID], r)
		}
	}
	for _, r := range runJSON[repairResult](w, 3, append(command, "--reason", "once more")...).Records {
		if r.Error == nil || !refused[r.ID] && r.Error.Code != "already_repaired" {
			t.Fatalf("repaired twice: %+v", r)
		}
	}

	plan := runJSON[struct {
		Jobs []struct{ Members []struct{ ID, Action string } }
	}](w, 0, "redrive", "plan", "--cause", "invalid_input")
	for _, j := range plan.Jobs {
		for _, m := range j.Members {
			if m.Action != "repair" {
				t.Errorf("planned as %s", m.Action)
			}
		}
	}
	result := runJSON[redriveResult](w, 3, "redrive", "run", "--cause", "invalid_input", "--reason", "corrected", "--rate", "500/s")
	if result.Sent != 2*(repairStoryRecords-repairStoryMisfits) || len(result.Excluded) != 2*repairStoryMisfits {
		t.Fatalf("redrive: %+v", result)
	}
	for _, x := range result.Excluded {
		if !refused[x.ID] || x.Reason != "not_authorized" {
			t.Errorf("excluded: %+v", x)
		}
	}
	gotOrders, marks := w.drain("orders")
	diffSums(t, "orders", gotOrders, wantOrders)
	gotInvoices, more := g.drain("invoices")
	diffSums(t, "invoices", gotInvoices, wantInvoices)
	maps.Copy(marks, more)
	for mark := range marks {
		if !strings.Contains(mark, `"act":"repair"`) {
			t.Errorf("the mark is %q", mark)
		}
	}
	for id, task := range tasks {
		i, _ := strconv.Atoi(task[2:])
		if i%6 > 0 && i%16 != 15 { // a sample: each look is a call of the program
			continue
		}
		if original := w.run(0, "records", "payload", id, "--version", "1", "--raw"); string(original) != originals[task] {
			t.Errorf("%s: the original is %s", task, original)
		}
		want, repaired := repairStoryBody(i)
		if repaired != "" {
			want = repaired
		}
		if now := w.run(0, "records", "payload", id, "--raw"); string(now) != want {
			t.Errorf("%s: what is sent is %s", task, now)
		}
	}
}

// sendOne sends one message with a body of its own.
func (w *world) sendOne(queue, body string, attributes map[string]types.MessageAttributeValue) {
	w.t.Helper()
	if _, err := w.sqs.SendMessage(w.t.Context(), &sqs.SendMessageInput{QueueUrl: w.url(queue), MessageBody: &body, MessageAttributes: attributes}); err != nil {
		w.t.Fatal(err)
	}
}
