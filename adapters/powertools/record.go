package powertools

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awserr/awsread"
)

// What a record's status says. EXPIRED is computed by Powertools and never
// written.
const (
	statusInProgress = "INPROGRESS"
	statusCompleted  = "COMPLETED"
)

// maxReceipt bounds what is taken over of a response, in bytes.
const maxReceipt = 2048

// record is one row of the table; what cannot be read is zero.
type record struct {
	status     string
	expires    time.Time // expiration: seconds
	until      time.Time // in_progress_expiration: milliseconds
	receipt    string
	validation string
}

func (s *Store) decode(it awsread.Item) record {
	return record{
		status:     text(it[s.o.StatusAttr]),
		expires:    epoch(it[s.o.ExpiryAttr], time.Second),
		until:      epoch(it[s.o.InProgressExpiryAttr], time.Millisecond),
		receipt:    dlqbridge.CutText(s.receipt(it[s.o.DataAttr]), maxReceipt),
		validation: text(it[s.o.ValidationKeyAttr]),
	}
}

func text(v types.AttributeValue) string {
	if s, ok := v.(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

// epoch reads a time as a number of units since 1970; some versions of
// Powertools wrote fractions. What no calendar holds is zero.
func epoch(v types.AttributeValue, unit time.Duration) time.Time {
	n, ok := v.(*types.AttributeValueMemberN)
	if !ok {
		return time.Time{}
	}
	f, err := strconv.ParseFloat(n.Value, 64)
	ms := f * float64(unit/time.Millisecond)
	const year10000 = 253402300800000
	if err != nil || math.IsNaN(ms) || ms <= 0 || ms >= year10000 {
		return time.Time{}
	}
	return time.UnixMilli(int64(ms)).UTC()
}

// receipt is the handler's response, or what is selected from it. Python keeps
// it as JSON text, TypeScript as a value of the table.
func (s *Store) receipt(v types.AttributeValue) string {
	plain := awsread.Plain(v)
	if t, ok := plain.(string); ok && s.o.Runtime == Python {
		if err := json.Unmarshal([]byte(t), &plain); err != nil {
			plain = t
		}
	}
	if s.keys.receipt != nil {
		selected, err := search(s.keys.receipt, plain)
		if err != nil {
			return ""
		}
		plain = selected
	}
	switch plain.(type) {
	case map[string]any, []any:
		if b, err := json.Marshal(plain); err == nil {
			return string(b)
		}
	}
	return awsread.Text(plain)
}

// testify says what a record proves; validation is the hash of this message's
// payload, empty if the worker validates nothing.
func (s *Store) testify(q dlqbridge.Question, r record, validation string) dlqbridge.Testimony {
	switch {
	case validation != r.validation && validation != "":
		return s.doubt(q, awsread.LastSign(q), "the key was used with another input: the validation hash differs")
	case validation != r.validation:
		return s.doubt(q, awsread.LastSign(q), "the record has a validation hash and no PayloadValidationJMESPath is set, so nobody can say whose input it is")
	case r.status == statusInProgress:
		t := s.doubt(q, awsread.LastSign(q, r.until), "INPROGRESS: begun, no end noted")
		t.RunningUntil = s.runningUntil(r, q.Now)
		return t
	case r.status != statusCompleted:
		return s.doubt(q, awsread.LastSign(q), fmt.Sprintf("status %q is not known", dlqbridge.CutText(r.status, 64)))
	case r.expires.IsZero():
		return s.doubt(q, awsread.LastSign(q), "COMPLETED, without a time it expires at")
	case q.Now.After(r.expires):
		detail := "COMPLETED, expired " + dlqbridge.FormatTime(r.expires) + ", so it may be of an earlier operation"
		if r.receipt != "" {
			detail += "; its response: " + r.receipt
		}
		return s.doubt(q, r.expires, detail)
	}
	f := dlqbridge.Finding{
		Store: s.o.Name, Step: s.o.Step, State: dlqbridge.EffectConfirmed, Proof: dlqbridge.ProofReceipt,
		AsOf: q.Now, Detail: statusCompleted,
	}
	if r.receipt != "" {
		f.Receipt = &r.receipt
	}
	return dlqbridge.Testimony{Findings: s.withOthers(q, f)}
}

// runningUntil is when the run that wrote INPROGRESS is over at the latest. No
// run is longer than MaxRun, so a time further off is somebody's mistake.
func (s *Store) runningUntil(r record, now time.Time) time.Time {
	until := r.until
	if until.IsZero() && !r.expires.IsZero() {
		until = r.expires.Add(s.o.MaxRun - s.o.ExpiresAfter) // written, and MaxRun later
	}
	if until.IsZero() || until.After(now.Add(s.o.MaxRun)) {
		return now.Add(s.o.MaxRun)
	}
	return until
}

// silence: nothing was found, which proves nothing.
func (s *Store) silence(q dlqbridge.Question, detail string) dlqbridge.Testimony {
	return dlqbridge.Testimony{Findings: []dlqbridge.Finding{{
		Store: s.o.Name, Step: dlqbridge.AllSteps, State: dlqbridge.EffectUnknown, Proof: dlqbridge.ProofNothingFound,
		AsOf: q.Now, Detail: detail,
	}}}
}

// doubt: something was found that may be an effect. For the whole task it must
// not look like silence, which another store's proof may fill.
func (s *Store) doubt(q dlqbridge.Question, asOf time.Time, detail string) dlqbridge.Testimony {
	f := dlqbridge.Finding{
		Store: s.o.Name, Step: s.o.Step, State: dlqbridge.EffectUnknown, Proof: dlqbridge.ProofNothingFound, AsOf: asOf, Detail: detail,
	}
	if f.Step == dlqbridge.AllSteps {
		f.Proof = dlqbridge.ProofSystemRead
	}
	return dlqbridge.Testimony{Findings: s.withOthers(q, f)}
}

// withOthers adds that nothing is known of the steps that f does not name.
func (s *Store) withOthers(q dlqbridge.Question, f dlqbridge.Finding) []dlqbridge.Finding {
	if f.Step == dlqbridge.AllSteps {
		return []dlqbridge.Finding{f}
	}
	return append([]dlqbridge.Finding{f}, s.silence(q, "the table knows this one step only").Findings...)
}
