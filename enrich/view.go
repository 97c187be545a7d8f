package enrich

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// Document is the public JSON form of one record (`records show -o json`). Lists
// are never null; a text or time that is not known is null; times are UTC in
// fixed width with milliseconds.
type Document struct {
	ID         string              `json:"id"`
	Version    int                 `json:"version"`
	Status     dlqbridge.Status    `json:"status"`
	Identity   dlqbridge.Identity  `json:"identity"`
	Route      string              `json:"route"`
	Previous   *string             `json:"previous"`
	Source     DocumentSource      `json:"source"`
	Task       DocumentTask        `json:"task"`
	Effect     DocumentEffect      `json:"effect"`
	Checkpoint *DocumentCheckpoint `json:"checkpoint"`
	Failure    DocumentFailure     `json:"failure"`
	Decision   DocumentDecision    `json:"decision"`
	Payload    DocumentPayload     `json:"payload"`
	Arrivals   []DocumentArrival   `json:"arrivals"`
	Trace      DocumentTrace       `json:"trace"`
	Artifacts  []DocumentArtifact  `json:"artifacts"`
	Approvals  []DocumentApproval  `json:"approvals"`
	// Authorization is what allows the next send, null if nothing does.
	Authorization *DocumentAuthorization `json:"authorization"`
	Recurrences   int                    `json:"recurrences"`
	Redrives      []DocumentRedrive      `json:"redrives"`
	FirstSeen     *string                `json:"firstSeen"`
	LastSeen      *string                `json:"lastSeen"`
	// Conflict: the letters differ where they must not; nothing is sent.
	Conflict bool    `json:"conflict"`
	Fix      *string `json:"fix"`
	// RecheckAt is when the record is judged again by itself.
	RecheckAt *string `json:"recheckAt"`
}

// DocumentSource is where the work belongs.
type DocumentSource struct {
	Provider dlqbridge.Provider `json:"provider"`
	URN      *string            `json:"urn"`
}

// DocumentTask is what is known about the unit of work.
type DocumentTask struct {
	TaskID         *string          `json:"taskId"`
	RunID          *string          `json:"runId"`
	TaskType       *string          `json:"taskType"`
	Tenant         *string          `json:"tenant"`
	IdempotencyKey *string          `json:"idempotencyKey"`
	Deadline       *string          `json:"deadline"`
	ValidUntil     *string          `json:"validUntil"`
	Attempts       *int             `json:"attempts"`
	MaxAttempts    *int             `json:"maxAttempts"`
	Versions       DocumentVersions `json:"versions"`
	Tools          []string         `json:"tools"`
	CostUSD        *string          `json:"costUsd"`
	OriginEvent    *string          `json:"originEvent"`
	ExpectedResult *string          `json:"expectedResult"`
}

// DocumentVersions are those of the agent side when the task failed.
type DocumentVersions struct {
	Agent    *string `json:"agent"`
	Model    *string `json:"model"`
	Prompt   *string `json:"prompt"`
	Workflow *string `json:"workflow"`
	Policy   *string `json:"policy"`
}

// DocumentEffect is the fold with its findings.
type DocumentEffect struct {
	State      dlqbridge.Effect  `json:"state"`
	Uncovered  dlqbridge.Effect  `json:"uncovered"`
	RepeatSafe bool              `json:"repeatSafe"`
	Findings   []DocumentFinding `json:"findings"`
	// Omitted counts by state what was folded and is not kept; absent if all is.
	Omitted map[dlqbridge.Effect]int `json:"omitted,omitempty"`
}

// DocumentFinding is what one store says about one step.
type DocumentFinding struct {
	Store   string           `json:"store"`
	Step    string           `json:"step"`
	Run     *string          `json:"run"`
	State   dlqbridge.Effect `json:"state"`
	Proof   dlqbridge.Proof  `json:"proof"`
	AsOf    *string          `json:"asOf"`
	Receipt *string          `json:"receipt"`
	Detail  *string          `json:"detail"`
	// Except lists the steps of which it no longer speaks; absent if there are none.
	Except []string `json:"except,omitempty"`
}

