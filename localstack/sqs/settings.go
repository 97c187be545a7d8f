package sqs

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// settings are a queue's attributes that its owner sets.
type settings struct {
	visibility int // seconds, as all durations here
	retention  int
	delay      int
	wait       int
	maxSize    int // bytes

	policy      string // kept and given back, not enforced
	redrive     *redrivePolicy
	allow       *allowPolicy
	managedSSE  string
	fifo        bool
	contentBase bool
	scope       string
	throughput  string
}

// redrivePolicy is where messages go that nobody could handle.
type redrivePolicy struct {
	target string
	max    int
	text   string // as it was set
}

// allowPolicy says which queues may use this one as their dead-letter queue.
type allowPolicy struct {
	permission string
	sources    []string
	text       string
}

// maxMessageBytes is the largest message, and the largest batch: 1 MiB since
// August 2025 (page "Amazon SQS message quotas").
const maxMessageBytes = 1_048_576

// maxVisibility is twelve hours (page "Amazon SQS visibility timeout").
const maxVisibility = 43_200

const (
	scopeQueue = "queue"
	scopeGroup = "messageGroup"
	perQueue   = "perQueue"
	perGroup   = "perMessageGroupId"
)

// defaults are those of the page "CreateQueue".
func defaults() settings {
	return settings{
		visibility: 30, retention: 345_600, maxSize: maxMessageBytes, managedSSE: "true",
		scope: scopeQueue, throughput: perQueue,
	}
}

// number describes an attribute that is a whole number.
type number struct {
	least, most int
	place       func(*settings) *int
}

var numbers = map[string]number{
	"DelaySeconds":                  {0, 900, func(s *settings) *int { return &s.delay }},
	"MaximumMessageSize":            {1024, maxMessageBytes, func(s *settings) *int { return &s.maxSize }},
	"MessageRetentionPeriod":        {60, 1_209_600, func(s *settings) *int { return &s.retention }},
	"ReceiveMessageWaitTimeSeconds": {0, 20, func(s *settings) *int { return &s.wait }},
	"VisibilityTimeout":             {0, maxVisibility, func(s *settings) *int { return &s.visibility }},
}

// fifoOnly are the attributes a standard queue does not know.
var fifoOnly = map[string]bool{
	"FifoQueue": true, "ContentBasedDeduplication": true, "DeduplicationScope": true, "FifoThroughputLimit": true,
}

// change applies attributes to the settings of the queue called name. The
// settings are unchanged if it refuses.
func (s *Service) change(old settings, name string, attributes map[string]string) (settings, error) {
	next := old
	// In the order of their names, so that the same mistake always gets the
	// same answer.
	for _, attribute := range slices.Sorted(maps.Keys(attributes)) {
		if err := s.set(&next, attribute, attributes[attribute]); err != nil {
			return old, err
		}
	}
	// Page "High throughput for FIFO queues": the per-group limit needs the
	// per-group scope.
	if next.throughput == perGroup && next.scope != scopeGroup {
		return old, badValue("The perMessageGroupId value for FifoThroughputLimit requires the messageGroup value for DeduplicationScope.")
	}
	if _, set := attributes["RedrivePolicy"]; set && next.redrive != nil {
		if err := s.checkTarget(next, name); err != nil {
			return old, err
		}
	}
	return next, nil
}

func (s *Service) set(next *settings, attribute, value string) error {
	if fifoOnly[attribute] && !next.fifo {
		return refuse("InvalidAttributeName", "Unknown Attribute %s.", attribute)
	}
	if n, isNumber := numbers[attribute]; isNumber {
		v, err := strconv.Atoi(value)
		if err != nil || v < n.least || v > n.most {
			return refuse("InvalidAttributeValue", "Invalid value for the parameter %s.", attribute)
		}
		*n.place(next) = v
		return nil
	}
	invalid := refuse("InvalidAttributeValue", "Invalid value for the parameter %s.", attribute)
	switch attribute {
	case "FifoQueue":
		// The kind of a queue is for ever; setting it to what it is does no harm.
		if value != "true" {
			return invalid
		}
	case "ContentBasedDeduplication":
		if value != "true" && value != "false" {
			return invalid
		}
		next.contentBase = value == "true"
	case "DeduplicationScope":
		if value != scopeQueue && value != scopeGroup {
			return invalid
		}
		next.scope = value
	case "FifoThroughputLimit":
		if value != perQueue && value != perGroup {
			return invalid
		}
		next.throughput = value
	case "SqsManagedSseEnabled":
		if value != "true" && value != "false" {
			return invalid
		}
		next.managedSSE = value
	case "Policy":
		if value != "" && !json.Valid([]byte(value)) {
			return invalid
		}
		next.policy = value
	case "RedrivePolicy":
		p, err := parseRedrive(value)
		if err != nil {
			return err
		}
		next.redrive = p
	case "RedriveAllowPolicy":
		p, err := parseAllow(value)
		if err != nil {
			return err
		}
		next.allow = p
	case "KmsMasterKeyId", "KmsDataKeyReusePeriodSeconds":
		if value == "" {
			return nil
		}
		return refuse("UnsupportedOperation", "The local cloud has no KMS, so it cannot set %s.", attribute)
	default:
		return refuse("InvalidAttributeName", "Unknown Attribute %s.", attribute)
	}
	return nil
}

