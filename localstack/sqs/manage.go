package sqs

import (
	"context"
	"encoding/base64"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dlqbridge/dlqbridge/localstack/wire"
)

type nothing struct{}

type queueRef struct {
	QueueUrl string
}

// nameRule is the page "CreateQueue": up to 80 letters, digits, hyphens and
// underscores; the suffix of a FIFO queue counts.
var nameRule = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)

const fifoSuffix = ".fifo"

func checkName(name string, fifo bool) error {
	stem, suffixed := strings.CutSuffix(name, fifoSuffix)
	switch {
	case fifo && (!suffixed || !nameRule.MatchString(stem) || len(name) > 80):
		return badValue("The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, must end with .fifo suffix and be 1 to 80 in length.")
	case !fifo && !nameRule.MatchString(name):
		return badValue("Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length.")
	}
	return nil
}

type createQueueIn struct {
	QueueName  string
	Attributes map[string]string
	Tags       map[string]string `json:"tags"`
}

// quarantine is how long a deleted queue's name stays taken (page "DeleteQueue").
const quarantine = 60 * time.Second

func (s *Service) createQueue(ctx context.Context, in *createQueueIn) (*queueRef, error) {
	if in.QueueName == "" {
		return nil, missing("QueueName")
	}
	fifo := in.Attributes["FifoQueue"] == "true"
	if err := checkName(in.QueueName, fifo); err != nil {
		return nil, err
	}
	if err := checkTags(in.Tags); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	base := defaults()
	base.fifo = fifo
	if q, exists := s.queues[in.QueueName]; exists {
		return s.createAgain(ctx, q, in)
	}
	if d, recently := s.deleted[in.QueueName]; recently && now.Before(d.at.Add(quarantine)) {
		return nil, refuse("QueueDeletedRecently", "You must wait 60 seconds after deleting a queue before you can create another with the same name.")
	}
	next, err := s.change(base, in.QueueName, in.Attributes)
	if err != nil {
		return nil, err
	}
	q := newQueue(in.QueueName, next, now)
	maps.Copy(q.tags, in.Tags)
	s.queues[in.QueueName] = q
	delete(s.deleted, in.QueueName)
	return &queueRef{urlOf(ctx, in.QueueName)}, nil
}

// createAgain answers for a queue that exists: fine with the same attribute
// values, refused with others (page "CreateQueue").
func (s *Service) createAgain(ctx context.Context, q *queue, in *createQueueIn) (*queueRef, error) {
	if _, err := s.change(q.settings, q.name, in.Attributes); err != nil {
		return nil, err
	}
	current := q.attributes()
	for _, name := range slices.Sorted(maps.Keys(in.Attributes)) {
		if current[name] != in.Attributes[name] {
			return nil, refuse("QueueNameExists", "A queue already exists with the same name and a different value for attribute %s", name)
		}
	}
	return &queueRef{urlOf(ctx, q.name)}, nil
}

type deletion struct{ at time.Time }

