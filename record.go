package dlqbridge

import (
	"cmp"
	"time"
)

// Control is the moving part of a record: one small item, conditional on its
// version, one write per move. Ids over 128 bytes stand here cut (see Short)
// and whole in the arrival. JSON keys are short: the item must stay under 1 KB.
type Control struct {
	ID       string   `json:"-"`
	Version  int      `json:"-"`
	Identity Identity `json:"idn"`
	Episode  int      `json:"ep,omitempty"`
	// Previous is the closed record that this one continues.
	Previous string   `json:"prev,omitempty"`
	Route    string   `json:"rt"`
	Provider Provider `json:"prov"`
	// Source is the URN of where the work belongs.
	Source         string `json:"src"`
	TaskID         string `json:"task,omitempty"`
	TaskType       string `json:"type,omitempty"`
	Tenant         string `json:"ten,omitempty"`
	Owner          string `json:"own,omitempty"`
	Signature      string `json:"sig,omitempty"`
	Signed         Signed `json:"sgd,omitzero"`
	Status         Status `json:"st"`
	Cause          Cause  `json:"cs"`
	Effect         Effect `json:"ef"`
	Uncovered      Effect `json:"un"`
	RepeatSafe     bool   `json:"rs,omitempty"`
	Action         Action `json:"ac"`
	Why            Why    `json:"why"`
	PayloadVersion int    `json:"pv"`
	// Payload names the payload that a repair put in force; empty is the newest
	// arrival's own. Only a repair changes it.
	Payload string `json:"pl,omitempty"`
	// Context names the context that the decision stands on.
	Context string `json:"ctx,omitempty"`
	// Arrivals counts the letters stored; Newest is the key of the newest one,
	// whose payload is what would be sent unless a repair says otherwise.
	Arrivals int    `json:"arr"`
	Newest   string `json:"new"`
	// Conflict: arrivals differ where they must not. Late: a letter arrived
	// while redriving that was not the redrive's; a person must look.
	Conflict bool `json:"conf,omitempty"`
	Late     bool `json:"late,omitempty"`
	// Fix is the fix on record, KIND:TEXT, cut to 64 bytes; whole in its note.
	Fix string `json:"fix,omitempty"`
	// Authorized is set while the record is authorised or being redriven.
	Authorized *Authorization `json:"auth,omitempty"`
	// Claim is set while a job holds the record.
	Claim *Claim `json:"cl,omitempty"`
	// Redrives counts the sends so far, those in doubt included; n of the last one.
	Redrives int `json:"n,omitempty"`
	// Compensations counts those of them that were compensations.
	Compensations int `json:"cmp,omitempty"`
	Recurrences   int `json:"rec,omitempty"`

	FirstSeen  time.Time `json:"fs"`
	LastSeen   time.Time `json:"ls"`
	Deadline   time.Time `json:"dl,omitzero"`
	ValidUntil time.Time `json:"vu,omitzero"`
	LostAt     time.Time `json:"lost,omitzero"`
	TriageBy   time.Time `json:"tb,omitzero"`
	NotBefore  time.Time `json:"nb,omitzero"`
	RecheckAt  time.Time `json:"rc,omitzero"`
	// LastSend is when the last redrive was journalled.
	LastSend time.Time `json:"lsd,omitzero"`
	ClosedAt time.Time `json:"cl_at,omitzero"`

	// Move is how the record came to this version: the newest history entry.
	Move Move `json:"mv"`
}

// Signed says how a record came to its signature.
type Signed struct {
	// Rule is the version of the rules that made the signature; 0 is not known.
	Rule int `json:"r,omitempty"`
	// Since is when the record first failed so; zero is FirstSeen.
	Since time.Time `json:"at,omitzero"`
	// Agent and Workflow are the versions that failed so first, cut to
	// MaxSignedVersion; empty is not known.
	Agent    string `json:"av,omitempty"`
	Workflow string `json:"wv,omitempty"`
}

// MaxSignedVersion is how much of a version stands in the control item, in bytes.
const MaxSignedVersion = 40

// FailedSoSince is when the record first failed as its signature says.
func (c Control) FailedSoSince() time.Time {
	if c.Signed.Since.IsZero() {
		return c.FirstSeen
	}
	return c.Signed.Since
}

// PayloadName names the payload that would be sent.
func (c Control) PayloadName() string { return cmp.Or(c.Payload, c.Newest) }

