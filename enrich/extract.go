package enrich

import (
	"strconv"
	"strings"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// contextAttribute is the one attribute that holds the agent's facts on SQS,
// where the ten slots are shared with tracers.
const contextAttribute = "agent.ctx"

// Extract reads what a letter itself carries. It accepts any bytes, changes
// none, and is deterministic: the same letter gives the same arrival. Texts are
// bounded and valid UTF-8, secrets in error texts are scrubbed.
func (e *Enricher) Extract(l dlqbridge.Letter) dlqbridge.Arrival {
	a := bare(l)
	x := extraction{enricher: e, letter: l, arrival: &a}
	x.unwrap()
	x.readContext()
	for i := range e.selectors {
		x.field(&e.selectors[i])
	}
	a.Mark = x.mark()
	return a
}

// bare is an arrival with the transport's facts only.
func bare(l dlqbridge.Letter) dlqbridge.Arrival {
	a := dlqbridge.Arrival{
		Key: dlqbridge.ArrivalKey(l), Place: l.Place, MessageID: cut(l.MessageID, maxID), Source: l.Source,
		SentAt: saneTime(l.SentAt), LostAt: saneTime(l.LostAt),
		Trace:     cut(l.TraceHeader, maxText),
		Task:      dlqbridge.Task{Tools: []string{}},
		Failure:   dlqbridge.Failure{Attempts: []dlqbridge.Attempt{}},
		Envelopes: []string{}, Provenance: make(map[string]string, len(fields)), Conflicts: []dlqbridge.FieldConflict{},
		PayloadSHA256: l.Payload.Hash(), PayloadBytes: l.Payload.Size(),
	}
	if len(l.System) > 0 {
		a.System = make(map[string]string, len(l.System))
		for name, value := range l.System {
			// The receive count and times of this delivery differ when the same
			// letter comes again; the arrival's bytes must not.
			if volatile[name] || len(a.System) >= maxSystems {
				continue
			}
			a.System[cut(name, maxName)] = cut(value, maxSystem)
		}
	}
	return a
}

// extraction is one letter being read.
type extraction struct {
	enricher *Enricher
	letter   dlqbridge.Letter
	context  *document
	arrival  *dlqbridge.Arrival
	// layers are the bodies, the letter's own first, then those inside.
	layers []layer
	levels int
	// lookalike: what is being opened has the shape of an envelope only.
	lookalike bool
	told      []told
	// unescaped are the letter's attributes where a library had escaped them;
	// inner are those that an opened envelope carries.
	unescaped, inner map[string]found
}

// readContext opens agent.ctx. One that is not a JSON object is a conflict, and
// the letter is read by its other facts.
func (x *extraction) readContext() {
	x.context = &document{}
	text, ok := x.attr(contextAttribute)
	if !ok {
		if _, there := x.letter.Payload.Attribute(contextAttribute); !there {
			return
		}
	}
	x.context = openDocument([]byte(text.text))
	if !x.context.object() {
		x.conflict(contextAttribute, "attr:"+contextAttribute, "not a JSON object")
		return
	}
	if v, ok := x.context.value([]string{"v"}); ok && v.text != "1" {
		x.conflict("v", "attr:"+contextAttribute, v.text) // a newer writer: what we know is still read
	}
}

// look finds a selector's text, and the selector as it is stored: with the
// envelopes around the body it was found in.
func (x *extraction) look(field string, s *selector) (v found, as string, ok bool) {
	as = s.text
	switch s.place {
	case placeContext:
		if x.context.root != nil {
			v, ok = x.context.value(s.path)
		}
	case placeTold:
		level := -1 // of several envelopes the innermost is what the sender meant
		for _, t := range x.told {
			if t.field == field && t.level > level {
				v, as, ok, level = t.value, t.selector, true, t.level
			}
		}
	case placeAttr:
		v, ok = x.attr(s.name)
	case placeSystem:
		v.text, ok = x.letter.System[s.name]
		v.raw = v.text
	case placeFairGroup:
		if x.letter.Provider == dlqbridge.SQS && !isFIFO(x.letter.Place) && !isFIFO(x.letter.Source) {
			v, ok = found{x.letter.Payload.GroupKey, x.letter.Payload.GroupKey}, true
		}
	case placeDatadog:
		v, ok = x.datadog()
	case placeAgent, placeBody, placeCloudEvent, placeExpression:
		return x.lookInside(s)
	}
	return v, as, ok
}

// lookInside looks into the bodies, the innermost first: it is what the sender
// meant.
func (x *extraction) lookInside(s *selector) (v found, as string, ok bool) {
	for i := len(x.layers) - 1; i >= 0; i-- {
		l := &x.layers[i]
		switch {
		case l.doc.root == nil,
			s.place == placeCloudEvent && l.signs&hasSpecVersion == 0,
			s.place == placeAgent && l.signs&hasAgent == 0:
			continue
		case s.place == placeExpression:
			v.text, ok = searched(s.search, l.doc.root)
			v.raw = v.text
		default:
			for _, p := range s.paths {
				if v, ok = l.doc.value(p); ok {
					break
				}
			}
		}
		if ok {
			return v, l.path + s.text, true
		}
	}
	return found{}, "", false
}

// searched runs an expression. One that panics found nothing: a selector may
// not take the intake down with it.
func searched(search func([]byte) (string, bool), json []byte) (value string, ok bool) {
	defer func() {
		if recover() != nil {
			value, ok = "", false
		}
	}()
	return search(json)
}

// datadog reads the trace out of the one attribute that Datadog's tracers write.
func (x *extraction) datadog() (found, bool) {
	v, ok := x.attr("_datadog")
	if !ok {
		return found{}, false
	}
	d := openDocument([]byte(v.text))
	if parent, ok := d.value([]string{"traceparent"}); ok {
		return parent, true
	}
	id, ok := d.value([]string{"x-datadog-trace-id"})
	return found{datadogTrace + id.text, id.raw}, ok
}

// datadogTrace stands before an id in Datadog's own form.
const datadogTrace = "datadog:"

// field takes the first good value of a field and notes where it stood. What a
// later selector says otherwise, and what cannot be read, is kept as a conflict.
func (x *extraction) field(f *fieldSelectors) {
	taken := ""
	for i := range f.selectors {
		v, as, ok := x.look(f.name, &f.selectors[i])
		if !ok || strings.TrimSpace(v.text) == "" {
			continue
		}
		text, good := f.read(v)
		switch {
		case !good:
			x.conflict(f.name, as, v.text)
		case taken == "":
			taken = text
			x.arrival.Provenance[f.name] = cut(as, maxName)
			x.set(f.name, text)
		case text != taken:
			x.conflict(f.name, as, text)
		}
	}
}

func (x *extraction) conflict(field, selector, value string) {
	if len(x.arrival.Conflicts) < maxEntries {
		x.arrival.Conflicts = append(x.arrival.Conflicts, dlqbridge.FieldConflict{
			Field: field, Selector: cut(selector, maxName), Value: Scrub(cut(value, maxName)),
		})
	}
}

// maxCount bounds what is believed of a count.
const maxCount = 1_000_000

// read brings a text into its field's form; good is false for one that has none.
func (f field) read(v found) (text string, good bool) {
	switch f.kind {
	case kindID:
		return exact(v.text, v.raw, maxID), true
	case kindName:
		return cut(v.text, maxName), true
	case kindMessage:
		// Scrub first: cutting might leave half a secret that no longer looks like one.
		return cut(Scrub(cut(v.text, 8*maxText)), maxText), true
	case kindTime:
		t, err := dlqbridge.ParseTime(strings.TrimSpace(v.text))
		if t = saneTime(t); err != nil || t.IsZero() {
			return "", false
		}
		return dlqbridge.FormatTime(t), true
	case kindCount:
		n, err := strconv.Atoi(strings.TrimSpace(v.text))
		if err != nil || n < 0 || n > maxCount {
			return "", false
		}
		return strconv.Itoa(n), true
	case kindEffect:
		switch e := dlqbridge.Effect(v.text); e {
		case dlqbridge.EffectNone, dlqbridge.EffectConfirmed, dlqbridge.EffectUnknown:
			return string(e), true
		}
		return "", false
	case kindCause:
		return v.text, dlqbridge.Cause(v.text).Valid()
	}
	return "", false
}

// set puts a text that read has brought into form where it belongs.
func (x *extraction) set(name, text string) {
	task, failure := &x.arrival.Task, &x.arrival.Failure
	switch name {
	case "taskId":
		task.TaskID = text
	case "runId":
		task.RunID = text
	case "taskType":
		task.TaskType = text
	case "tenant":
		task.Tenant = text
	case "idempotencyKey":
		task.IdempotencyKey = text
	case "attempts":
		task.Attempts = count(text)
	case "maxAttempts":
		task.MaxAttempts = count(text)
	case "deadline":
		task.Deadline = moment(text)
	case "validUntil":
		task.ValidUntil = moment(text)
	case "effect":
		x.arrival.Effect = text
	case "checkpoint":
		x.arrival.Checkpoint = text
	case "cause":
		failure.Cause = dlqbridge.Cause(text)
	case "code":
		failure.Code = Scrub(text)
	case "message":
		failure.Message = text
	case "step":
		failure.Step = text
	case "tool":
		failure.Tool = text
		task.Tools = []string{text}
	case "dependency":
		failure.Dependency = text
	case "versions.agent":
		task.Versions.Agent = text
	case "versions.model":
		task.Versions.Model = text
	case "versions.prompt":
		task.Versions.Prompt = text
	case "versions.workflow":
		task.Versions.Workflow = text
	case "versions.policy":
		task.Versions.Policy = text
	case "trace":
		x.arrival.TraceRef = text
	}
}

// count and moment read what field.read has written.
func count(text string) *int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return nil
	}
	return &n
}

func moment(text string) time.Time {
	t, err := dlqbridge.ParseTime(text)
	if err != nil {
		return time.Time{}
	}
	return t
}

// volatile are the system attributes that change from one delivery of the same
// letter to the next.
var volatile = map[string]bool{"ApproximateReceiveCount": true, "ApproximateFirstReceiveTimestamp": true}