func (s *Service) deleteQueue(_ context.Context, in *queueRef) (*nothing, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.find(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	q.removed = true
	delete(s.queues, q.name)
	s.deleted[q.name] = deletion{s.clock.Now()}
	q.notify()      // waiting receives learn that the queue is gone
	return nil, nil //nolint:nilnil // the action has no answer
}

type getQueueURLIn struct {
	QueueName              string
	QueueOwnerAWSAccountId string
}

func (s *Service) getQueueURL(ctx context.Context, in *getQueueURLIn) (*queueRef, error) {
	if in.QueueName == "" {
		return nil, missing("QueueName")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, exists := s.queues[in.QueueName]
	if !exists || (in.QueueOwnerAWSAccountId != "" && in.QueueOwnerAWSAccountId != wire.Account) {
		return nil, noSuchQueue()
	}
	return &queueRef{urlOf(ctx, in.QueueName)}, nil
}

type getQueueAttributesIn struct {
	QueueUrl       string
	AttributeNames []string
}

type attributesOut struct {
	Attributes map[string]string `json:",omitempty"`
}

// known are the attribute names one may ask for (page "GetQueueAttributes").
var known = map[string]bool{
	"All": true, "Policy": true, "VisibilityTimeout": true, "MaximumMessageSize": true, "MessageRetentionPeriod": true,
	"ApproximateNumberOfMessages": true, "ApproximateNumberOfMessagesNotVisible": true, "CreatedTimestamp": true,
	"LastModifiedTimestamp": true, "QueueArn": true, "ApproximateNumberOfMessagesDelayed": true, "DelaySeconds": true,
	"ReceiveMessageWaitTimeSeconds": true, "RedrivePolicy": true, "FifoQueue": true, "ContentBasedDeduplication": true,
	"KmsMasterKeyId": true, "KmsDataKeyReusePeriodSeconds": true, "DeduplicationScope": true, "FifoThroughputLimit": true,
	"RedriveAllowPolicy": true, "SqsManagedSseEnabled": true,
}

func (s *Service) getQueueAttributes(_ context.Context, in *getQueueAttributesIn) (*attributesOut, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.find(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	for _, name := range in.AttributeNames {
		if !known[name] {
			return nil, refuse("InvalidAttributeName", "Unknown Attribute %s.", name)
		}
	}
	q.tick(s, s.clock.Now())
	all := q.attributes()
	all["QueueArn"] = q.arn()
	all["CreatedTimestamp"] = strconv.FormatInt(q.created.Unix(), 10)
	all["LastModifiedTimestamp"] = strconv.FormatInt(q.modified.Unix(), 10)
	all["ApproximateNumberOfMessages"] = strconv.Itoa(q.counts[ready])
	all["ApproximateNumberOfMessagesNotVisible"] = strconv.Itoa(q.counts[inFlight])
	all["ApproximateNumberOfMessagesDelayed"] = strconv.Itoa(q.counts[delayed])
	if !slices.Contains(in.AttributeNames, "All") {
		maps.DeleteFunc(all, func(name, _ string) bool { return !slices.Contains(in.AttributeNames, name) })
	}
	return &attributesOut{all}, nil
}

type setQueueAttributesIn struct {
	QueueUrl   string
	Attributes map[string]string
}

func (s *Service) setQueueAttributes(_ context.Context, in *setQueueAttributesIn) (*nothing, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.find(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	if len(in.Attributes) == 0 {
		return nil, missing("Attribute.Name")
	}
	now := s.clock.Now()
	q.tick(s, now)
	next, err := s.change(q.settings, q.name, in.Attributes)
	if err != nil {
		return nil, err
	}
	redelay := q.fifo && next.delay != q.delay
	q.settings = next
	q.modified = now
	if redelay {
		q.redelay()
	}
	q.notify()
	return nil, nil //nolint:nilnil // the action has no answer
}

type listQueuesIn struct {
	QueueNamePrefix string
	MaxResults      *int
	NextToken       string
}

type listQueuesOut struct {
	QueueUrls []string `json:",omitempty"`
	NextToken string   `json:",omitempty"`
}

func (s *Service) listQueues(ctx context.Context, in *listQueuesIn) (*listQueuesOut, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name := range s.queues {
		if strings.HasPrefix(name, in.QueueNamePrefix) {
			names = append(names, name)
		}
	}
	urls, next, err := page(ctx, names, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	return &listQueuesOut{urls, next}, nil
}

type listSourcesIn struct {
	QueueUrl   string
	MaxResults *int
	NextToken  string
}

type listSourcesOut struct {
	// The one member of the API that begins with a small letter.
	QueueUrls []string `json:"queueUrls"`
	NextToken string   `json:",omitempty"`
}

func (s *Service) listDeadLetterSourceQueues(ctx context.Context, in *listSourcesIn) (*listSourcesOut, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.find(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	var names []string
	for name, source := range s.queues {
		if source.redrive != nil && source.redrive.target == q.arn() {
			names = append(names, name)
		}
	}
	urls, next, err := page(ctx, names, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	return &listSourcesOut{append([]string{}, urls...), next}, nil
}

// maxResults is the largest page of a list, and its size when none is asked for.
const maxResults = 1000

// page cuts a list of names into pages; the token is the last name given.
func page(ctx context.Context, names []string, limit *int, token string) (urls []string, next string, err error) {
	size := maxResults
	if limit != nil {
		size = *limit
	}
	if size < 1 || size > maxResults {
		return nil, "", badParameter(size, "MaxResults", "Must be between 1 and %d.", maxResults)
	}
	after, err := base64.StdEncoding.DecodeString(token)
	if err != nil {
		return nil, "", badValue("Invalid or expired next token.")
	}
	slices.Sort(names)
	for i, name := range names {
		if token != "" && name <= string(after) {
			continue
		}
		if len(urls) == size {
			// Without a limit in the request there are no further pages.
			if limit == nil {
				return urls, "", nil
			}
			return urls, base64.StdEncoding.EncodeToString([]byte(names[i-1])), nil
		}
		urls = append(urls, urlOf(ctx, name))
	}
	return urls, "", nil
}

func (s *Service) purgeQueue(_ context.Context, in *queueRef) (*nothing, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.find(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	now := s.clock.Now()
	if !q.purged.IsZero() && now.Before(q.purged.Add(60*time.Second)) {
		return nil, refuse("PurgeQueueInProgress", "Only one PurgeQueue operation on %s is allowed every 60 seconds.", q.name)
	}
	q.purged = now
	for _, m := range q.byID {
		q.remove(m)
	}
	return nil, nil //nolint:nilnil // the action has no answer
}

type tagQueueIn struct {
	QueueUrl string
	Tags     map[string]string
}

// checkTags is the page "Amazon SQS queue quotas", tags.
func checkTags(tags map[string]string) error {
	for key, value := range tags {
		switch {
		case key == "" || len([]rune(key)) > 128:
			return badValue("Tag keys must be between 1 and 128 characters in length.")
		case len([]rune(value)) > 256:
			return badValue("Tag values must be between 0 and 256 characters in length.")
		case strings.HasPrefix(strings.ToLower(key), "aws:"):
			return badValue("Tag keys cannot start with the reserved prefix aws:.")
		}
	}
	return nil
}

func (s *Service) tagQueue(_ context.Context, in *tagQueueIn) (*nothing, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.find(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	if len(in.Tags) == 0 {
		return nil, missing("Tags")
	}
	if err := checkTags(in.Tags); err != nil {
		return nil, err
	}
	maps.Copy(q.tags, in.Tags)
	return nil, nil //nolint:nilnil // the action has no answer
}

type untagQueueIn struct {
	QueueUrl string
	TagKeys  []string
}

func (s *Service) untagQueue(_ context.Context, in *untagQueueIn) (*nothing, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.find(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	if len(in.TagKeys) == 0 {
		return nil, missing("TagKeys")
	}
	for _, key := range in.TagKeys {
		delete(q.tags, key)
	}
	return nil, nil //nolint:nilnil // the action has no answer
}

type listQueueTagsOut struct {
	Tags map[string]string `json:",omitempty"`
}

func (s *Service) listQueueTags(_ context.Context, in *queueRef) (*listQueueTagsOut, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.find(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	return &listQueueTagsOut{maps.Clone(q.tags)}, nil
}