// Outdated says whether the note of a send is none of the claim that uses its
// number now: the send that it notes was settled as not sent, which freed the number.
func (c Control) Outdated(s Send) bool {
	return c.Claim != nil && (s.Job != c.Claim.Job || s.At.Before(c.LastSend))
}

// Authorization says who allowed a send and what it is bound to. It lapses
// when what it is bound to changes.
type Authorization struct {
	By string    `json:"by"`
	At time.Time `json:"at"`
	// Action is what was authorised.
	Action Action `json:"ac"`
	// Of is what exactly, where the action alone does not say it: a fingerprint
	// of a resume's checkpoint, or of the effects that a compensation undoes.
	Of string `json:"of,omitempty"`
}

// Claim is a job's exclusive hold on a record for redrive number N. Until is
// when it may be adopted if its job's lease has ended too; it is always set.
type Claim struct {
	Job   string    `json:"job"`
	N     int       `json:"n"`
	Until time.Time `json:"un"`
	// Before is LastSend as it was before the claim: a release puts it back.
	Before time.Time `json:"bf,omitzero"`
}

// Move is one entry of a record's history: who, when, from, to, why.
type Move struct {
	// Version is the record's version after the move, from 1.
	Version int       `json:"-"`
	At      time.Time `json:"at"`
	By      string    `json:"by"`
	Verb    Verb      `json:"vb"`
	From    Status    `json:"fr,omitempty"`
	To      Status    `json:"to"`
	// Why is the rule or short reason; a person's whole reason is in the note.
	Why string `json:"why,omitempty"`
	// Arrival, Context and Note name the items that count because of this move.
	Arrival string `json:"arr,omitempty"`
	Context string `json:"ctx,omitempty"`
	Note    string `json:"note,omitempty"`
	// Job and N name the redrive.
	Job string `json:"job,omitempty"`
	N   int    `json:"n,omitempty"`
}

// Arrival is one letter stored on a record: the letter's own facts only, so
// that writing it again writes the same bytes.
type Arrival struct {
	Key       string            `json:"key"`
	Place     string            `json:"place"`
	MessageID string            `json:"messageId"`
	Source    string            `json:"source"`
	SentAt    time.Time         `json:"sentAt"`
	LostAt    time.Time         `json:"lostAt,omitzero"`
	System    map[string]string `json:"system,omitempty"`
	// Trace is the provider's own trace header, which goes back as it came.
	Trace string `json:"trace,omitempty"`
	// TraceRef is the trace that the letter names, in whatever form.
	TraceRef string `json:"traceRef,omitempty"`
	// Task and Failure are what the message itself says.
	Task       Task    `json:"task"`
	Failure    Failure `json:"failure"`
	Effect     string  `json:"effect,omitempty"`
	Checkpoint string  `json:"checkpoint,omitempty"`
	// Envelopes lists what was found around the payload, the outermost first.
	Envelopes []string `json:"envelopes"`
	// Facts is what envelopes say besides ("s3.key"), for people; nothing is
	// decided from it.
	Facts      map[string]string `json:"facts,omitempty"`
	Provenance map[string]string `json:"provenance"`
	Conflicts  []FieldConflict   `json:"conflicts"`
	// Mark is our own mark on the letter, nil if there is none.
	Mark *Mark `json:"mark,omitempty"`
	// PayloadSHA256 and PayloadBytes describe the payload kept under this key.
	PayloadSHA256 string `json:"payloadSha256"`
	// Marks names the attributes that the provider added when it gave the letter
	// up; they are not the producer's and are not sent back. ProducerSHA256 is the
	// payload's hash without them, empty if there are none.
	Marks          []string `json:"marks,omitempty"`
	ProducerSHA256 string   `json:"producerSha256,omitempty"`
	PayloadBytes   int      `json:"payloadBytes"`
}

// SentSHA256 is the hash of what goes back: the payload without the provider's marks.
func (a Arrival) SentSHA256() string { return cmp.Or(a.ProducerSHA256, a.PayloadSHA256) }

// FieldConflict is a different value found by a selector of lower rank.
type FieldConflict struct {
	Field    string `json:"field"`
	Selector string `json:"selector"`
	Value    string `json:"value"`
}

