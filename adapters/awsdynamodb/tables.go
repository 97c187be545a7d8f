package awsdynamodb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awserr"
	"github.com/dlqbridge/dlqbridge/adapters/retry"
)

// TablesClient is the part of *dynamodb.Client that makes and inspects tables.
type TablesClient interface {
	CreateTable(context.Context, *dynamodb.CreateTableInput, ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error)
	DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error)
	UpdateTimeToLive(context.Context, *dynamodb.UpdateTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateTimeToLiveOutput, error)
	DescribeTimeToLive(context.Context, *dynamodb.DescribeTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error)
	UpdateContinuousBackups(context.Context, *dynamodb.UpdateContinuousBackupsInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateContinuousBackupsOutput, error)
	DescribeContinuousBackups(context.Context, *dynamodb.DescribeContinuousBackupsInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeContinuousBackupsOutput, error)
}

// TableNames are the tables of one installation. An empty name is left out.
type TableNames struct {
	Records, Payloads string
	// Ledger is the table in which agent workers note their steps.
	Ledger string
}

// TableProblem is one thing that is not as it should be.
type TableProblem struct {
	Table string
	// What is a sentence: what is wrong and what was expected.
	What string
	// Fatal: the program cannot work so. Otherwise it works but keeps less
	// than it promises.
	Fatal bool
}

// String is the problem for people.
func (p TableProblem) String() string { return "table " + p.Table + ": " + p.What }

// tableSpec is a table as it should be. All key attributes are texts (C67).
type tableSpec struct {
	name string
	// hash and rng are the key attributes.
	hash, rng string
	indexes   []indexSpec
	// expires: the table has a time to live in expires_at.
	expires bool
}

type indexSpec struct {
	name, hash, rng string
	projection      types.ProjectionType
}

// specs are the tables as they should be.
func (n TableNames) specs() []tableSpec {
	all := []tableSpec{
		{name: n.Records, hash: attrPK, rng: attrSK, expires: true, indexes: []indexSpec{
			// Lists show what stands in the control item, so it is all in the index.
			{indexWork, attrWorkPK, attrWorkSK, types.ProjectionTypeAll},
			// Its readers read the records anyway; so a move costs it nothing.
			{indexSignature, attrSigPK, attrSigSK, types.ProjectionTypeKeysOnly},
		}},
		{name: n.Payloads, hash: attrPK, rng: attrSK, expires: true},
		// Whether entries of the ledger ever go is for its workers' owners to say.
		{name: n.Ledger, hash: "task_id", rng: "entry"},
	}
	return slices.DeleteFunc(all, func(t tableSpec) bool { return t.name == "" })
}

// CreateTables makes the tables that are missing and waits until they can be
// used. Tables that exist with the right keys and indexes are fine; one with
// wrong ones is an error that says which. Time to live and point-in-time
// recovery are switched on; only an endpoint that does not know the latter is
// forgiven. It may be run again at any time.
func CreateTables(ctx context.Context, client TablesClient, names TableNames) error {
	for _, t := range names.specs() {
		if err := t.create(ctx, client); err != nil {
			return err
		}
	}
	return nil
}

// tableWait is how long a new table may take to become active; on-demand
// tables with two indexes take seconds.
const (
	tableWait = 5 * time.Minute
	tablePoll = 10 * time.Second
)

func (t tableSpec) create(ctx context.Context, client TablesClient) error {
	found, err := client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: aws.String(t.name)})
	switch err = awserr.Wrap(err); {
	case errors.Is(err, dlqbridge.ErrNotFound):
		_, err := client.CreateTable(ctx, t.input())
		if _, raced := errors.AsType[*types.ResourceInUseException](err); err != nil && !raced {
			return fail("CreateTable", t.name, "keys", err)
		}
	case err != nil:
		return fail("DescribeTable", t.name, "keys", err)
	default:
		if problems := t.compare(found.Table); len(problems) > 0 {
			return fmt.Errorf("%w: table %s exists but %s; use another name, or change or delete it yourself", dlqbridge.ErrInvalid, t.name, strings.Join(problems, "; "))
		}
	}
	waiter := dynamodb.NewTableExistsWaiter(client, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = time.Second, tablePoll // the SDK's own first wait is 20 s
	})
	// The answer is looked at again: a table somebody else made meanwhile may differ.
	ready, err := waiter.WaitForOutput(ctx, &dynamodb.DescribeTableInput{TableName: aws.String(t.name)}, tableWait)
	if err != nil {
		return fail("DescribeTable", t.name, "until it is active", err)
	}
	if problems := t.compare(ready.Table); len(problems) > 0 {
		return fmt.Errorf("%w: table %s exists but %s", dlqbridge.ErrInvalid, t.name, strings.Join(problems, "; "))
	}
	if t.expires {
		if err := t.expire(ctx, client); err != nil {
			return err
		}
	}
	return t.recover(ctx, client)
}

