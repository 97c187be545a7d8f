package dynamodb

import "slices"

type indexUpdate struct {
	Create *indexDefinition
	Update *struct {
		IndexName             string
		ProvisionedThroughput *throughput
	}
	Delete *struct{ IndexName string }
}

type updateTableInput struct {
	TableName                   string
	AttributeDefinitions        []attributeDefinition
	BillingMode                 string
	ProvisionedThroughput       *throughput
	TableClass                  string
	DeletionProtectionEnabled   *bool
	GlobalSecondaryIndexUpdates []indexUpdate
}

// updateTable changes settings, and adds or removes one index. A new index is
// filled before the call returns.
func (s *Service) updateTable(in *updateTableInput) (*described, error) {
	t, err := s.named(in.TableName)
	if err != nil {
		return nil, err
	}
	if err := checkChoice("billingMode", in.BillingMode, []string{"PROVISIONED", "PAY_PER_REQUEST"}); err != nil {
		return nil, err
	}
	if in.BillingMode == "" && in.ProvisionedThroughput == nil && in.TableClass == "" && in.DeletionProtectionEnabled == nil && len(in.GlobalSecondaryIndexUpdates) == 0 {
		return nil, invalid("At least one of ProvisionedThroughput, BillingMode, UpdateStreamEnabled, GlobalSecondaryIndexUpdates or SSESpecification or ReplicaUpdates is required")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.updateIndexes(in); err != nil {
		return nil, err
	}
	if in.BillingMode != "" {
		t.billing = in.BillingMode
		if in.BillingMode == "PAY_PER_REQUEST" {
			t.throughput = nil
		}
	}
	if in.ProvisionedThroughput != nil {
		t.throughput = in.ProvisionedThroughput
	}
	if in.TableClass != "" {
		t.class = in.TableClass
	}
	if in.DeletionProtectionEnabled != nil {
		t.protected = *in.DeletionProtectionEnabled
	}
	return &described{t.describe("UPDATING")}, nil
}

// updateIndexes plans the change of indexes and then makes it. A call creates
// or deletes one index at most (API Reference, UpdateTable).
func (t *table) updateIndexes(in *updateTableInput) error {
	changed := 0
	indexes := slices.Clone(t.indexes)
	attributes := t.attributes
	for _, u := range in.GlobalSecondaryIndexUpdates {
		switch {
		case u.Create != nil:
			changed++
			attributes = mergeDefinitions(attributes, in.AttributeDefinitions)
			if named(indexes, u.Create.IndexName) >= 0 {
				return invalid("Attempting to create an index which already exists")
			}
			i, err := newIndex(*u.Create, t.keys, attributes)
			if err != nil {
				return err
			}
			if len(indexes) >= maxGlobal {
				return invalidParameter("GlobalSecondaryIndex count exceeds the per-table limit of %d", maxGlobal)
			}
			indexes = append(indexes, i)
		case u.Delete != nil:
			changed++
			at := named(indexes, u.Delete.IndexName)
			if at < 0 {
				refusal := noTable()
				refusal.Message = "Requested resource not found: Index: " + u.Delete.IndexName + " not found"
				return refusal
			}
			indexes = slices.Delete(indexes, at, at+1)
		case u.Update != nil:
			if named(indexes, u.Update.IndexName) < 0 {
				return invalid("This operation cannot be performed with given input values. Please contact DynamoDB service team for more info: Action Blocked: IndexUpdate")
			}
		}
	}
	if changed > 1 {
		refusal := inUse("Subscriber limit exceeded: Only 1 online index can be created or deleted simultaneously per table")
		refusal.Type = ownPrefix + "LimitExceededException"
		return refusal
	}
	t.fill(indexes)
	t.attributes = t.used(attributes, indexes)
	t.indexes = indexes
	return nil
}

// fill puts the table's items into the indexes that the table does not have
// yet. The caller holds the lock.
func (t *table) fill(indexes []*index) {
	for _, i := range indexes {
		if slices.Contains(t.indexes, i) {
			continue
		}
		for r := range t.rows.rows(span{}, false) {
			if e := i.entry(t, r); e != nil {
				i.rows.set(e)
			}
		}
	}
}

func named(indexes []*index, name string) int {
	return slices.IndexFunc(indexes, func(i *index) bool { return i.IndexName == name })
}

func mergeDefinitions(old, more []attributeDefinition) []attributeDefinition {
	all := slices.Clone(old)
	for _, d := range more {
		if !slices.ContainsFunc(all, func(o attributeDefinition) bool { return o.AttributeName == d.AttributeName }) {
			all = append(all, d)
		}
	}
	return all
}

// used are the definitions that a key still uses.
func (t *table) used(definitions []attributeDefinition, indexes []*index) []attributeDefinition {
	return slices.DeleteFunc(slices.Clone(definitions), func(d attributeDefinition) bool {
		return !t.keys.has(d.AttributeName) && !slices.ContainsFunc(indexes, func(i *index) bool { return i.keys.has(d.AttributeName) })
	})
}
