package langgraph

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awserr/awsread"
)

// known is what was read about one thread.
type known struct {
	root        []checkpoint // newest first
	valid       *checkpoint  // the newest of them whose payload is there
	tasks       []task
	checkpoints int
}

// task is one node's run after a checkpoint, by what it wrote.
type task struct {
	after    checkpoint
	id, node string
	finished bool
	raised   bool
	waits    string // the special channel it wrote to
}

// tasksOf joins the writes of each task, in the order of their keys.
func tasksOf(after checkpoint, items []awsread.Item) []task {
	var out []task
	for _, it := range slices.Backward(items) { // they come newest first
		w, ok := decodeWrite(it)
		if !ok {
			continue
		}
		i := slices.IndexFunc(out, func(t task) bool { return t.id == w.task })
		if i < 0 {
			out = append(out, task{after: after, id: w.task})
			i = len(out) - 1
		}
		t := &out[i]
		t.node = cmp.Or(t.node, w.node)
		switch {
		case !w.special:
			t.finished = true
		case w.channel == channelErr:
			t.raised = true
		default:
			t.waits = cmp.Or(t.waits, w.channel, "a channel without a name")
		}
	}
	return out
}

// step is the task's id among steps. It sorts after its checkpoint's id and
// before the next one's, because ids sort by time.
func (t task) step() string {
	return t.after.id + "#" + cmp.Or(t.node, t.id)
}

// run keeps threads apart from the runs of other stores.
func run(thread string) string { return "langgraph:" + thread }

// testify says what a thread's checkpoints prove.
func (s *Store) testify(q dlqbridge.Question, thread string, k known) dlqbridge.Testimony {
	if k.checkpoints == 0 {
		return s.silence(q, "no checkpoint of this thread")
	}
	var t dlqbridge.Testimony
	seen := map[string]bool{}
	for _, done := range k.tasks {
		if done.node == startNode {
			continue // it takes the input and calls nothing
		}
		if done.raised && !done.finished && t.Failure == nil {
			t.Failure = &dlqbridge.Failure{Step: cmp.Or(done.node, done.step())}
		}
		if done.node != "" && s.o.Mutating != nil && !slices.Contains(s.o.Mutating, done.node) {
			continue
		}
		f := s.judge(q, thread, done)
		if seen[f.Step] { // the same node, sent several times
			f.Step += "#" + done.id
		}
		seen[f.Step] = true
		t.Findings = append(t.Findings, f)
	}
	t.Findings = append(t.Findings, s.silence(q, "nodes that wrote nothing may have been running").Findings...)
	if k.valid != nil {
		t.Checkpoint = &dlqbridge.Checkpoint{
			Ref: ref(s.o.Table, thread, *k.valid), Step: k.valid.id, Run: run(thread), At: past(timeOf(k.valid.id), q.Now),
		}
	} else if len(k.root) > 0 {
		kind := "checkpoint_without_payload"
		switch {
		case expired(k.root[0].expires, q.Now):
			kind = "checkpoint_expired"
		case k.root[0].location == "S3":
			kind = "checkpoint_in_s3"
		}
		t.Artifacts = []dlqbridge.Artifact{{Kind: kind, Ref: ref(s.o.Table, thread, k.root[0])}}
	}
	return t
}

// ref names a checkpoint for those who go on from it: table, thread, namespace
// and checkpoint id, the last three as LangGraph's configuration takes them.
func ref(table, thread string, c checkpoint) string {
	return fmt.Sprintf("langgraph:%s/%s/%s/%s", table, thread, c.ns, c.id)
}

// past is t, or zero if it lies further in the future than clocks differ.
func past(t, now time.Time) time.Time {
	if t.After(now.Add(dlqbridge.DefaultSkew)) {
		return time.Time{}
	}
	return t
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// judge says what one node's pending writes prove.
func (s *Store) judge(q dlqbridge.Question, thread string, t task) dlqbridge.Finding {
	f := dlqbridge.Finding{
		Store: s.o.Name, Step: dlqbridge.NamedStep(t.step()), Run: run(thread), State: dlqbridge.EffectUnknown, Proof: dlqbridge.ProofNothingFound,
		// Writes have no time. They came after their checkpoint, and before the
		// letter that tells of the run's end.
		AsOf: latest(awsread.LastSign(q), past(timeOf(t.after.id), q.Now)),
	}
	switch {
	case t.finished:
		f.State, f.Proof, f.Detail = dlqbridge.EffectConfirmed, dlqbridge.ProofSystemRead, "the node has finished: its writes are pending"
	case t.raised:
		f.Detail = "the node raised an error"
	default:
		f.Detail = "the node ran and waits: " + dlqbridge.CutText(t.waits, 64)
	}
	return f
}

func (s *Store) silence(q dlqbridge.Question, detail string) dlqbridge.Testimony {
	return dlqbridge.Testimony{Findings: []dlqbridge.Finding{{
		Store: s.o.Name, Step: dlqbridge.AllSteps, State: dlqbridge.EffectUnknown, Proof: dlqbridge.ProofNothingFound,
		AsOf: q.Now, Detail: detail,
	}}}
}