// expire switches time to live on, unless it is on.
func (t tableSpec) expire(ctx context.Context, client TablesClient) error {
	on, attribute, err := t.timeToLive(ctx, client)
	switch {
	case err != nil:
		return err
	case on && attribute != attrExpires:
		return fmt.Errorf("%w: table %s has its time to live in %s, want %s", dlqbridge.ErrInvalid, t.name, attribute, attrExpires)
	case on:
		return nil
	}
	_, err = client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName:               aws.String(t.name),
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(attrExpires), Enabled: aws.Bool(true)},
	})
	return fail("UpdateTimeToLive", t.name, attrExpires, err)
}

func (t tableSpec) timeToLive(ctx context.Context, client TablesClient) (on bool, attribute string, err error) {
	out, err := client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: aws.String(t.name)})
	if err != nil {
		return false, "", fail("DescribeTimeToLive", t.name, attrExpires, err)
	}
	d := out.TimeToLiveDescription
	if d == nil {
		return false, "", nil
	}
	on = d.TimeToLiveStatus == types.TimeToLiveStatusEnabled || d.TimeToLiveStatus == types.TimeToLiveStatusEnabling
	return on, aws.ToString(d.AttributeName), nil
}

// recover switches point-in-time recovery on. A table that was just made
// refuses it for some seconds.
func (t tableSpec) recover(ctx context.Context, client TablesClient) error {
	return retry.Do(ctx, retry.Policy{Repeatable: true}, func(ctx context.Context) error {
		_, err := client.UpdateContinuousBackups(ctx, &dynamodb.UpdateContinuousBackupsInput{
			TableName:                        aws.String(t.name),
			PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: aws.Bool(true)},
		})
		if unknownOperation(err) {
			return nil
		}
		if _, early := errors.AsType[*types.ContinuousBackupsUnavailableException](err); early {
			err = fmt.Errorf("%w: %w", dlqbridge.ErrThrottled, err)
		}
		return fail("UpdateContinuousBackups", t.name, "point-in-time recovery", err)
	})
}

// unknownOperation recognises an endpoint, such as an emulator, that does not
// serve the operation at all.
func unknownOperation(err error) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && strings.HasPrefix(api.ErrorCode(), "UnknownOperation")
}

func (t tableSpec) input() *dynamodb.CreateTableInput {
	in := &dynamodb.CreateTableInput{TableName: aws.String(t.name), BillingMode: types.BillingModePayPerRequest, KeySchema: keySchema(t.hash, t.rng)}
	attributes := []string{t.hash, t.rng}
	for _, i := range t.indexes {
		attributes = append(attributes, i.hash, i.rng)
		in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, types.GlobalSecondaryIndex{
			IndexName: aws.String(i.name), KeySchema: keySchema(i.hash, i.rng), Projection: &types.Projection{ProjectionType: i.projection},
		})
	}
	for _, a := range attributes {
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: aws.String(a), AttributeType: types.ScalarAttributeTypeS})
	}
	return in
}

func keySchema(hash, rng string) []types.KeySchemaElement {
	return []types.KeySchemaElement{
		{AttributeName: aws.String(hash), KeyType: types.KeyTypeHash},
		{AttributeName: aws.String(rng), KeyType: types.KeyTypeRange},
	}
}

