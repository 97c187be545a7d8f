package enrich

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dlqbridge/dlqbridge"
)

// Explanation is why a record was decided as it was (`records explain`), in
// words for somebody who has never seen the code. What a sender wrote stands in
// it as it was written: a terminal must escape it.
type Explanation struct {
	ID     string           `json:"id"`
	Status dlqbridge.Status `json:"status"`
	Action dlqbridge.Action `json:"action"`
	// Rule is the rule of the decision, Cause and CauseRule what the failure was
	// classed as and by which rule.
	Rule      dlqbridge.Why   `json:"rule"`
	Cause     dlqbridge.Cause `json:"cause"`
	CauseRule string          `json:"causeRule"`
	Reason    string          `json:"reason"`
	// Effect, Uncovered and RepeatSafe are what the rule looked at.
	Effect     dlqbridge.Effect `json:"effect"`
	Uncovered  dlqbridge.Effect `json:"uncovered"`
	RepeatSafe bool             `json:"repeatSafe"`
	// Standing is where it is on its way: sent and waiting, sent before, closed.
	Standing []string `json:"standing"`
	// Decided says what the rule is; Classified how the cause was found.
	Decided    []string `json:"decided"`
	Classified []string `json:"classified"`
	// Steps is what was found, step by step; Fold how that was put together.
	Steps []string `json:"steps"`
	Fold  []string `json:"fold"`
	// Letter is what is peculiar about the newest letter.
	Letter []string `json:"letter"`
	// Limits is what else stands in the way, and when.
	Limits []string `json:"limits"`
	// Change is what would lead to another decision.
	Change []string `json:"change"`
	// Verbs are the moves that are possible to people now, by what is on record.
	Verbs []dlqbridge.Verb `json:"verbs"`
}

// Section is one part of an explanation.
type Section struct {
	Title string
	Lines []string
}

// Sections are the parts of an explanation in the order to read them; those
// that have nothing to say are left out.
func (e Explanation) Sections() []Section {
	all := []Section{
		{"why", append([]string{e.Reason}, e.Decided...)},
		{"where it stands", e.Standing},
		{"what failed", e.Classified},
		{"what is known about effects", append(slices.Clone(e.Steps), e.Fold...)},
		{"the letter", e.Letter},
		{"what stands in the way", e.Limits},
		{"what would change it", e.Change},
	}
	return slices.DeleteFunc(all, func(s Section) bool { return len(s.Lines) == 0 })
}

// Explain says why a record was decided as it was, from what is stored and what
// is around it.
func Explain(c dlqbridge.Case, a Around) Explanation {
	k := c.Control
	x, _ := deciding(c)
	e := Explanation{
		ID: k.ID, Status: k.Status, Action: k.Action, Rule: k.Why, Cause: k.Cause, CauseRule: x.Failure.Rule, Reason: x.Reason,
		Effect: k.Effect, Uncovered: k.Uncovered, RepeatSafe: k.RepeatSafe,
		Decided: nonNil(decided(k)), Classified: nonNil(classified(k, x)), Fold: nonNil(foldLines(c, x)), Letter: []string{}, Limits: nonNil(append(holdLines(k, a), limits(k, x)...)),
		Steps: []string{}, Change: changes(c, x, a), Verbs: dlqbridge.Possible(c, a.beside()), Standing: nonNil(standing(c, a)),
	}
	for _, f := range x.Findings {
		e.Steps = append(e.Steps, sentence(f, x.Checkpoint, k))
	}
	if n := x.Omitted; len(n) > 0 {
		e.Steps = append(e.Steps, fmt.Sprintf("And more that is not kept, but was looked at: %d not known, %d that happened, %d that did not.",
			n[dlqbridge.EffectUnknown], n[dlqbridge.EffectConfirmed], n[dlqbridge.EffectNone]))
	}
	if len(x.Findings) == 0 {
		e.Steps = append(e.Steps, "Nobody said anything about an effect; silence proves nothing, so the effect is unknown.")
	}
	if x.Checkpoint != nil {
		e.Steps = append(e.Steps, fmt.Sprintf("Checkpoint %s covers steps of its own runs up to %q.", x.Checkpoint.Ref, x.Checkpoint.Step))
	}
	if a := c.Arrival(k.Newest); a != nil {
		e.Letter = nonNil(letterLines(*a))
	}
	return e
}