// Task is what is known about the unit of work.
type Task struct {
	TaskID         string    `json:"taskId"`
	RunID          string    `json:"runId"`
	TaskType       string    `json:"taskType"`
	Tenant         string    `json:"tenant"`
	IdempotencyKey string    `json:"idempotencyKey"`
	Deadline       time.Time `json:"deadline,omitzero"`
	ValidUntil     time.Time `json:"validUntil,omitzero"`
	Attempts       *int      `json:"attempts"`
	MaxAttempts    *int      `json:"maxAttempts"`
	Versions       Versions  `json:"versions"`
	Tools          []string  `json:"tools"`
	CostUSD        string    `json:"costUsd,omitempty"`
	OriginEvent    string    `json:"originEvent,omitempty"`
	ExpectedResult string    `json:"expectedResult,omitempty"`
}

// Versions are those of the agent side when the task failed.
type Versions struct {
	Agent    string `json:"agent,omitempty"`
	Model    string `json:"model,omitempty"`
	Prompt   string `json:"prompt,omitempty"`
	Workflow string `json:"workflow,omitempty"`
	Policy   string `json:"policy,omitempty"`
}

// Failure is what went wrong.
type Failure struct {
	Cause      Cause     `json:"cause"`
	Lane       Lane      `json:"lane"`
	Phase      string    `json:"phase,omitempty"`
	Step       string    `json:"step,omitempty"`
	Tool       string    `json:"tool,omitempty"`
	Dependency string    `json:"dependency,omitempty"`
	Code       string    `json:"code,omitempty"`
	Message    string    `json:"message,omitempty"`
	Retryable  *bool     `json:"retryable"`
	Signature  string    `json:"signature,omitempty"`
	Attempts   []Attempt `json:"attempts"`
	// Rule is the classification rule that named the cause.
	Rule string `json:"rule,omitempty"`
}

// Attempt is one failed run.
type Attempt struct {
	Run  string    `json:"run"`
	At   time.Time `json:"at,omitzero"`
	Code string    `json:"code"`
}

// Context is what the stores said at one moment and what followed from it.
type Context struct {
	Name string    `json:"name"`
	At   time.Time `json:"at"`
	// Deliveries is how often the letter that was judged had been delivered by
	// then; nil is unknown. It grows with each receive, so it is no fact of the
	// arrival.
	Deliveries *int        `json:"deliveries,omitempty"`
	Task       Task        `json:"task"`
	Failure    Failure     `json:"failure"`
	Findings   []Finding   `json:"findings"`
	Checkpoint *Checkpoint `json:"checkpoint,omitempty"`
	// Omitted counts the findings that were folded and are not among Findings,
	// because there are too many to keep, by their state.
	Omitted    map[Effect]int `json:"omitted,omitempty"`
	Folded     Folded         `json:"folded"`
	RepeatSafe bool           `json:"repeatSafe"`
	// Reason is the decision's sentence; Restriction what forbids more.
	Reason      string `json:"reason"`
	Restriction string `json:"restriction,omitempty"`
	// Unavailable names the stores that could not be asked, with the reason.
	Unavailable map[string]string `json:"unavailable,omitempty"`
	// RunningUntil is when a run that may still be going is over; zero if none is.
	RunningUntil time.Time `json:"runningUntil,omitzero"`
	// CompletedBy is set when a store shows that the task completed.
	CompletedBy *Completion `json:"completedBy,omitempty"`
	TraceID     string      `json:"traceId,omitempty"`
	Artifacts   []Artifact  `json:"artifacts,omitempty"`
	// Action and Why are what was decided. Heard, FirstAttempt, Runs, KeysDiffer
	// and Tenants are what else the stores said that it was decided from, so that
	// it can be decided once more from the same.
	Action       Action    `json:"action,omitempty"`
	Why          Why       `json:"why,omitempty"`
	Heard        []Heard   `json:"heard,omitempty"`
	FirstAttempt time.Time `json:"firstAttempt,omitzero"`
	Runs         int       `json:"runs,omitempty"`
	KeysDiffer   bool      `json:"keysDiffer,omitempty"`
	// Tenants names, by store, the other tenants that stores have the task for.
	Tenants map[string]string `json:"tenants,omitempty"`
}

// Heard is a failure as one store told it, without its attempts.
type Heard struct {
	Store   string  `json:"store"`
	Failure Failure `json:"failure"`
}