// DocumentCheckpoint is a place from which a run can go on.
type DocumentCheckpoint struct {
	Ref  string  `json:"ref"`
	Step *string `json:"step"`
	Run  *string `json:"run"`
	At   *string `json:"at"`
}

// DocumentFailure is what went wrong.
type DocumentFailure struct {
	Cause      dlqbridge.Cause   `json:"cause"`
	Lane       dlqbridge.Lane    `json:"lane"`
	Phase      *string           `json:"phase"`
	Step       *string           `json:"step"`
	Tool       *string           `json:"tool"`
	Dependency *string           `json:"dependency"`
	Code       *string           `json:"code"`
	Message    *string           `json:"message"`
	Retryable  bool              `json:"retryable"`
	Signature  *string           `json:"signature"`
	Attempts   []DocumentAttempt `json:"attempts"`
}

// DocumentAttempt is one failed run.
type DocumentAttempt struct {
	Run  *string `json:"run"`
	At   *string `json:"at"`
	Code *string `json:"code"`
}

// DocumentDecision is what should be done and who says so.
type DocumentDecision struct {
	Action      dlqbridge.Action `json:"action"`
	Owner       *string          `json:"owner"`
	Reason      *string          `json:"reason"`
	By          *string          `json:"by"`
	At          *string          `json:"at"`
	TriageBy    *string          `json:"triageBy"`
	NotBefore   *string          `json:"notBefore"`
	Restriction *string          `json:"restriction"`
	// Rule is the code of the rule that decided.
	Rule dlqbridge.Why `json:"rule"`
}

// DocumentPayload describes what would be sent. ExpiresAt is for whoever knows
// the retention; a closed record's payload has one.
type DocumentPayload struct {
	SHA256    *string `json:"sha256"`
	Bytes     int     `json:"bytes"`
	Where     string  `json:"where"`
	Version   int     `json:"version"`
	ExpiresAt *string `json:"expiresAt"`
	// Versions are those that were in force, the oldest first.
	Versions []DocumentVersion `json:"versions"`
}

// DocumentVersion is one payload version. By, At and Patch are null for version
// 1, which is a letter as it arrived; Patch also where a letter or an earlier
// version was taken as it is.
type DocumentVersion struct {
	Version int     `json:"version"`
	SHA256  *string `json:"sha256"`
	Bytes   int     `json:"bytes"`
	By      *string `json:"by"`
	At      *string `json:"at"`
	Patch   *string `json:"patch"`
}

// DocumentArrival is one letter.
type DocumentArrival struct {
	// Key names the letter on its record, for --arrival; PayloadSHA256 is what
	// it carried.
	Key           string `json:"key"`
	PayloadSHA256 string `json:"payloadSha256"`

	MessageID  string                    `json:"messageId"`
	Deliveries *int                      `json:"deliveries"`
	SentAt     *string                   `json:"sentAt"`
	ReceivedAt *string                   `json:"receivedAt"`
	LostAt     *string                   `json:"lostAt"`
	Envelopes  []string                  `json:"envelopes"`
	Provenance map[string]string         `json:"provenance"`
	Conflicts  []dlqbridge.FieldConflict `json:"conflicts"`
	Late       bool                      `json:"late"`
}

// DocumentTrace is the trace of the work: its id and the header as it came.
type DocumentTrace struct {
	ID     *string `json:"id"`
	Header *string `json:"header"`
}

// DocumentArtifact is a reference that a store keeps.
type DocumentArtifact struct {
	Kind string `json:"kind"`
	Ref  string `json:"ref"`
}

// DocumentApproval is one person's approval of a send, or of opening the record
// again. It counts while it was neither used for a redrive nor has lapsed.
type DocumentApproval struct {
	By            string  `json:"by"`
	Authenticated bool    `json:"authenticated"`
	At            *string `json:"at"`
	Reason        *string `json:"reason"`
	// Redrive is the number that was sent on it.
	Redrive *int `json:"redrive"`
	// Lapsed is when and why it ended without that.
	Lapsed *DocumentLapse `json:"lapsed"`
}