// ruleWords is what each rule of the decision says, in the words of a person.
var ruleWords = map[dlqbridge.Why]string{
	dlqbridge.WhyCompleted:       "a store shows that the task completed, so nothing is left to do",
	dlqbridge.WhyCritical:        "a critical failure is looked at by people before anything else",
	dlqbridge.WhyEffectUnknown:   "nobody knows whether something changed outside, and running it again is not declared safe",
	dlqbridge.WhyEffectConfirmed: "something changed outside, and running it again would do it twice",
	dlqbridge.WhyExpired:         "the work is past the time at which it loses its sense",
	dlqbridge.WhyCheckpoint:      "nothing happened after a checkpoint that this route can go on from",
	dlqbridge.WhyCoveredEffect:   "something changed outside before the checkpoint, and this route cannot go on from one",
	dlqbridge.WhyRetryable:       "the same again may work, repeating it is safe, and the redrive budget is not used up",
	dlqbridge.WhyFixable:         "somebody can change what made it fail, and sending it again after that is safe",
	dlqbridge.WhyUnrepeatable:    "somebody can change what made it fail, but sending the changed task again is not known to be safe",
	dlqbridge.WhyUnclassified:    "nothing is known about why it failed",
	dlqbridge.WhyNoFix:           "neither a new attempt nor a change on our side would help",
	dlqbridge.WhyLinked:          "a letter came for work whose record was closed, which nothing should send again unseen",
	dlqbridge.WhyConflict:        "letters of one task differ where they must not, so it is not clear what would be sent",
	WhyIncident:                  "a person opened an incident, and nobody has closed it",
	WhyLate:                      "another letter came while this one was being redriven",
	WhyTenant:                    "a store has this task for another tenant than the letter's, so it may be somebody else's work",
	WhyCompensation:              "what says that it is a compensation that died is for a person, however often somebody looks, and is neither compensated nor sent",
	dlqbridge.WhyCompensated:     "a compensation undid what had happened",
	WhyBare:                      "only the bytes of this letter could be stored",
}

func decided(k dlqbridge.Control) []string {
	words, ok := ruleWords[k.Why]
	if !ok {
		return nil
	}
	out := []string{fmt.Sprintf("The first rule that fits is %s: %s.", k.Why, words)}
	if k.Action == dlqbridge.ActionRepair {
		sent := "the letter goes back as it came, unless somebody changes it (triage repair)"
		if k.Payload != "" {
			sent = fmt.Sprintf("version %d of its payload is sent", k.PayloadVersion)
		}
		out = append(out, "Repair means that somebody first mends what made it fail, in code, configuration or data; then "+sent+".")
	}
	return out
}

// classified says how the cause was found and what is known of the failure.
func classified(k dlqbridge.Control, x dlqbridge.Context) []string {
	var out []string
	if k.Cause != "" {
		out = append(out, fmt.Sprintf("Classed as %s, %s.", strings.ReplaceAll(string(k.Cause), "_", " "), causeWords(x.Failure.Rule)))
	}
	f := x.Failure
	var where []string
	for _, w := range [][2]string{{"step", f.Step}, {"tool", f.Tool}, {"dependency", f.Dependency}, {"phase", f.Phase}, {"code", f.Code}} {
		if w[1] != "" {
			where = append(where, w[0]+" "+w[1])
		}
	}
	if len(where) > 0 {
		out = append(out, title(strings.Join(where, ", "))+".")
	}
	if f.Message != "" {
		out = append(out, "Message: "+f.Message)
	}
	if f.Retryable != nil && !*f.Retryable && dlqbridge.DefaultCausePolicy(k.Cause).Retryable {
		out = append(out, "Whoever saw it fail says that the same again cannot work.")
	}
	return out
}