// Completion is a store's word that a task completed.
type Completion struct {
	Store string    `json:"store"`
	Run   string    `json:"run,omitempty"`
	At    time.Time `json:"at,omitzero"`
	// RedriveN is the redrive number the run carried; 0 is the first life of the task.
	RedriveN int `json:"redriveN"`
}

// Artifact is a reference that a store keeps.
type Artifact struct {
	Kind string `json:"kind"`
	Ref  string `json:"ref"`
}

// Note is what a person added: the whole reason and evidence, and what was
// asserted or recorded.
type Note struct {
	Name     string    `json:"name"`
	At       time.Time `json:"at"`
	Actor    Actor     `json:"actor"`
	Verb     Verb      `json:"verb"`
	Reason   string    `json:"reason,omitempty"`
	Evidence string    `json:"evidence,omitempty"`
	// Findings are an operator's word about effects.
	Findings []Finding `json:"findings,omitempty"`
	// Corrects: Findings take the place of what people said before about the
	// same steps. The earlier notes stay.
	Corrects bool `json:"corrects,omitempty"`
	Fix      *Fix `json:"fix,omitempty"`
	// Cause and Owner are what classify and assign set.
	Cause Cause  `json:"cause,omitempty"`
	Owner string `json:"owner,omitempty"`
	// Approval: the note is one of the approvals of a send.
	Approval bool `json:"approval,omitempty"`
	// Second is another person's approval of the plan that the send belongs to.
	Second *Approval `json:"second,omitempty"`
	// Repair is the payload version that the move puts in force.
	Repair *Repair `json:"repair,omitempty"`
}

// Repair is one payload version that a person made: from another one by a
// patch, or by taking a letter or an earlier version as it is. It says nothing
// of what stands in the payload: that is for those who may read payloads.
type Repair struct {
	// Version counts from 2; version 1 is the letter as it arrived.
	Version int `json:"version"`
	// Payload names the payload, SHA256 is Payload.Hash of it.
	Payload string `json:"payload"`
	SHA256  string `json:"sha256"`
	Bytes   int    `json:"bytes"`
	// Was names what was in force before, Base what it was made from.
	Was        string `json:"was"`
	Base       string `json:"base"`
	BaseSHA256 string `json:"baseSha256"`
	// Chosen: the person named what it is made from, and so said which of several
	// differing letters is right.
	Chosen bool `json:"chosen,omitempty"`
	// Form and PatchSHA256 are those of the patch; empty if it was taken as it is.
	Form        PatchForm `json:"form,omitempty"`
	PatchSHA256 string    `json:"patchSha256,omitempty"`
}

// PatchForm is the kind of a patch.
type PatchForm string

// The kinds: RFC 6902 and RFC 7386.
const (
	PatchJSON  PatchForm = "json_patch"
	PatchMerge PatchForm = "merge_patch"
)

// PayloadVersion is one payload that was in force on a record.
type PayloadVersion struct {
	Version int
	// Payload names it.
	Payload string
	// Repair is what made it, nil for version 1; Move is that repair's entry.
	Repair *Repair
	Move   Move
}

// PayloadVersions lists the versions that history names, the oldest first.
// Without a repair there is version 1 only: the newest letter as it arrived.
func (c Case) PayloadVersions() []PayloadVersion {
	out := []PayloadVersion{{Version: 1, Payload: c.Control.Newest}}
	for _, m := range c.History {
		if m.Verb != VerbRepair || m.Note == "" {
			continue
		}
		for _, n := range c.Notes {
			if n.Name != m.Note || n.Repair == nil {
				continue
			}
			if len(out) == 1 {
				out[0].Payload = n.Repair.Was
			}
			out = append(out, PayloadVersion{Version: n.Repair.Version, Payload: n.Repair.Payload, Repair: n.Repair, Move: m})
		}
	}
	return out
}

// Bounds of what people write, in bytes.
const (
	MaxReason   = 500
	MaxEvidence = 2000
)

// FixKind is what was verifiably changed.
type FixKind string

// FixKinds is the closed set of verifiable changes.
func FixKinds() []FixKind {
	return []FixKind{"deploy", "credential", "permission", "config", "data", "rule", "capacity", "state", "probe"}
}

// Fix is typed evidence that the cause was corrected.
type Fix struct {
	Kind FixKind `json:"kind"`
	Text string  `json:"text"`
}

