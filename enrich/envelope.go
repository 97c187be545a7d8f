package enrich

import (
	"strings"

	"github.com/dlqbridge/dlqbridge"
)

// An envelope is what a framework or a cloud service puts around a payload. Each
// family has a file of its own, envelope_*.go, with its shape and the source
// of it. Envelopes are read and never rewritten: what is sent back is the
// letter's own bytes.
//
// Anybody who can send to a queue can forge any envelope. So what is inside one
// is believed as far as a plain body is: it says who the task is and why it
// failed. It never says where work is sent, and the one envelope that hides
// another sender (SNS) is opened only for the topics that the route names.

// maxEnvelopes is how many levels are opened. Real letters have up to four: SNS
// around base64 around an event around its detail.
const maxEnvelopes = 4

// looksLike marks an envelope that has the shape but is not opened.
const looksLike = "looks-like-"

// envelope is one kind of envelope around a body.
type envelope struct {
	name string
	// needs are the keys that the body must have at its top, all of them; 0 is
	// for bodies that are no JSON object.
	needs signs
	// open reads the body and says whether it has this shape. Inner is the body
	// inside, nil if there is none to look into.
	open func(x *extraction, l *layer) (inner []byte, ok bool)
}

// bodyEnvelopes are tried in order; of those whose keys are there, the more
// particular ones come first.
var bodyEnvelopes = []envelope{
	{"sns", hasTopicArn | hasMessage, openSNS},
	{"lambda-destination", hasRequestContext | hasRequestPayload, openLambdaDestination},
	{"eventbridge-bus-dlq", hasBusArn | hasFailedMessages, openCustomBus},
	{"eventbridge", hasDetailType | hasDetail, openEventBridge},
	{"s3-test", hasService | hasEvent, openS3Test},
	{"s3", hasRecords, openS3},
	{"cloudevents", hasSpecVersion | hasID | hasSource, openCloudEvent},
	{"celery", hasHeaders, openCelery},
	{"activejob", hasJobClass | hasJobID, openActiveJob},
	{"laravel", hasJob | hasData | hasDisplayName, openLaravel},
	{"laravel-pointer", hasAtPointer, openLaravelPointer},
	{"temporal", hasMetadata | hasData, openTemporal},
	{"temporal-failure", hasFailure, openTemporalFailure},
	{"tool-calls", hasToolCalls, openToolCalls},
	{"tool-calls", hasChoices, openToolCalls},
	{"sqs-extended", 0, openExtended},
	{"gzip", 0, openGzip},
	{"celery", 0, openCeleryBase64},
	{"gocdk", 0, openGoCDKBody},
	{"base64", 0, openBase64},
}

// signs is a set of well-known keys at the top of a body.
type signs uint32

const (
	hasTopicArn signs = 1 << iota
	hasMessage
	hasRequestContext
	hasRequestPayload
	hasBusArn
	hasFailedMessages
	hasDetailType
	hasDetail
	hasService
	hasEvent
	hasRecords
	hasSpecVersion
	hasID
	hasSource
	hasHeaders
	hasJobClass
	hasJobID
	hasJob
	hasData
	hasDisplayName
	hasAtPointer
	hasMetadata
	hasToolCalls
	hasChoices
	hasAgent
	hasFailure
)

var signOf = map[string]signs{
	"TopicArn": hasTopicArn, "Message": hasMessage, "requestContext": hasRequestContext, "requestPayload": hasRequestPayload,
	"busArn": hasBusArn, "failedMessages": hasFailedMessages, "detail-type": hasDetailType, "detail": hasDetail,
	"Service": hasService, "Event": hasEvent, "Records": hasRecords, "specversion": hasSpecVersion, "id": hasID, "source": hasSource,
	"headers": hasHeaders, "job_class": hasJobClass, "job_id": hasJobID, "job": hasJob, "data": hasData, "displayName": hasDisplayName,
	"@pointer": hasAtPointer, "metadata": hasMetadata, "tool_calls": hasToolCalls, "choices": hasChoices, "agent": hasAgent, "failure": hasFailure,
}

// layer is one body with what is known of it, the letter's own or one inside.
type layer struct {
	text  []byte
	doc   *document
	signs signs
	// path names the envelopes around it, for provenance; empty at the outside.
	path string
}

// told is a value of a field that an envelope is known to hold.
type told struct {
	field, selector string
	value           found
	level           int
}

// unwrap opens what is around the payload, from the outside in.
func (x *extraction) unwrap() {
	for _, f := range attributeEnvelopes {
		if f.open(x) {
			x.enveloped(f.name)
		}
	}
	x.push(x.letter.Payload.Body, "")
	for x.unwrapOnce() {
	}
}

func (x *extraction) unwrapOnce() bool {
	l := &x.layers[len(x.layers)-1]
	for _, f := range bodyEnvelopes {
		if l.signs&f.needs != f.needs || f.needs == 0 && l.doc.object() {
			continue
		}
		inner, ok := f.open(x, l)
		if !ok {
			continue
		}
		name := f.name
		if x.lookalike {
			name, x.lookalike = looksLike+name, false
		}
		x.enveloped(name)
		if inner == nil {
			return false
		}
		x.push(inner, x.layers[len(x.layers)-1].path+name+">")
		x.levels++
		return x.levels < maxEnvelopes
	}
	return false
}