// DocumentRedrive is one redrive number and how it ended.
type DocumentRedrive struct {
	Job       string                `json:"job"`
	N         int                   `json:"n"`
	Action    dlqbridge.Action      `json:"action"`
	At        *string               `json:"at"`
	MessageID *string               `json:"messageId"`
	Outcome   dlqbridge.SendOutcome `json:"outcome"`
	Marked    bool                  `json:"marked"`
	// Settled is by whom a doubt about it was ended; null if there was none.
	Settled *DocumentSettled `json:"settled"`
}

// DocumentSettled is a person's word on whether a send in doubt went out.
type DocumentSettled struct {
	To       dlqbridge.SendOutcome `json:"to"`
	By       string                `json:"by"`
	At       *string               `json:"at"`
	Reason   *string               `json:"reason"`
	Evidence *string               `json:"evidence"`
}

// ListItem is one record in a list (`records list -o json`).
type ListItem struct {
	ID          string           `json:"id"`
	Status      dlqbridge.Status `json:"status"`
	Route       string           `json:"route"`
	Cause       dlqbridge.Cause  `json:"cause"`
	Lane        dlqbridge.Lane   `json:"lane"`
	Effect      dlqbridge.Effect `json:"effect"`
	Action      dlqbridge.Action `json:"action"`
	Owner       *string          `json:"owner"`
	TaskID      *string          `json:"taskId"`
	Tenant      *string          `json:"tenant"`
	Signature   *string          `json:"signature"`
	FirstSeen   *string          `json:"firstSeen"`
	LastSeen    *string          `json:"lastSeen"`
	Deadline    *string          `json:"deadline"`
	Recurrences int              `json:"recurrences"`
}

// List is the list item of a record.
func List(c dlqbridge.Control) ListItem {
	return ListItem{
		ID: c.ID, Status: c.Status, Route: c.Route, Cause: c.Cause, Lane: dlqbridge.DefaultCausePolicy(c.Cause).Lane, Effect: c.Effect,
		Action: c.Action, Owner: orNull(c.Owner), TaskID: orNull(c.TaskID), Tenant: orNull(c.Tenant), Signature: orNull(c.Signature),
		FirstSeen: at(c.FirstSeen), LastSeen: at(c.LastSeen), Deadline: at(c.Deadline), Recurrences: c.Recurrences,
	}
}

// Show is the document of a record. What no move names is not in it.
func Show(c dlqbridge.Case, around Around) Document {
	k := c.Control
	x, decided := deciding(c)
	d := Document{
		ID: k.ID, Version: k.Version, Status: k.Status, Identity: k.Identity, Route: k.Route, Previous: orNull(k.Previous),
		Source: DocumentSource{Provider: k.Provider, URN: orNull(k.Source)},
		Task:   taskOf(x.Task), Checkpoint: checkpointOf(x.Checkpoint), Failure: failureOf(k, x.Failure),
		Effect: DocumentEffect{State: k.Effect, Uncovered: k.Uncovered, RepeatSafe: k.RepeatSafe, Findings: findingsOf(x.Findings), Omitted: x.Omitted},
		Decision: DocumentDecision{
			Action: k.Action, Owner: orNull(k.Owner), Reason: orNull(x.Reason), By: orNull(decided.By), At: at(decided.At),
			TriageBy: at(k.TriageBy), NotBefore: at(k.NotBefore), Restriction: orNull(x.Restriction), Rule: k.Why,
		},
		Payload:  payloadsOf(c),
		Arrivals: []DocumentArrival{}, Artifacts: []DocumentArtifact{}, Approvals: approvalsOf(c, around), Authorization: authorizationOf(k, around), Redrives: []DocumentRedrive{},
		Recurrences: k.Recurrences, FirstSeen: at(k.FirstSeen), LastSeen: at(k.LastSeen),
		Conflict: k.Conflict, Fix: orNull(k.Fix), RecheckAt: at(k.RecheckAt),
	}
	for _, m := range c.History {
		if a := c.Arrival(m.Arrival); m.Arrival != "" && a != nil {
			d.Arrivals = append(d.Arrivals, arrivalOf(*a, m, c.Context(m.Context)))
		}
	}
	header := ""
	if a := c.Arrival(k.Newest); a != nil {
		header = cmp.Or(a.TraceRef, a.Trace)
	}
	d.Trace = DocumentTrace{ID: orNull(x.TraceID), Header: orNull(header)}
	for _, a := range x.Artifacts {
		d.Artifacts = append(d.Artifacts, DocumentArtifact(a))
	}
	for _, s := range c.Sends {
		outcome, settled := fateOf(c, s)
		d.Redrives = append(d.Redrives, DocumentRedrive{
			Job: s.Job, N: s.N, Action: s.Action, At: at(s.At), MessageID: orNull(s.MessageID), Outcome: outcome, Marked: s.Marked, Settled: settledBy(c, settled),
		})
	}
	slices.SortFunc(d.Redrives, func(a, b DocumentRedrive) int { return a.N - b.N })
	return d
}