// String is the form of the flag: KIND:TEXT.
func (f Fix) String() string { return string(f.Kind) + ":" + f.Text }

// Actor is who did something.
type Actor struct {
	// Name is the authenticated cloud principal, else the OS user.
	Name string `json:"name"`
	// Authenticated: Name was confirmed by the cloud.
	Authenticated bool `json:"authenticated"`
	// Note is what the person added by --actor.
	Note string `json:"note,omitempty"`
}

// String is how history names the actor.
func (a Actor) String() string {
	if a.Authenticated {
		return a.Name
	}
	return "os:" + a.Name
}

// SendOutcome is what is known about one send.
type SendOutcome string

// The outcomes. OutcomeRefused: surely not sent. OutcomeNotSent: somebody settled
// that it was not; no note has it, since the number may be in use again.
const (
	OutcomeSent        SendOutcome = "sent"
	OutcomeInDoubt     SendOutcome = "in_doubt"
	OutcomeCompleted   SendOutcome = "completed"
	OutcomeRecurred    SendOutcome = "recurred"
	OutcomeUnconfirmed SendOutcome = "unconfirmed"
	OutcomeRefused     SendOutcome = "refused"
	OutcomeNotSent     SendOutcome = "not_sent"
)

// Send is what is known about redrive number N of a record; its key is N.
type Send struct {
	N      int       `json:"n"`
	Job    string    `json:"job"`
	Action Action    `json:"action"`
	At     time.Time `json:"at"`
	// MessageID is the provider's id of the message sent; empty is unknown.
	MessageID string      `json:"messageId"`
	Outcome   SendOutcome `json:"outcome"`
	// Marked: the message carried our mark.
	Marked bool `json:"marked"`
	// Tries counts the sends under this number: more than one only where a
	// send in doubt was safe to repeat.
	Tries int `json:"tries"`
	// Reason says why it was refused, is in doubt, or how it was settled.
	Reason string `json:"reason,omitempty"`
}

// Mark is the value of the attribute agent.redrive.
type Mark struct {
	Record string `json:"rec"`
	Job    string `json:"job"`
	N      int    `json:"n"`
	Action Action `json:"act"`
	Idem   string `json:"idem,omitempty"`
	From   string `json:"from,omitempty"`
}

// Case is everything stored about one record, as stored.
type Case struct {
	Control  Control
	Arrivals []Arrival
	Contexts []Context
	Notes    []Note
	Sends    []Send
	// History lists all moves, oldest first, the control item's own included.
	History []Move
}

// Context returns the context of that name, nil if it is not there.
func (c Case) Context(name string) *Context {
	for i := range c.Contexts {
		if c.Contexts[i].Name == name {
			return &c.Contexts[i]
		}
	}
	return nil
}

// Arrival returns the arrival of that key, nil if it is not there.
func (c Case) Arrival(key string) *Arrival {
	for i := range c.Arrivals {
		if c.Arrivals[i].Key == key {
			return &c.Arrivals[i]
		}
	}
	return nil
}

// First returns the arrival that the record began with, nil if it is not there.
func (c Case) First() *Arrival {
	for _, m := range c.History {
		if m.Arrival != "" {
			return c.Arrival(m.Arrival)
		}
	}
	return nil
}

// Reflects says whether the record's history names the arrival.
func (c Case) Reflects(arrival string) bool {
	for _, m := range c.History {
		if m.Arrival == arrival {
			return true
		}
	}
	return false
}

// Claimed is the note of the send that the record is claimed for; nil if there
// is none yet.
func (c Case) Claimed() *Send {
	for i, s := range c.Sends {
		if claim := c.Control.Claim; claim != nil && s.N == claim.N && !c.Control.Outdated(s) {
			return &c.Sends[i]
		}
	}
	return nil
}

// Doubt is the note of the send that the record is claimed for, if nobody knows
// whether that went out; nil if there is no doubt.
func (c Case) Doubt() *Send {
	if s := c.Claimed(); s != nil && s.Outcome == OutcomeInDoubt {
		return s
	}
	return nil
}

// CountedNotes lists the notes that history names, oldest first.
func (c Case) CountedNotes() []Note {
	var out []Note
	for _, m := range c.History {
		if m.Note == "" {
			continue
		}
		for _, n := range c.Notes {
			if n.Name == m.Note {
				out = append(out, n)
			}
		}
	}
	return out
}