// compare says in sentences where a table's keys and indexes differ.
func (t tableSpec) compare(d *types.TableDescription) []string {
	kinds := map[string]types.ScalarAttributeType{}
	for _, a := range d.AttributeDefinitions {
		kinds[aws.ToString(a.AttributeName)] = a.AttributeType
	}
	var problems []string
	if got, want := spell(d.KeySchema, kinds), spellTexts(t.hash, t.rng); got != want {
		problems = append(problems, fmt.Sprintf("its key is %s, want %s", got, want))
	}
	for _, want := range t.indexes {
		at := slices.IndexFunc(d.GlobalSecondaryIndexes, func(g types.GlobalSecondaryIndexDescription) bool { return aws.ToString(g.IndexName) == want.name })
		if at < 0 {
			problems = append(problems, fmt.Sprintf("it lacks the index %s (%s)", want.name, spellTexts(want.hash, want.rng)))
			continue
		}
		index := d.GlobalSecondaryIndexes[at]
		if got, wanted := spell(index.KeySchema, kinds), spellTexts(want.hash, want.rng); got != wanted {
			problems = append(problems, fmt.Sprintf("the key of its index %s is %s, want %s", want.name, got, wanted))
		}
		if p := index.Projection; want.projection == types.ProjectionTypeAll && (p == nil || p.ProjectionType != want.projection) {
			problems = append(problems, fmt.Sprintf("its index %s does not project all attributes", want.name))
		}
	}
	return problems
}

func spell(schema []types.KeySchemaElement, kinds map[string]types.ScalarAttributeType) string {
	schema = slices.Clone(schema)
	slices.SortFunc(schema, func(a, b types.KeySchemaElement) int { return cmp.Compare(a.KeyType, b.KeyType) }) // HASH, RANGE
	parts := make([]string, len(schema))
	for i, e := range schema {
		name := aws.ToString(e.AttributeName)
		parts[i] = name + " " + string(kinds[name])
	}
	return strings.Join(parts, ", ")
}

func spellTexts(hash, rng string) string { return hash + " S, " + rng + " S" }

// InspectTables looks at the tables and says what is not as it should be;
// nothing is changed. An error is one of asking: a table that does not exist
// is a problem.
func InspectTables(ctx context.Context, client TablesClient, names TableNames) ([]TableProblem, error) {
	var problems []TableProblem
	for _, t := range names.specs() {
		found, err := t.inspect(ctx, client)
		if err != nil {
			return nil, err
		}
		problems = append(problems, found...)
	}
	return problems, nil
}

func (t tableSpec) inspect(ctx context.Context, client TablesClient) ([]TableProblem, error) {
	found, err := client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: aws.String(t.name)})
	if err = awserr.Wrap(err); errors.Is(err, dlqbridge.ErrNotFound) {
		return []TableProblem{{t.name, "it does not exist", true}}, nil
	}
	if err != nil {
		return nil, fail("DescribeTable", t.name, "keys", err)
	}
	var problems []TableProblem
	for _, what := range t.compare(found.Table) {
		problems = append(problems, TableProblem{t.name, what, true})
	}
	if found.Table.TableStatus != types.TableStatusActive && found.Table.TableStatus != types.TableStatusUpdating {
		problems = append(problems, TableProblem{t.name, fmt.Sprintf("it is %s", found.Table.TableStatus), true})
	}
	on, attribute, err := t.timeToLive(ctx, client)
	switch {
	case err != nil:
		return nil, err
	case !t.expires:
	case !on:
		problems = append(problems, TableProblem{t.name, "time to live is off: closed records and payloads are kept for good (want it in " + attrExpires + ")", false})
	case attribute != attrExpires:
		problems = append(problems, TableProblem{t.name, fmt.Sprintf("time to live is in %s, want %s", attribute, attrExpires), true})
	}
	backups, err := client.DescribeContinuousBackups(ctx, &dynamodb.DescribeContinuousBackupsInput{TableName: aws.String(t.name)})
	switch {
	case unknownOperation(err):
	case err != nil:
		return nil, fail("DescribeContinuousBackups", t.name, "point-in-time recovery", err)
	case !recovers(backups):
		problems = append(problems, TableProblem{t.name, "point-in-time recovery is off: a slip of the pen cannot be undone", false})
	}
	return problems, nil
}

func recovers(out *dynamodb.DescribeContinuousBackupsOutput) bool {
	d := out.ContinuousBackupsDescription
	return d != nil && d.PointInTimeRecoveryDescription != nil &&
		d.PointInTimeRecoveryDescription.PointInTimeRecoveryStatus == types.PointInTimeRecoveryStatusEnabled
}
