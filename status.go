package dlqbridge

import "slices"

// Status is where a record is in its life.
type Status string

// The statuses. The last five close a record.
const (
	StatusReceived                    Status = "received"
	StatusClassified                  Status = "classified"
	StatusAwaitingInputCorrection     Status = "awaiting_input_correction"
	StatusAwaitingTechnicalOwner      Status = "awaiting_technical_owner"
	StatusAwaitingOperationalDecision Status = "awaiting_operational_decision"
	StatusUnderInvestigation          Status = "under_investigation"
	StatusIncidentOpen                Status = "incident_open"
	StatusFixValidated                Status = "fix_validated"
	StatusAuthorized                  Status = "authorized"
	StatusRedriving                   Status = "redriving"

	StatusCompleted         Status = "completed"
	StatusCompletedManually Status = "completed_manually"
	StatusCompensated       Status = "compensated"
	StatusRejected          Status = "rejected"
	StatusCancelledExpired  Status = "cancelled_expired"
)

var (
	openStatuses = []Status{
		StatusReceived, StatusClassified, StatusAwaitingInputCorrection, StatusAwaitingTechnicalOwner,
		StatusAwaitingOperationalDecision, StatusUnderInvestigation, StatusIncidentOpen,
		StatusFixValidated, StatusAuthorized, StatusRedriving,
	}
	closedStatuses = []Status{
		StatusCompleted, StatusCompletedManually, StatusCompensated, StatusRejected, StatusCancelledExpired,
	}
)

// OpenStatuses lists the statuses of open records, in life order.
func OpenStatuses() []Status { return slices.Clone(openStatuses) }

// Statuses lists all statuses, the closing ones last.
func Statuses() []Status { return slices.Concat(openStatuses, closedStatuses) }

// Closed says whether the status closes a record.
func (s Status) Closed() bool { return slices.Contains(closedStatuses, s) }

// Valid says whether s is one of the statuses.
func (s Status) Valid() bool { return s.Closed() || slices.Contains(openStatuses, s) }

// Verb names a move: what was done to a record.
type Verb string

// The verbs. The first group is people's (`dlqbridge triage VERB`), the second
// the machine's.
const (
	VerbAssign           Verb = "assign"
	VerbClassify         Verb = "classify"
	VerbInvestigate      Verb = "investigate"
	VerbSettleEffect     Verb = "settle-effect"
	VerbSettleSend       Verb = "settle-send"
	VerbFix              Verb = "fix"
	VerbAuthorize        Verb = "authorize"
	VerbCompleteManually Verb = "complete-manually"
	VerbCompensated      Verb = "compensated"
	VerbReject           Verb = "reject"
	VerbCancelExpired    Verb = "cancel-expired"
	VerbOpenIncident     Verb = "open-incident"
	VerbCloseIncident    Verb = "close-incident"
	VerbSnooze           Verb = "snooze"
	VerbRepair           Verb = "repair"
	VerbReopen           Verb = "reopen"

	// VerbReceive makes a record, or adds an arrival to an open one.
	VerbReceive Verb = "receive"
	// VerbRecur ends a redrive whose task died again.
	VerbRecur Verb = "recur"
	// VerbClaim gives a record to a job for redrive number n; VerbRelease takes
	// a claim back whose message was surely not sent.
	VerbClaim   Verb = "claim"
	VerbRelease Verb = "release"
	// VerbComplete closes on evidence that the task completed; VerbUnconfirmed
	// ends an observation without any.
	VerbComplete    Verb = "complete"
	VerbUnconfirmed Verb = "unconfirmed"
	// VerbLapse takes an authorisation back whose ground has changed.
	VerbLapse Verb = "lapse"
	// VerbRecheck judges a record anew whose recheckAt is due: a run that may
	// have been going is over, or a store can be asked again.
	VerbRecheck Verb = "recheck"
	// VerbRegroup gives a record the signature that newer rules make of its
	// failure; nothing else about it changes.
	VerbRegroup Verb = "regroup"
)

// MoveRule is one row of the table of moves.
type MoveRule struct {
	Verb Verb
	// From lists where the move is allowed.
	From []Status
	// To lists where it may lead.
	To []Status
	// Stays: the move never changes the status.
	Stays bool
	// Person: a person's move; it needs a reason.
	Person bool
	// Evidence: it asserts a fact, so it needs --evidence too.
	Evidence bool
	// Does is the sentence for the table of moves.
	Does string
	// hinders says why what is on record forbids the move although the status
	// allows it; empty is that it does not. Nil never does.
	hinders func(Case, Beside) string
}

// waiting lists the statuses in which a person may act on a record.
var waiting = []Status{
	StatusReceived, StatusClassified, StatusAwaitingInputCorrection, StatusAwaitingTechnicalOwner,
	StatusAwaitingOperationalDecision, StatusUnderInvestigation, StatusIncidentOpen,
	StatusFixValidated, StatusAuthorized,
}

// decided lists where a decision can leave an open record.
var decided = []Status{
	StatusClassified, StatusAwaitingInputCorrection, StatusAwaitingTechnicalOwner,
	StatusAwaitingOperationalDecision, StatusUnderInvestigation, StatusIncidentOpen, StatusFixValidated,
	StatusCompleted, StatusCancelledExpired,
}

