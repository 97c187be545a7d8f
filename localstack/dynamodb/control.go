package dynamodb

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// control carries out a call on tables: rare enough for the standard codec.
// Members that the local cloud does not know are refused.
func control[In, Out any](body []byte, call func(*In) (Out, error)) ([]byte, error) {
	var in In
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			return nil, notServed("the parameter " + strings.Trim(name, `"`) + " of this operation")
		}
		return nil, malformed("%s", err)
	}
	out, err := call(&in)
	if err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

type createTableInput struct {
	TableName                 string
	AttributeDefinitions      []attributeDefinition
	KeySchema                 []keySchemaElement
	GlobalSecondaryIndexes    []indexDefinition
	LocalSecondaryIndexes     []indexDefinition
	BillingMode               string
	ProvisionedThroughput     *throughput
	TableClass                string
	DeletionProtectionEnabled bool
	Tags                      []tag
	StreamSpecification       *struct{ StreamEnabled bool }
}

type indexDescription struct {
	indexDefinition
	IndexStatus    string `json:",omitempty"`
	IndexArn       string
	IndexSizeBytes int
	ItemCount      int
}

type tableDescription struct {
	TableName                 string
	TableArn                  string
	TableId                   string
	TableStatus               string
	CreationDateTime          float64
	AttributeDefinitions      []attributeDefinition
	KeySchema                 []keySchemaElement
	ItemCount                 int
	TableSizeBytes            int
	ProvisionedThroughput     throughputDescription
	BillingModeSummary        *billingModeSummary `json:",omitempty"`
	TableClassSummary         *tableClassSummary  `json:",omitempty"`
	GlobalSecondaryIndexes    []indexDescription  `json:",omitempty"`
	LocalSecondaryIndexes     []indexDescription  `json:",omitempty"`
	DeletionProtectionEnabled bool
}

type (
	billingModeSummary    struct{ BillingMode string }
	throughputDescription struct{ NumberOfDecreasesToday, ReadCapacityUnits, WriteCapacityUnits int64 }
	tableClassSummary     struct{ TableClass string }
	tableName             struct{ TableName string }
	described             struct{ TableDescription *tableDescription }
)

func (s *Service) createTable(in *createTableInput) (*described, error) {
	if err := checkTableName(in.TableName); err != nil {
		return nil, err
	}
	if in.StreamSpecification != nil && in.StreamSpecification.StreamEnabled {
		return nil, notServed("streams")
	}
	t, err := newTable(in)
	if err != nil {
		return nil, err
	}
	t.created = s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tables[in.TableName] != nil {
		return nil, inUse("Table already exists: " + in.TableName)
	}
	s.tables[in.TableName] = t
	// The service answers CREATING; here the table is ready at once, so the
	// first DescribeTable of a waiter says ACTIVE.
	return &described{t.describe("CREATING")}, nil
}

// newTable checks a definition and makes an empty table of it.
func newTable(in *createTableInput) (*table, error) {
	if err := checkThroughput(in); err != nil {
		return nil, err
	}
	for _, d := range in.AttributeDefinitions {
		if err := checkChoice("attributeDefinitions.member.attributeType", d.AttributeType, []string{"B", "N", "S"}); err != nil {
			return nil, err
		}
	}
	keys, err := schemaOf(in.KeySchema, in.AttributeDefinitions)
	if err != nil {
		return nil, err
	}
	t := &table{
		definition: definition{
			TableName: in.TableName, KeySchema: in.KeySchema, id: newID(), keys: keys,
		},
		settings: settings{
			attributes: in.AttributeDefinitions, billing: in.BillingMode, throughput: in.ProvisionedThroughput,
			class: in.TableClass, protected: in.DeletionProtectionEnabled,
		},
		tags: map[string]string{},
	}
	for _, tag := range in.Tags {
		t.tags[tag.Key] = tag.Value
	}
	if t.indexes, err = newIndexes(in, keys); err != nil {
		return nil, err
	}
	return t, t.checkDefinitions()
}

func checkThroughput(in *createTableInput) error {
	if err := checkChoice("billingMode", in.BillingMode, []string{"PROVISIONED", "PAY_PER_REQUEST"}); err != nil {
		return err
	}
	switch {
	case in.BillingMode == "PAY_PER_REQUEST" && in.ProvisionedThroughput != nil:
		return invalidParameter("Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST")
	case in.BillingMode != "PAY_PER_REQUEST" && in.ProvisionedThroughput == nil:
		return invalidParameter("ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is PROVISIONED")
	}
	return nil
}

// maxGlobal and maxLocal bound the indexes of a table (Developer Guide, "Quotas").
const (
	maxGlobal = 20
	maxLocal  = 5
)