// payloadsOf is what would be sent, with all versions.
func payloadsOf(c dlqbridge.Case) DocumentPayload {
	d := DocumentPayload{Where: "table", Version: c.Control.PayloadVersion, Versions: []DocumentVersion{}}
	for _, v := range c.PayloadVersions() {
		one := DocumentVersion{Version: v.Version}
		if a := c.Arrival(v.Payload); a != nil {
			one.SHA256, one.Bytes = orNull(a.PayloadSHA256), a.PayloadBytes
		}
		if r := v.Repair; r != nil {
			one.SHA256, one.Bytes, one.By, one.At, one.Patch = orNull(r.SHA256), r.Bytes, orNull(v.Move.By), at(v.Move.At), orNull(string(r.Form))
		}
		d.Versions = append(d.Versions, one)
		d.SHA256, d.Bytes = one.SHA256, one.Bytes
	}
	return d
}

// fateOf is how a send ended, and the move by which a person settled a doubt about
// it: what history says of its number since it was noted stands over the note,
// which only says whether the message went out and may be the older news.
func fateOf(c dlqbridge.Case, s dlqbridge.Send) (outcome dlqbridge.SendOutcome, settled *dlqbridge.Move) {
	outcome = s.Outcome
	for i, m := range c.History {
		if m.N != s.N || m.Job != "" && m.Job != s.Job {
			continue
		}
		switch m.Verb { //nolint:exhaustive // the others end no send
		case dlqbridge.VerbClaim:
			if !s.At.Before(m.At) { // what was before was about an earlier use of the number
				outcome, settled = s.Outcome, nil
			}
		case dlqbridge.VerbSettleSend:
			if m.Note == "" { // sent again under its number
				continue
			}
			settled = &c.History[i]
			if m.To == dlqbridge.StatusAuthorized {
				outcome = dlqbridge.OutcomeNotSent
			}
		case dlqbridge.VerbRecur, dlqbridge.VerbReceive:
			outcome = dlqbridge.OutcomeRecurred
		case dlqbridge.VerbComplete:
			outcome = dlqbridge.OutcomeCompleted
		case dlqbridge.VerbUnconfirmed:
			outcome = dlqbridge.OutcomeUnconfirmed
			if m.To.Closed() {
				outcome = dlqbridge.OutcomeCompleted
			}
		}
	}
	return outcome, settled
}

func settledBy(c dlqbridge.Case, m *dlqbridge.Move) *DocumentSettled {
	if m == nil {
		return nil
	}
	d := DocumentSettled{To: dlqbridge.OutcomeSent, By: m.By, At: at(m.At), Reason: orNull(m.Why)}
	if m.To == dlqbridge.StatusAuthorized {
		d.To = dlqbridge.OutcomeNotSent
	}
	for _, n := range c.Notes {
		if n.Name == m.Note {
			d.Reason, d.Evidence = orNull(n.Reason), orNull(n.Evidence)
		}
	}
	return &d
}

// String is for a person.
func (d DocumentSettled) String() string {
	to := "sent"
	if d.To == dlqbridge.OutcomeNotSent {
		to = "not sent"
	}
	line := fmt.Sprintf("%s settled at %s that it was %s", d.By, *d.At, to)
	if d.Reason != nil {
		line += ": " + *d.Reason
	}
	if d.Evidence != nil {
		line += " (evidence: " + *d.Evidence + ")"
	}
	return line
}