func (x *extraction) push(text []byte, path string) {
	l := layer{text: text, doc: openDocument(text), path: path}
	for i := range l.doc.top.members {
		if i == manyMembers { // an envelope has few keys, and a payload may have any number
			break
		}
		l.signs |= signOf[string(l.doc.top.members[i].key)]
	}
	x.layers = append(x.layers, l)
}

// enveloped records an envelope.
func (x *extraction) enveloped(name string) {
	if n := len(x.arrival.Envelopes); n < 2*maxEnvelopes && (n == 0 || x.arrival.Envelopes[n-1] != name) {
		x.arrival.Envelopes = append(x.arrival.Envelopes, name)
	}
}

// maxFacts bounds what envelopes may say besides.
const maxFacts = 32

// fact keeps what an envelope says besides, for people.
func (x *extraction) fact(name, value string) { x.longFact(name, value, maxName) }

// longFact is a fact that may be longer: an object's key has up to 1,024 bytes.
func (x *extraction) longFact(name, value string, limit int) {
	if value == "" || len(x.arrival.Facts) >= maxFacts {
		return
	}
	if x.arrival.Facts == nil {
		x.arrival.Facts = map[string]string{}
	}
	x.arrival.Facts[name] = Scrub(cut(value, limit))
}

// factAt keeps the value at a path of a document as a fact.
func (x *extraction) factAt(name string, d *document, path ...string) {
	if v, ok := d.value(path); ok {
		x.fact(name, v.text)
	}
}

// tell says a field's value, before the well-known spellings are looked at.
func (x *extraction) tell(field, selector string, v found) {
	if strings.TrimSpace(v.text) != "" {
		x.told = append(x.told, told{field, selector, v, len(x.layers)})
	}
}

// tellAt tells a field the value at a path of a layer.
func (x *extraction) tellAt(field string, l *layer, path ...string) bool {
	v, ok := l.doc.value(path)
	if ok {
		x.tell(field, l.path+"body:/"+strings.Join(path, "/"), v)
	}
	return ok
}

// attributeEnvelopes are the envelopes that live in the attributes around a body.
var attributeEnvelopes = []struct {
	name string
	open func(x *extraction) bool
}{
	{"gocdk", openGoCDK},
	{"lambda-dlq", openLambdaDLQ},
	{"eventbridge-dlq", openRuleDLQ},
	{"scheduler-dlq", openSchedulerDLQ},
	{"cloudevents-attributes", openCloudEventAttributes},
	{"shoryuken", openShoryuken},
}

// attr is the text of an attribute: as an envelope unescaped it, as it stands
// on the letter, or as an opened envelope carries it.
func (x *extraction) attr(name string) (found, bool) {
	if v, ok := x.unescaped[name]; ok {
		return v, true
	}
	if a, ok := x.letter.Payload.Attribute(name); ok {
		return attributeText(a)
	}
	v, ok := x.inner[name]
	return v, ok
}

// own is an attribute of the letter itself, empty if there is none.
func (x *extraction) own(name string) string {
	a, ok := x.letter.Payload.Attribute(name)
	if !ok {
		return ""
	}
	v, _ := attributeText(a)
	return v.text
}

// has says whether the letter has all of these attributes.
func (x *extraction) has(names ...string) bool {
	for _, name := range names {
		if _, ok := x.letter.Payload.Attribute(name); !ok {
			return false
		}
	}
	return true
}

// origin notes what put the letter into the dead-letter place where no queue did.
func (x *extraction) origin(name string) { x.fact(factOrigin, name) }

// marks notes which of these attributes the provider has added to the letter
// when it gave up. A letter that the broker moved from a queue was sent there
// with them, so they are its producer's own.
func (x *extraction) marks(names ...string) {
	if fromQueue(x.letter) {
		return
	}
	p := x.letter.Payload
	for _, name := range names {
		if _, there := p.Attribute(name); there {
			x.arrival.Marks = append(x.arrival.Marks, name)
			p = p.Without(name)
		}
	}
	x.arrival.ProducerSHA256 = p.Hash()
}

// Facts that other files look at.
const (
	factOrigin  = "origin"
	factPayload = "payload"
	// PayloadCut, payloadNone and payloadElsewhere are what may be wrong with a
	// payload as far as sending it again goes.
	payloadCut       = "cut by the provider"
	payloadNone      = "not in the letter"
	payloadElsewhere = "elsewhere, not fetched: whether it is still there is unknown"
	payloadEncrypted = "encrypted"
)

// inside is the body in a JSON value: the text of a string, anything else as it is.
func inside(raw []byte) []byte {
	if len(raw) > 0 && raw[0] == '"' {
		return []byte(text(raw))
	}
	return raw
}

// isARN says whether s begins like the ARN of a service's resource.
func isARN(s, service string) bool {
	parts := strings.SplitN(s, ":", 6)
	return len(parts) == 6 && parts[0] == "arn" && strings.HasPrefix(parts[1], "aws") && parts[2] == service && parts[5] != ""
}

// fromQueue says whether the broker moved the letter from a queue.
func fromQueue(l dlqbridge.Letter) bool { return l.Source != "" }
