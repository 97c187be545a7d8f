package check

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
)

func tableRows(t *testing.T, h Harness, db tableBench) {
	h.row(t, "a table is waited for and described", func(t *testing.T) {
		table := db.table(t, shape{hash: "pk:S", sort: "sk:N", indexes: []indexShape{{name: "work", hash: "gk:S", project: types.ProjectionTypeKeysOnly}}})
		db.active(t, table)
		out, err := db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &table})
		if err != nil {
			t.Fatal(err)
		}
		d := out.Table
		if d.TableStatus != types.TableStatusActive || len(d.KeySchema) != 2 || len(d.AttributeDefinitions) != 3 || d.TableArn == nil ||
			d.BillingModeSummary == nil || d.BillingModeSummary.BillingMode != types.BillingModePayPerRequest {
			t.Errorf("described as %+v", d)
		}
		if len(d.GlobalSecondaryIndexes) != 1 || d.GlobalSecondaryIndexes[0].IndexStatus != types.IndexStatusActive {
			t.Errorf("indexes described as %+v", d.GlobalSecondaryIndexes)
		}
	})
	h.row(t, "a table that is there or is not there has a typed error", func(t *testing.T) {
		table := db.table(t, letters)
		_, err := db.CreateTable(t.Context(), &dynamodb.CreateTableInput{
			TableName: &table, BillingMode: types.BillingModePayPerRequest, KeySchema: keySchema("pk:S", ""),
			AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("pk"), AttributeType: "S"}},
		})
		wantCode(t, err, "ResourceInUseException")
		_, err = db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String("check-not-there")})
		wantCode(t, err, "ResourceNotFoundException")
		_, err = db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("check-not-there"), Key: record{"pk": "a"}.item()})
		wantCode(t, err, "ResourceNotFoundException")
	})
	h.row(t, "tables are listed in pages", func(t *testing.T) {
		want := []string{db.table(t, letters), db.table(t, letters), db.table(t, letters)}
		var got []string
		pages := dynamodb.NewListTablesPaginator(db, &dynamodb.ListTablesInput{Limit: aws.Int32(1)})
		for pages.HasMorePages() {
			page, err := pages.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range page.TableNames {
				if name == want[0] || name == want[1] || name == want[2] {
					got = append(got, name)
				}
			}
		}
		if len(got) != len(want) {
			t.Errorf("listed %v, want all of %v", got, want)
		}
	})
	h.row(t, "a key attribute must be defined and every definition used", func(t *testing.T) {
		for _, defined := range [][]types.AttributeDefinition{
			{{AttributeName: aws.String("other"), AttributeType: "S"}},
			{{AttributeName: aws.String("pk"), AttributeType: "S"}, {AttributeName: aws.String("spare"), AttributeType: "S"}},
		} {
			_, err := db.CreateTable(t.Context(), &dynamodb.CreateTableInput{
				TableName: aws.String("check-undefined"), BillingMode: types.BillingModePayPerRequest,
				KeySchema: keySchema("pk:S", ""), AttributeDefinitions: defined,
			})
			wantCode(t, err, validationCode)
		}
	})
	h.row(t, "time to live is switched on, described and off", func(t *testing.T) {
		table := db.table(t, letters)
		status := func() types.TimeToLiveStatus {
			out, err := db.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: &table})
			if err != nil {
				t.Fatal(err)
			}
			return out.TimeToLiveDescription.TimeToLiveStatus
		}
		if got := status(); got != types.TimeToLiveStatusDisabled {
			t.Errorf("a new table says %s", got)
		}
		if err := db.timeToLive(t, table, "gone_at", true); err != nil {
			t.Fatal(err)
		}
		if got := status(); got != types.TimeToLiveStatusEnabled {
			t.Errorf("after switching on it says %s", got)
		}
		wantCode(t, db.timeToLive(t, table, "gone_at", true), validationCode)
	})
	h.row(t, "expired items go, others stay", func(t *testing.T) {
		table := db.table(t, letters)
		if err := db.timeToLive(t, table, "gone_at", true); err != nil {
			t.Fatal(err)
		}
		// The endpoint's own idea of now. Milliseconds and text never expire;
		// that is the fault they are.
		described, err := db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &table})
		if err != nil {
			t.Fatal(err)
		}
		soon := int(described.Table.CreationDateTime.Add(time.Hour).Unix())
		db.put(t, table,
			record{"pk": "a", "sk": 1, "gone_at": soon}, record{"pk": "a", "sk": 2, "gone_at": soon * 1000},
			record{"pk": "a", "sk": 3, "gone_at": "soon"}, record{"pk": "a", "sk": 4})
		h.advance(t, time.Hour+2*time.Second)
		out, err := db.Scan(t.Context(), &dynamodb.ScanInput{TableName: &table})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]any{2, 3, 4}, values(out.Items, "sk")); diff != "" {
			t.Errorf("what is left (-want +got):\n%s", diff)
		}
		if got := db.get(t, table, record{"pk": "a", "sk": 1}); got != nil {
			t.Errorf("the expired item is still read: %v", got)
		}
	})
	h.row(t, "continuous backups are switched on", func(t *testing.T) {
		table := db.table(t, letters)
		out, err := db.UpdateContinuousBackups(t.Context(), &dynamodb.UpdateContinuousBackupsInput{
			TableName: &table, PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: aws.Bool(true)},
		})
		if err != nil {
			t.Fatal(err)
		}
		described, err := db.DescribeContinuousBackups(t.Context(), &dynamodb.DescribeContinuousBackupsInput{TableName: &table})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range []*types.ContinuousBackupsDescription{out.ContinuousBackupsDescription, described.ContinuousBackupsDescription} {
			if d.PointInTimeRecoveryDescription.PointInTimeRecoveryStatus != types.PointInTimeRecoveryStatusEnabled {
				t.Errorf("got %+v", d.PointInTimeRecoveryDescription)
			}
		}
	})
	h.row(t, "an index added later is filled", func(t *testing.T) {
		table := db.table(t, letters)
		db.put(t, table, record{"pk": "a", "sk": 1, "gk": "x"}, record{"pk": "b", "sk": 2, "gk": "x"}, record{"pk": "c", "sk": 3},
			record{"pk": "d", "sk": 4, "gk": 5})
		added := indexShape{name: "late", hash: "gk:S"}.index()
		_, err := db.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{
			TableName:            &table,
			AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("gk"), AttributeType: "S"}},
			GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{{Create: &types.CreateGlobalSecondaryIndexAction{
				IndexName: added.IndexName, KeySchema: added.KeySchema, Projection: added.Projection,
			}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		db.active(t, table)
		out, err := db.Query(t.Context(), &dynamodb.QueryInput{
			TableName: &table, IndexName: aws.String("late"), KeyConditionExpression: aws.String("gk = :x"),
			ExpressionAttributeValues: record{":x": "x"}.item(),
		})
		if err != nil || out.Count != 2 {
			t.Errorf("got %+v, %v, want the two items with the key", out, err)
		}
	})
	h.row(t, "tags are set, listed and removed", func(t *testing.T) {
		table := db.table(t, letters)
		out, err := db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &table})
		if err != nil {
			t.Fatal(err)
		}
		arn := out.Table.TableArn
		_, err = db.TagResource(t.Context(), &dynamodb.TagResourceInput{ResourceArn: arn, Tags: []types.Tag{
			{Key: aws.String("team"), Value: aws.String("orders")}, {Key: aws.String("tier"), Value: aws.String("one")},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.UntagResource(t.Context(), &dynamodb.UntagResourceInput{ResourceArn: arn, TagKeys: []string{"tier"}}); err != nil {
			t.Fatal(err)
		}
		tags, err := db.ListTagsOfResource(t.Context(), &dynamodb.ListTagsOfResourceInput{ResourceArn: arn})
		if err != nil || len(tags.Tags) != 1 || *tags.Tags[0].Key != "team" {
			t.Errorf("got %+v, %v", tags, err)
		}
	})
}

func (db tableBench) timeToLive(t *testing.T, table, attribute string, on bool) error {
	t.Helper()
	_, err := db.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
		TableName: &table, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: &attribute, Enabled: &on},
	})
	return err
}
