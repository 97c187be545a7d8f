package check

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
)

// query is a query in short.
func query(table, index, condition string, values record) *dynamodb.QueryInput {
	in := &dynamodb.QueryInput{TableName: &table, KeyConditionExpression: &condition, ExpressionAttributeValues: values.item()}
	if index != "" {
		in.IndexName = &index
	}
	return in
}

// all reads every page of a query and checks that no page is over its limit.
func (db tableBench) all(t *testing.T, in *dynamodb.QueryInput) []map[string]types.AttributeValue {
	t.Helper()
	var items []map[string]types.AttributeValue
	for page := 0; ; page++ {
		out, err := db.Query(t.Context(), in)
		if err != nil {
			t.Fatalf("page %d: %v", page, err)
		}
		if in.Limit != nil && out.ScannedCount > *in.Limit || page > 1000 {
			t.Fatalf("page %d: %d items", page, out.ScannedCount)
		}
		items = append(items, out.Items...)
		if in.ExclusiveStartKey = out.LastEvaluatedKey; in.ExclusiveStartKey == nil {
			return items
		}
	}
}

func queryRows(t *testing.T, h Harness, db tableBench) {
	fill := func(t *testing.T) string {
		table := db.table(t, letters)
		for i := range 10 {
			db.put(t, table, record{"pk": "a", "sk": i - 3, "even": i%2 == 0})
		}
		db.put(t, table, record{"pk": "b", "sk": 1})
		return table
	}
	h.row(t, "key conditions on a number", func(t *testing.T) {
		table := fill(t)
		for _, c := range []struct {
			condition string
			values    record
			want      []any
		}{
			{"pk = :p", nil, []any{-3, -2, -1, 0, 1, 2, 3, 4, 5, 6}},
			{"pk = :p AND sk = :x", record{":x": 2}, []any{2}},
			{"sk < :x AND pk = :p", record{":x": -1}, []any{-3, -2}},
			{"pk = :p AND sk <= :x", record{":x": -1}, []any{-3, -2, -1}},
			{"pk = :p AND sk > :x", record{":x": 4}, []any{5, 6}},
			{"(pk = :p) AND (sk >= :x)", record{":x": 5}, []any{5, 6}},
			{"pk = :p AND sk BETWEEN :x AND :y", record{":x": -1, ":y": num("1.5")}, []any{-1, 0, 1}},
			{"pk = :p AND sk > :x", record{":x": 100}, nil},
		} {
			values := record{":p": "a"}
			maps.Copy(values, c.values)
			if diff := cmp.Diff(c.want, sortKeys(db.all(t, query(table, "", c.condition, values)))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.condition, diff)
			}
		}
	})
	h.row(t, "key conditions on a text", func(t *testing.T) {
		table := db.table(t, shape{hash: "pk:S", sort: "sk:S"})
		all := []string{"A", "a", "a\x00", "a\x00b", "aa", "ab", "b", "é", "世"}
		for _, sk := range all {
			db.put(t, table, record{"pk": "p", "sk": sk})
		}
		for _, c := range []struct {
			condition string
			values    record
			want      []any
		}{
			{"pk = :p", nil, []any{"A", "a", "a\x00", "a\x00b", "aa", "ab", "b", "é", "世"}},
			{"pk = :p AND begins_with(sk, :x)", record{":x": "a"}, []any{"a", "a\x00", "a\x00b", "aa", "ab"}},
			{"pk = :p AND begins_with(sk, :x)", record{":x": "a\x00"}, []any{"a\x00", "a\x00b"}},
			{"pk = :p AND sk > :x", record{":x": "a\x00"}, []any{"a\x00b", "aa", "ab", "b", "é", "世"}},
			{"pk = :p AND sk <= :x", record{":x": "a"}, []any{"A", "a"}},
			{"pk = :p AND sk BETWEEN :x AND :y", record{":x": "aa", ":y": "é"}, []any{"aa", "ab", "b", "é"}},
		} {
			values := record{":p": "p"}
			maps.Copy(values, c.values)
			if diff := cmp.Diff(c.want, sortKeys(db.all(t, query(table, "", c.condition, values)))); diff != "" {
				t.Errorf("%s %v (-want +got):\n%s", c.condition, c.values, diff)
			}
		}
	})
	h.row(t, "forwards and backwards in pages", func(t *testing.T) {
		table := fill(t)
		want := []any{-3, -2, -1, 0, 1, 2, 3, 4, 5, 6}
		for limit := range int32(11) {
			for _, forward := range []bool{true, false} {
				in := query(table, "", "pk = :p", record{":p": "a"})
				in.Limit, in.ScanIndexForward = aws.Int32(limit+1), &forward
				wanted := slices.Clone(want)
				if !forward {
					slices.Reverse(wanted)
				}
				if diff := cmp.Diff(wanted, sortKeys(db.all(t, in))); diff != "" {
					t.Errorf("limit %d, forward %v (-want +got):\n%s", limit+1, forward, diff)
				}
			}
		}
	})
	h.row(t, "a page that fills Limit exactly has a last key", func(t *testing.T) {
		table := fill(t)
		in := query(table, "", "pk = :p", record{":p": "a"})
		in.Limit = aws.Int32(10)
		out, err := db.Query(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(record{"pk": "a", "sk": 6}, plainItem(out.LastEvaluatedKey)); diff != "" {
			t.Errorf("last key (-want +got):\n%s", diff)
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
		out, err = db.Query(t.Context(), in)
		if err != nil || out.Count != 0 || out.LastEvaluatedKey != nil {
			t.Errorf("the page after: %+v, %v", out, err)
		}
	})
	h.row(t, "Limit counts before the filter", func(t *testing.T) {
		table := fill(t)
		in := query(table, "", "pk = :p", record{":p": "a", ":yes": true})
		in.FilterExpression, in.Limit = aws.String("even = :yes"), aws.Int32(5)
		out, err := db.Query(t.Context(), in)
		if err != nil || out.Count != 3 || out.ScannedCount != 5 || out.LastEvaluatedKey == nil {
			t.Errorf("got %+v, %v, want 3 of 5", out, err)
		}
	})
	h.row(t, "COUNT gives numbers and no items", func(t *testing.T) {
		table := fill(t)
		in := query(table, "", "pk = :p", record{":p": "a", ":yes": true})
		in.FilterExpression, in.Select = aws.String("even = :yes"), types.SelectCount
		out, err := db.Query(t.Context(), in)
		if err != nil || out.Count != 5 || out.ScannedCount != 10 || len(out.Items) > 0 {
			t.Errorf("got %+v, %v, want 5 of 10 without items", out, err)
		}
	})
	h.row(t, "projections reach nested paths", func(t *testing.T) {
		table := db.table(t, letters)
		db.put(t, table, record{"pk": "a", "sk": 1, "m": record{"x": 1, "y": record{"z": 2}}, "l": list{0, 1, 2}, "other": 1})
		out, err := db.GetItem(t.Context(), &dynamodb.GetItemInput{
			TableName: &table, Key: record{"pk": "a", "sk": 1}.item(),
			ProjectionExpression: aws.String("sk, m.#y.z, l[0], l[2], absent"), ExpressionAttributeNames: map[string]string{"#y": "y"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(record{"sk": 1, "m": record{"y": record{"z": 2}}, "l": list{0, 2}}, plainItem(out.Item)); diff != "" {
			t.Errorf("item (-want +got):\n%s", diff)
		}
	})
	for name, c := range map[string]struct {
		condition, filter string
		values            record
		start             record
	}{
		"refuses a query without the hash key":          {condition: "sk = :x", values: record{":x": 1}},
		"refuses a query with a range of the hash key":  {condition: "pk > :x", values: record{":x": "a"}},
		"refuses a query on another attribute":          {condition: "pk = :x AND even = :x", values: record{":x": "a"}},
		"refuses OR in a key condition":                 {condition: "pk = :x OR pk = :y", values: record{":x": "a", ":y": "b"}},
		"refuses IN in a key condition":                 {condition: "pk = :x AND sk IN (:y)", values: record{":x": "a", ":y": 1}},
		"refuses <> in a key condition":                 {condition: "pk = :x AND sk <> :y", values: record{":x": "a", ":y": 1}},
		"refuses two conditions on one key":             {condition: "pk = :x AND sk > :y AND sk < :y", values: record{":x": "a", ":y": 1}},
		"refuses a key value of the wrong type":         {condition: "pk = :x AND sk = :x", values: record{":x": "a"}},
		"refuses an empty hash key value":               {condition: "pk = :x", values: record{":x": ""}},
		"refuses a filter on a key":                     {condition: "pk = :x", filter: "sk > :y", values: record{":x": "a", ":y": 1}},
		"refuses a start key that is not the table's":   {condition: "pk = :x", values: record{":x": "a"}, start: record{"pk": "a"}},
		"refuses a start key from another partition":    {condition: "pk = :x", values: record{":x": "a"}, start: record{"pk": "b", "sk": 1}},
		"refuses a query without a condition on values": {condition: "pk = :x", values: nil},
	} {
		h.row(t, name, func(t *testing.T) {
			table := fill(t)
			in := query(table, "", c.condition, c.values)
			in.ExclusiveStartKey = c.start.item()
			if c.filter != "" {
				in.FilterExpression = &c.filter
			}
			_, err := db.Query(t.Context(), in)
			wantCode(t, err, validationCode)
		})
	}
	h.row(t, "pages end at 1 MB", func(t *testing.T) {
		table := db.table(t, letters)
		for i := range 7 {
			db.put(t, table, record{"pk": "a", "sk": i, "body": strings.Repeat("b", 300_000)})
		}
		in := query(table, "", "pk = :p", record{":p": "a"})
		in.ProjectionExpression = aws.String("sk")
		out, err := db.Query(t.Context(), in)
		if err != nil || out.Count != 3 && out.Count != 4 || out.LastEvaluatedKey == nil {
			t.Errorf("the first page has %d items, last key %v, %v; want about 1 MB", out.Count, out.LastEvaluatedKey, err)
		}
		if got := len(db.all(t, in)); got != 7 {
			t.Errorf("all pages have %d items, want 7", got)
		}
	})
	h.row(t, "scan segments share out the table", func(t *testing.T) {
		table := db.table(t, letters)
		for i := range 40 {
			db.put(t, table, record{"pk": strconv.Itoa(i), "sk": i})
		}
		var got []int
		for segment := range int32(3) {
			pages := dynamodb.NewScanPaginator(db, &dynamodb.ScanInput{
				TableName: &table, Segment: &segment, TotalSegments: aws.Int32(3), Limit: aws.Int32(4),
			})
			for pages.HasMorePages() {
				page, err := pages.NextPage(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, v := range values(page.Items, "sk") {
					got = append(got, v.(int))
				}
			}
		}
		slices.Sort(got)
		if len(got) != 40 || len(slices.Compact(slices.Clone(got))) != 40 {
			t.Errorf("the segments hold %v, want 0 to 39 once each", got)
		}
	})
	h.row(t, "refuses segments that do not fit", func(t *testing.T) {
		table := db.table(t, letters)
		for _, in := range []*dynamodb.ScanInput{
			{Segment: aws.Int32(3), TotalSegments: aws.Int32(3)}, {Segment: aws.Int32(0)}, {TotalSegments: aws.Int32(2)},
		} {
			in.TableName = &table
			_, err := db.Scan(t.Context(), in)
			wantCode(t, err, validationCode)
		}
	})
}

func sortKeys(items []map[string]types.AttributeValue) []any { return values(items, "sk") }

func indexRows(t *testing.T, h Harness, db tableBench) {
	work := shape{hash: "pk:S", sort: "sk:N", indexes: []indexShape{{name: "work", hash: "gk:S", sort: "gs:N"}}}
	h.row(t, "index pages with ties lose and repeat nothing", func(t *testing.T) {
		table := db.table(t, work)
		var want []string
		for _, gs := range []int{-10, 0, 2, 10} {
			for _, pk := range []string{"a", "b", "c"} {
				db.put(t, table, record{"pk": pk, "sk": gs, "gk": "x", "gs": gs})
				want = append(want, fmt.Sprint(gs, pk))
			}
		}
		for limit := range int32(13) {
			in := query(table, "work", "gk = :x", record{":x": "x"})
			in.Limit = aws.Int32(limit + 1)
			var got []string
			for _, item := range plainItems(db.all(t, in)) {
				got = append(got, fmt.Sprint(item["gs"], item["pk"]))
			}
			ordered := slices.IsSortedFunc(got, func(a, b string) int {
				var x, y int
				_, _ = fmt.Sscan(a, &x)
				_, _ = fmt.Sscan(b, &y)
				return x - y
			})
			slices.Sort(got)
			sorted := slices.Sorted(slices.Values(want))
			if diff := cmp.Diff(sorted, got); diff != "" || !ordered {
				t.Errorf("limit %d, in numeric order %v (-want +got):\n%s", limit+1, ordered, diff)
			}
		}
	})
	h.row(t, "the last key of an index holds index and table keys", func(t *testing.T) {
		table := db.table(t, work)
		db.put(t, table, record{"pk": "a", "sk": 1, "gk": "x", "gs": 5, "v": 1}, record{"pk": "b", "sk": 1, "gk": "x", "gs": 6})
		in := query(table, "work", "gk = :x", record{":x": "x"})
		in.Limit = aws.Int32(1)
		out, err := db.Query(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(record{"pk": "a", "sk": 1, "gk": "x", "gs": 5}, plainItem(out.LastEvaluatedKey)); diff != "" {
			t.Errorf("last key (-want +got):\n%s", diff)
		}
		in.ExclusiveStartKey = record{"pk": "a", "sk": 1}.item()
		_, err = db.Query(t.Context(), in)
		wantCode(t, err, validationCode)
	})
	h.row(t, "an index follows updates and removals", func(t *testing.T) {
		table := db.table(t, work)
		in := func() []any {
			return values(db.all(t, query(table, "work", "gk = :x", record{":x": "x"})), "pk")
		}
		db.put(t, table, record{"pk": "a", "sk": 1, "gk": "x", "gs": 1}, record{"pk": "b", "sk": 1, "gk": "x", "gs": 2}, record{"pk": "c", "sk": 1, "gk": "x"})
		step := func(want []any, change func() error) {
			t.Helper()
			if err := change(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, in()); diff != "" {
				t.Errorf("index (-want +got):\n%s", diff)
			}
		}
		change := func(pk, expression string, values record) func() error {
			return func() error {
				_, err := db.UpdateItem(t.Context(), update(table, record{"pk": pk, "sk": 1}, expression, values))
				return err
			}
		}
		step([]any{"a", "b"}, func() error { return nil })
		step([]any{"b", "a"}, change("a", "SET gs = :n", record{":n": 3}))
		step([]any{"b", "c", "a"}, change("c", "SET gs = :n", record{":n": num("2.5")}))
		step([]any{"c", "a"}, change("b", "REMOVE gs", nil))
		step([]any{"a"}, change("c", "SET gk = :y", record{":y": "y"}))
		step(nil, func() error {
			_, err := db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &table, Key: record{"pk": "a", "sk": 1}.item()})
			return err
		})
	})
	h.row(t, "projections of an index", func(t *testing.T) {
		table := db.table(t, shape{hash: "pk:S", sort: "sk:N", indexes: []indexShape{
			{name: "all", hash: "gk:S"},
			{name: "keys", hash: "gk:S", project: types.ProjectionTypeKeysOnly},
			{name: "some", hash: "gk:S", project: types.ProjectionTypeInclude, include: []string{"v"}},
		}})
		db.put(t, table, record{"pk": "a", "sk": 1, "gk": "x", "v": 1, "w": 2})
		for index, want := range map[string]record{
			"all": {"pk": "a", "sk": 1, "gk": "x", "v": 1, "w": 2}, "keys": {"pk": "a", "sk": 1, "gk": "x"}, "some": {"pk": "a", "sk": 1, "gk": "x", "v": 1},
		} {
			out := plainItems(db.all(t, query(table, index, "gk = :x", record{":x": "x"})))
			if diff := cmp.Diff([]record{want}, out); diff != "" {
				t.Errorf("%s (-want +got):\n%s", index, diff)
			}
		}
		// What has been left out and is set again must not shine through.
		if _, err := db.UpdateItem(t.Context(), update(table, record{"pk": "a", "sk": 1}, "REMOVE v SET w = :n", record{":n": 3})); err != nil {
			t.Fatal(err)
		}
		out := plainItems(db.all(t, query(table, "some", "gk = :x", record{":x": "x"})))
		if diff := cmp.Diff([]record{{"pk": "a", "sk": 1, "gk": "x"}}, out); diff != "" {
			t.Errorf("after REMOVE (-want +got):\n%s", diff)
		}
	})
	h.row(t, "refuses what an index cannot give", func(t *testing.T) {
		table := db.table(t, shape{hash: "pk:S", sort: "sk:N", indexes: []indexShape{{name: "keys", hash: "gk:S", project: types.ProjectionTypeKeysOnly}}})
		in := query(table, "absent", "gk = :x", record{":x": "x"})
		_, err := db.Query(t.Context(), in)
		wantCode(t, err, validationCode)
		in = query(table, "keys", "gk = :x", record{":x": "x"})
		in.ConsistentRead = aws.Bool(true)
		_, err = db.Query(t.Context(), in)
		wantCode(t, err, validationCode)
		in = query(table, "keys", "gk = :x", record{":x": "x"})
		in.Select = types.SelectAllAttributes
		_, err = db.Query(t.Context(), in)
		wantCode(t, err, validationCode)
		in = query(table, "keys", "gk = :x", record{":x": "x"})
		in.ProjectionExpression = aws.String("v")
		_, err = db.Query(t.Context(), in)
		wantCode(t, err, validationCode)
	})
	h.row(t, "an index is scanned", func(t *testing.T) {
		table := db.table(t, work)
		db.put(t, table, record{"pk": "a", "sk": 1, "gk": "x", "gs": 1}, record{"pk": "b", "sk": 1, "gk": "y", "gs": 2}, record{"pk": "c", "sk": 1, "gk": "x"})
		out, err := db.Scan(t.Context(), &dynamodb.ScanInput{TableName: &table, IndexName: aws.String("work")})
		if err != nil || out.Count != 2 {
			t.Errorf("got %+v, %v, want the two items that have both keys", out, err)
		}
	})
}