// maxReceives bounds maxReceiveCount (page "Configure a dead-letter queue").
const maxReceives = 1000

func parseRedrive(text string) (*redrivePolicy, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // an empty policy takes the policy away
	}
	var raw struct {
		Target *string         `json:"deadLetterTargetArn"`
		Max    json.RawMessage `json:"maxReceiveCount"`
	}
	if err := strictJSON(text, &raw); err != nil {
		return nil, badParameter(text, "RedrivePolicy", "Redrive policy is not a valid JSON map.")
	}
	if raw.Target == nil {
		return nil, badParameter(text, "RedrivePolicy", "Redrive policy does not contain mandatory attribute: deadLetterTargetArn.")
	}
	if raw.Max == nil {
		return nil, badParameter(text, "RedrivePolicy", "Redrive policy does not contain mandatory attribute: maxReceiveCount.")
	}
	// The service takes the count as a number and as a string.
	most, err := strconv.Atoi(strings.Trim(string(raw.Max), `"`))
	if err != nil || most < 1 || most > maxReceives {
		return nil, badParameter(text, "RedrivePolicy", "Invalid value for maxReceiveCount: %s, valid values are from 1 to %d both inclusive.", raw.Max, maxReceives)
	}
	return &redrivePolicy{target: *raw.Target, max: most, text: text}, nil
}

func parseAllow(text string) (*allowPolicy, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // an empty policy takes the policy away
	}
	var raw struct {
		Permission string   `json:"redrivePermission"`
		Sources    []string `json:"sourceQueueArns"`
	}
	if err := strictJSON(text, &raw); err != nil {
		return nil, badParameter(text, "RedriveAllowPolicy", "Redrive allow policy is not a valid JSON map.")
	}
	switch {
	case raw.Permission != "allowAll" && raw.Permission != "denyAll" && raw.Permission != "byQueue":
		return nil, badParameter(text, "RedriveAllowPolicy", "redrivePermission must be allowAll, denyAll or byQueue.")
	case raw.Permission == "byQueue" && (len(raw.Sources) == 0 || len(raw.Sources) > 10):
		return nil, badParameter(text, "RedriveAllowPolicy", "byQueue needs 1 to 10 sourceQueueArns.")
	case raw.Permission != "byQueue" && len(raw.Sources) > 0:
		return nil, badParameter(text, "RedriveAllowPolicy", "sourceQueueArns needs the permission byQueue.")
	}
	return &allowPolicy{permission: raw.Permission, sources: raw.Sources, text: text}, nil
}

func strictJSON(text string, into any) error {
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if decoder.More() {
		return errors.New("more than one value")
	}
	return nil
}

// checkTarget refuses a dead-letter queue that is not there, is of the other
// kind or does not want this source (page "CreateQueue", RedrivePolicy).
func (s *Service) checkTarget(source settings, name string) error {
	policy := source.redrive
	target := s.byARN(policy.target)
	if target == nil {
		return badParameter(policy.text, "RedrivePolicy", "Dead letter target does not exist.")
	}
	if target.fifo != source.fifo {
		return badParameter(policy.text, "RedrivePolicy", "Dead-letter queue must be same type of queue as the source.")
	}
	if !target.allows(arnPrefix + name) {
		return badParameter(policy.text, "RedrivePolicy", "The dead-letter queue's RedriveAllowPolicy does not allow this source queue.")
	}
	return nil
}

func (q *queue) allows(sourceARN string) bool {
	if q.allow == nil || q.allow.permission == "allowAll" {
		return true
	}
	return q.allow.permission == "byQueue" && slices.Contains(q.allow.sources, sourceARN)
}

// attributes gives the settings under their public names.
func (s settings) attributes() map[string]string {
	all := map[string]string{"SqsManagedSseEnabled": s.managedSSE}
	for name, n := range numbers {
		all[name] = strconv.Itoa(*n.place(&s))
	}
	if s.policy != "" {
		all["Policy"] = s.policy
	}
	if s.redrive != nil {
		all["RedrivePolicy"] = s.redrive.text
	}
	if s.allow != nil {
		all["RedriveAllowPolicy"] = s.allow.text
	}
	if s.fifo {
		all["FifoQueue"] = "true"
		all["ContentBasedDeduplication"] = strconv.FormatBool(s.contentBase)
		all["DeduplicationScope"] = s.scope
		all["FifoThroughputLimit"] = s.throughput
	}
	return all
}
