package dynamodb

import (
	"maps"
	"slices"
)

type tagResourceInput struct {
	ResourceArn string
	Tags        []tag
}

type untagResourceInput struct {
	ResourceArn string
	TagKeys     []string
}

type listTagsInput struct{ ResourceArn, NextToken string }

type listTagsOutput struct{ Tags []tag }

type nothing struct{}

// tagged finds the table that an ARN names.
func (s *Service) tagged(arn string) (*table, error) {
	if arn == "" {
		return nil, required("resourceArn")
	}
	t := s.lookup(arn)
	if t == nil || t.arn() != arn {
		refusal := noTable()
		refusal.Message = "Requested resource not found: ResourcArn: " + arn + " not found"
		return nil, refusal
	}
	return t, nil
}

func (s *Service) tagResource(in *tagResourceInput) (nothing, error) {
	t, err := s.tagged(in.ResourceArn)
	if err != nil {
		return nothing{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, tag := range in.Tags {
		t.tags[tag.Key] = tag.Value
	}
	return nothing{}, nil
}

func (s *Service) untagResource(in *untagResourceInput) (nothing, error) {
	t, err := s.tagged(in.ResourceArn)
	if err != nil {
		return nothing{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range in.TagKeys {
		delete(t.tags, key)
	}
	return nothing{}, nil
}

func (s *Service) listTags(in *listTagsInput) (*listTagsOutput, error) {
	t, err := s.tagged(in.ResourceArn)
	if err != nil {
		return nil, err
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := &listTagsOutput{Tags: []tag{}}
	for _, key := range slices.Sorted(maps.Keys(t.tags)) {
		out.Tags = append(out.Tags, tag{key, t.tags[key]})
	}
	return out, nil
}