// moveRules is the one table of allowed moves.
var moveRules = []MoveRule{
	{Verb: VerbAssign, From: openStatuses, Stays: true, Person: true, Does: "gives the record to an owner"},
	{Verb: VerbClassify, From: waiting, To: decided, Person: true, Does: "corrects the cause and decides anew"},
	{Verb: VerbInvestigate, From: waiting, To: decided, Person: true, Does: "reads the stores again and decides anew"},
	{Verb: VerbSettleEffect, From: waiting, To: decided, Person: true, Evidence: true, Does: "states what happened outside and decides anew"},
	{Verb: VerbFix, From: waiting, To: decided, Person: true, Does: "records a verifiable fix (KIND:TEXT) and decides anew"},
	{Verb: VerbAuthorize, From: without(waiting, StatusAuthorized), To: []Status{StatusAuthorized, StatusIncidentOpen, StatusFixValidated, StatusClassified, StatusAwaitingInputCorrection, StatusAwaitingTechnicalOwner, StatusAwaitingOperationalDecision, StatusUnderInvestigation}, Person: true, Does: "allows one send, or adds the first of two approvals", hinders: unauthorizable},
	{Verb: VerbSettleSend, From: []Status{StatusRedriving}, To: []Status{StatusRedriving, StatusAuthorized}, Person: true, Evidence: true, Does: "states whether a send in doubt went out", hinders: notInDoubt},
	{Verb: VerbCompleteManually, From: waiting, To: []Status{StatusCompletedManually}, Person: true, Evidence: true, Does: "closes: the work was done by hand"},
	{Verb: VerbCompensated, From: waiting, To: []Status{StatusCompensated}, Person: true, Evidence: true, Does: "closes: the effect was undone", hinders: nothingHappened},
	{Verb: VerbReject, From: waiting, To: []Status{StatusRejected}, Person: true, Does: "closes: the work is not to be done"},
	{Verb: VerbCancelExpired, From: waiting, To: []Status{StatusCancelledExpired}, Person: true, Does: "closes: the work lost its sense (past valid_until)", hinders: notExpired},
	{Verb: VerbOpenIncident, From: without(waiting, StatusIncidentOpen), To: []Status{StatusIncidentOpen}, Person: true, Does: "opens an incident; nothing is sent meanwhile"},
	{Verb: VerbCloseIncident, From: []Status{StatusIncidentOpen}, To: []Status{StatusUnderInvestigation}, Person: true, Evidence: true, Does: "closes the incident; the record is looked at again"},
	{Verb: VerbRepair, From: waiting, To: decided, Person: true, Does: "makes a new payload version and decides anew; an authorisation lapses"},
	{Verb: VerbSnooze, From: waiting, Stays: true, Person: true, Does: "moves the triage deadline (--until)"},
	{Verb: VerbReopen, From: []Status{StatusRejected, StatusCancelledExpired, StatusCompletedManually}, To: []Status{StatusUnderInvestigation, StatusCompletedManually}, Person: true, Does: "opens a closed record again (a manual completion: with a second person)", hinders: succeeded},

	{Verb: VerbReceive, From: openStatuses, To: append(slices.Clone(decided), StatusRedriving), Does: "makes a record, or adds an arrival to an open one"},
	{Verb: VerbRecur, From: []Status{StatusRedriving}, To: decided, Does: "ends a redrive whose task died again"},
	{Verb: VerbClaim, From: []Status{StatusAuthorized}, To: []Status{StatusRedriving}, Does: "gives the record to a job for one send"},
	{Verb: VerbRelease, From: []Status{StatusRedriving}, To: append(slices.Clone(decided), StatusAuthorized), Does: "takes back a claim whose message was surely not sent"},
	{Verb: VerbComplete, From: openStatuses, To: []Status{StatusCompleted, StatusCompensated}, Does: "closes on evidence that the task, or its compensation, completed"},
	{Verb: VerbUnconfirmed, From: []Status{StatusRedriving}, To: []Status{StatusAwaitingOperationalDecision, StatusCompleted, StatusCompensated}, Does: "ends an observation that saw no outcome"},
	{Verb: VerbLapse, From: []Status{StatusAuthorized}, To: decided, Does: "takes back an authorisation whose ground has changed"},
	{Verb: VerbRecheck, From: without(waiting, StatusAuthorized), To: decided, Does: "reads the stores again when that is due and decides anew"},
	{Verb: VerbRegroup, From: waiting, Stays: true, Does: "puts the record into the group that newer signature rules make of its failure"},
}

func without(all []Status, s Status) []Status {
	return slices.DeleteFunc(slices.Clone(all), func(x Status) bool { return x == s })
}

// Moves lists the table of allowed moves.
func Moves() []MoveRule { return slices.Clone(moveRules) }

// Rule returns the rule of a verb; ok is false for a verb that does not exist.
func (v Verb) Rule() (rule MoveRule, ok bool) {
	for _, r := range moveRules {
		if r.Verb == v {
			return r, true
		}
	}
	return MoveRule{}, false
}

// Allows says whether a verb may move a record from one status to another.
func (v Verb) Allows(from, to Status) bool {
	r, ok := v.Rule()
	if !ok || !slices.Contains(r.From, from) {
		return false
	}
	if r.Stays {
		return from == to
	}
	return slices.Contains(r.To, to)
}