// deciding is the context that the decision stands on, and the move that took
// it: the last one that named a context. It says what is known of the failure
// also where the record has closed since.
func deciding(c dlqbridge.Case) (dlqbridge.Context, dlqbridge.Move) {
	var by dlqbridge.Move
	for _, m := range c.History {
		if m.Context != "" {
			by = m
		}
	}
	name := c.Control.Context
	if name == "" {
		name = by.Context
	}
	if x := c.Context(name); x != nil {
		return remembering(c, *x), by
	}
	return dlqbridge.Context{}, by
}

func taskOf(t dlqbridge.Task) DocumentTask {
	return DocumentTask{
		TaskID: orNull(t.TaskID), RunID: orNull(t.RunID), TaskType: orNull(t.TaskType), Tenant: orNull(t.Tenant),
		IdempotencyKey: orNull(t.IdempotencyKey), Deadline: at(t.Deadline), ValidUntil: at(t.ValidUntil),
		Attempts: t.Attempts, MaxAttempts: t.MaxAttempts,
		Versions: DocumentVersions{
			Agent: orNull(t.Versions.Agent), Model: orNull(t.Versions.Model), Prompt: orNull(t.Versions.Prompt),
			Workflow: orNull(t.Versions.Workflow), Policy: orNull(t.Versions.Policy),
		},
		Tools: nonNil(t.Tools), CostUSD: orNull(t.CostUSD), OriginEvent: orNull(t.OriginEvent), ExpectedResult: orNull(t.ExpectedResult),
	}
}

func checkpointOf(c *dlqbridge.Checkpoint) *DocumentCheckpoint {
	if c == nil {
		return nil
	}
	return &DocumentCheckpoint{Ref: c.Ref, Step: orNull(c.Step), Run: orNull(c.Run), At: at(c.At)}
}

func failureOf(k dlqbridge.Control, f dlqbridge.Failure) DocumentFailure {
	policy := dlqbridge.DefaultCausePolicy(k.Cause)
	d := DocumentFailure{
		Cause: k.Cause, Lane: policy.Lane, Phase: orNull(f.Phase), Step: orNull(f.Step), Tool: orNull(f.Tool), Dependency: orNull(f.Dependency),
		Code: orNull(f.Code), Message: orNull(f.Message), Retryable: policy.Retryable, Signature: orNull(k.Signature), Attempts: []DocumentAttempt{},
	}
	if f.Retryable != nil {
		d.Retryable = *f.Retryable
	}
	for _, a := range f.Attempts {
		d.Attempts = append(d.Attempts, DocumentAttempt{Run: orNull(a.Run), At: at(a.At), Code: orNull(a.Code)})
	}
	return d
}

func findingsOf(findings []dlqbridge.Finding) []DocumentFinding {
	out := []DocumentFinding{}
	for _, f := range findings {
		out = append(out, DocumentFinding{
			Store: f.Store, Step: f.Step, Run: orNull(f.Run), State: f.State, Proof: f.Proof, AsOf: at(f.AsOf), Receipt: f.Receipt, Detail: orNull(f.Detail), Except: f.Except,
		})
	}
	return out
}

func arrivalOf(a dlqbridge.Arrival, m dlqbridge.Move, x *dlqbridge.Context) DocumentArrival {
	d := DocumentArrival{
		Key: a.Key, PayloadSHA256: a.PayloadSHA256,
		MessageID: a.MessageID, SentAt: at(a.SentAt), ReceivedAt: at(m.At), LostAt: at(a.LostAt),
		Envelopes: nonNil(a.Envelopes), Provenance: a.Provenance, Conflicts: nonNil(a.Conflicts), Late: m.Why == string(WhyLate) && m.Context == "",
	}
	if x != nil {
		d.Deliveries = x.Deliveries
	}
	if d.Provenance == nil {
		d.Provenance = map[string]string{}
	}
	return d
}

// orNull is null for "not known".
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// at is a time as it is shown; null for "none".
func at(t time.Time) *string { return orNull(dlqbridge.FormatTime(t)) }