func newIndexes(in *createTableInput, keys schema) ([]*index, error) {
	switch {
	case in.GlobalSecondaryIndexes != nil && len(in.GlobalSecondaryIndexes) == 0:
		return nil, invalidParameter("List of GlobalSecondaryIndexes is empty")
	case in.LocalSecondaryIndexes != nil && len(in.LocalSecondaryIndexes) == 0:
		return nil, invalidParameter("List of LocalSecondaryIndexes is empty")
	case len(in.GlobalSecondaryIndexes) > maxGlobal:
		return nil, invalidParameter("GlobalSecondaryIndex count exceeds the per-table limit of %d", maxGlobal)
	case len(in.LocalSecondaryIndexes) > maxLocal:
		return nil, invalidParameter("Number of LocalSecondaryIndexes exceeds per-table limit of %d", maxLocal)
	case len(in.LocalSecondaryIndexes) > 0 && keys.sort.name == "":
		return nil, invalidParameter("Table KeySchema does not have a range key, which is required when specifying a LocalSecondaryIndex")
	}
	var indexes []*index
	seen := map[string]bool{}
	for at, d := range slices.Concat(in.GlobalSecondaryIndexes, in.LocalSecondaryIndexes) {
		d.local = at >= len(in.GlobalSecondaryIndexes)
		if seen[d.IndexName] {
			return nil, invalidParameter("Duplicate index name: %s", d.IndexName)
		}
		seen[d.IndexName] = true
		i, err := newIndex(d, keys, in.AttributeDefinitions)
		if err != nil {
			return nil, err
		}
		indexes = append(indexes, i)
	}
	return indexes, nil
}

// checkDefinitions refuses attribute definitions that no key uses.
func (t *table) checkDefinitions() error {
	used := map[string]bool{}
	for _, part := range t.keys.parts() {
		used[part.name] = true
	}
	for _, i := range t.indexes {
		for _, part := range i.keys.parts() {
			used[part.name] = true
		}
	}
	if len(used) != len(t.attributes) {
		return invalidParameter("Number of attributes in KeySchema does not exactly match number of attributes defined in AttributeDefinitions")
	}
	return nil
}

// newID is a random identifier in the usual form.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, says crypto/rand
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// describe is the table as DescribeTable shows it. The caller holds the lock
// or is the only one who knows the table.
func (t *table) describe(status string) *tableDescription {
	d := &tableDescription{
		TableName: t.TableName, TableArn: t.arn(), TableId: t.id, TableStatus: status,
		CreationDateTime:     seconds(t.created),
		AttributeDefinitions: t.attributes, KeySchema: t.KeySchema,
		ItemCount: t.rows.count, TableSizeBytes: t.rows.bytes,
		DeletionProtectionEnabled: t.protected,
	}
	if t.throughput != nil {
		d.ProvisionedThroughput = throughputDescription{0, t.throughput.ReadCapacityUnits, t.throughput.WriteCapacityUnits}
	}
	if t.billing != "" {
		d.BillingModeSummary = &billingModeSummary{t.billing}
	}
	if t.class != "" {
		d.TableClassSummary = &tableClassSummary{t.class}
	}
	for _, i := range t.indexes {
		shown := indexDescription{
			indexDefinition: i.indexDefinition, IndexArn: t.arn() + "/index/" + i.IndexName,
			IndexSizeBytes: i.rows.bytes, ItemCount: i.rows.count,
		}
		if i.local {
			d.LocalSecondaryIndexes = append(d.LocalSecondaryIndexes, shown)
			continue
		}
		shown.IndexStatus = status
		d.GlobalSecondaryIndexes = append(d.GlobalSecondaryIndexes, shown)
	}
	return d
}

// named finds a table for a table call.
func (s *Service) named(name string) (*table, error) {
	if err := checkTableName(name); err != nil {
		return nil, err
	}
	t := s.lookup(name)
	if t == nil {
		return nil, noNamedTable(name)
	}
	s.sweep(t)
	return t, nil
}

func (s *Service) describeTable(in *tableName) (map[string]*tableDescription, error) {
	t, err := s.named(in.TableName)
	if err != nil {
		return nil, err
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return map[string]*tableDescription{"Table": t.describe("ACTIVE")}, nil
}

func (s *Service) deleteTable(in *tableName) (*described, error) {
	t, err := s.named(in.TableName)
	if err != nil {
		return nil, err
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.protected {
		return nil, invalid("Resource cannot be deleted as it is currently protected against deletion. Disable deletion protection first.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tables[t.TableName] != t {
		return nil, noNamedTable(in.TableName)
	}
	delete(s.tables, t.TableName)
	return &described{t.describe("DELETING")}, nil
}

type listTablesInput struct {
	ExclusiveStartTableName string
	Limit                   *int
}

type listTablesOutput struct {
	TableNames             []string
	LastEvaluatedTableName string `json:",omitempty"`
}

func (s *Service) listTables(in *listTablesInput) (*listTablesOutput, error) {
	limit := 100 // API Reference, ListTables: default and maximum
	if in.Limit != nil {
		limit = *in.Limit
		switch {
		case limit < 1:
			return nil, constraint(strconv.Itoa(limit), "limit", "Member must have value greater than or equal to 1")
		case limit > 100:
			return nil, constraint(strconv.Itoa(limit), "limit", "Member must have value less than or equal to 100")
		}
	}
	s.mu.RLock()
	names := slices.Sorted(maps.Keys(s.tables))
	s.mu.RUnlock()
	from, found := slices.BinarySearch(names, in.ExclusiveStartTableName)
	if found {
		from++
	}
	names = names[from:]
	out := &listTablesOutput{TableNames: append([]string{}, names...)} // never null
	if len(names) > limit {
		out.TableNames, out.LastEvaluatedTableName = names[:limit], names[limit-1]
	}
	return out, nil
}
