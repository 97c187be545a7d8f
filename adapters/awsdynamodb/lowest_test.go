package awsdynamodb

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/localstack"
)

// A table with more records than fit into memory is read in rounds.
func TestRoundsOverAWholeTableMissNothing(t *testing.T) {
	cloud := localstack.New(localstack.Options{})
	defer cloud.Close()
	client := dynamodb.NewFromConfig(cloud.AWSConfig())
	if err := CreateTables(t.Context(), client, TableNames{Records: "records", Payloads: "payloads"}); err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{Client: client, Records: "records", Payloads: "payloads"})
	if err != nil {
		t.Fatal(err)
	}
	var all []dlqbridge.Control
	for n := range 50 {
		all = append(all, dlqbridge.Control{ID: fmt.Sprintf("r_%03d", n*7%50), Version: 1, Status: dlqbridge.StatusReceived, FirstSeen: time.UnixMilli(1).UTC()})
	}
	for _, a := range s.Create(t.Context(), all) {
		if a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	for _, n := range []int{1, 7, 24, 25, 49, 50, 51} {
		var got []string
		after, more := "", true
		for more {
			var list []dlqbridge.Control
			if list, more, err = s.lowest(t.Context(), dlqbridge.Filter{}, after, n); err != nil {
				t.Fatal(err)
			}
			if len(list) > n {
				t.Fatalf("%d records in a round of %d", len(list), n)
			}
			for _, c := range list {
				got, after = append(got, c.ID), c.ID
			}
		}
		if len(got) != 50 || !slices.IsSorted(got) {
			t.Errorf("in rounds of %d: %v", n, got)
		}
	}
}