// causeWords says what a classification rule means. Its form is NAME:DETAIL.
func causeWords(rule string) string {
	name, detail, _ := strings.Cut(rule, ":")
	by := detail
	if by == messageStore {
		by = "the letter"
	}
	switch name {
	case rulePerson:
		return "by a person"
	case "":
		return "and what said so is not kept any more"
	case "critical":
		return "because " + by + " states it as critical, which goes before everything else"
	case ruleRoute:
		return "by the route's own " + detail
	case ruleShared:
		return "by " + detail + ", which the configuration has for all routes"
	case "stated":
		return "as " + by + " states it"
	case "code":
		return "because that is what the code " + detail + " means wherever it is used"
	case "message":
		return fmt.Sprintf("from the words of its message (%s)", detail)
	case "in_flight":
		return "because a call was under way and nobody knows how it ended: " + detail
	}
	return "because no rule knows it"
}

// letterLines says what is peculiar about a letter: what was around the
// payload, what that said, where values disagree.
func letterLines(a dlqbridge.Arrival) []string {
	var out []string
	if len(a.Envelopes) > 0 {
		around := make([]string, len(a.Envelopes))
		for i, name := range a.Envelopes {
			around[i] = envelopeWords(name)
		}
		out = append(out, "It came as "+strings.Join(around, ", in that ")+".")
	}
	for _, name := range slices.Sorted(maps.Keys(a.Facts)) {
		out = append(out, fmt.Sprintf("%s: %s", name, a.Facts[name]))
	}
	for _, c := range a.Conflicts {
		out = append(out, fmt.Sprintf("Not believed for %s: %s (found by %s).", c.Field, c.Value, c.Selector))
	}
	return out
}

// envelopeWords is what an envelope is for a person.
func envelopeWords(name string) string {
	if like, ok := strings.CutPrefix(name, looksLike); ok {
		return "what looks like " + envelopeWords(like) + " and was not opened"
	}
	if words, ok := envelopeNames[name]; ok {
		return words
	}
	return name
}

var envelopeNames = map[string]string{
	"sns": "a notification of SNS", "lambda-dlq": "the leftover of an asynchronous invocation (Lambda's dead-letter queue)",
	"lambda-destination": "the record of an asynchronous invocation (Lambda's destination)", "eventbridge-dlq": "the leftover of an EventBridge rule",
	"scheduler-dlq": "the leftover of an EventBridge schedule", "eventbridge-bus-dlq": "the record of an EventBridge custom bus", "eventbridge": "an EventBridge event",
	"s3": "a notification of S3", "s3-test": "the test event that S3 sends at set-up", "cloudevents": "a CloudEvent", "cloudevents-attributes": "a CloudEvent in attributes",
	"celery": "a Celery task", "activejob": "an ActiveJob job", "shoryuken": "a Shoryuken message", "laravel": "a Laravel job",
	"laravel-pointer": "a pointer to a Laravel job", "sqs-extended": "a pointer of the SQS extended client", "gocdk": "a message of Go CDK", "gzip": "gzip",
	"base64": "base64", "temporal": "a Temporal payload", "temporal-failure": "a Temporal failure", "tool-calls": "a model's tool calls",
}

// limits is what else keeps the record from being sent, and for how long.
func limits(k dlqbridge.Control, x dlqbridge.Context) []string {
	var out []string
	if k.Status.Closed() {
		return out
	}
	if x.Restriction != "" {
		for part := range strings.SplitSeq(x.Restriction, "; ") {
			out = append(out, title(part)+".")
		}
	}
	if !k.NotBefore.IsZero() {
		out = append(out, "Policy waits until "+dlqbridge.FormatTime(k.NotBefore)+"; a person with a fix need not.")
	}
	if !k.RecheckAt.IsZero() {
		out = append(out, "It is looked at again by itself at "+dlqbridge.FormatTime(k.RecheckAt)+".")
	}
	if !k.Deadline.IsZero() {
		out = append(out, "Its result is due at "+dlqbridge.FormatTime(k.Deadline)+".")
	}
	if !k.ValidUntil.IsZero() {
		out = append(out, "It loses its sense at "+dlqbridge.FormatTime(k.ValidUntil)+".")
	}
	return out
}
