package check_test

import (
	"os"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge/localstack"
	"github.com/dlqbridge/dlqbridge/localstack/check"
)

func TestDynamoDBOfTheLocalCloud(t *testing.T) {
	cloud := localstack.New(localstack.Options{})
	defer cloud.Close()
	check.DynamoDB(t, check.Harness{Config: cloud.AWSConfig(), Advance: cloud.Clock().Advance})
}

// TestDynamoDBOfAnotherEndpoint runs the check list on the endpoint that the
// environment names, with the clock of the local cloud if it has one.
func TestDynamoDBOfAnotherEndpoint(t *testing.T) {
	url := os.Getenv("LOCALCLOUD_CHECK_ENDPOINT")
	if url == "" {
		t.Skip("LOCALCLOUD_CHECK_ENDPOINT names no endpoint to check")
	}
	h := check.Harness{Config: endpointConfig(url)}
	if hasClock(t, url) {
		h.Advance = func(d time.Duration) { advance(t, url, d) }
	}
	check.DynamoDB(t, h)
}

func TestDynamoDBOfMoto(t *testing.T) {
	if testing.Short() {
		t.Skip("starts another program")
	}
	check.DynamoDB(t, check.Harness{Config: endpointConfig(check.StartMoto(t)), Known: motoDynamoDB})
}

// Why moto differs, where more than one row shows it.
const (
	motoAccepts  = "accepts it"
	motoCrashes  = "answers with an internal error"
	motoNumbers  = "keeps numbers as the text that was sent, and compares the texts"
	motoParallel = "loses updates under parallel load"
)

// motoDynamoDB are the rows that moto 5.2 is known to fail.
var motoDynamoDB = map[string]string{
	"time to live is switched on, described and off":        "switches on what is on already",
	"an update returns what it was asked for":               "UPDATED_OLD gives the whole map of a nested path",
	"consumed capacity counts table and indexes":            "always counts 1 and no indexes",
	"comparisons hold for one type only":                    motoCrashes + " on mismatched types, and takes two missing attributes for equal",
	"BETWEEN and IN":                                        motoCrashes + " on mismatched types",
	"functions on paths of every type":                      "begins_with fails on binary values",
	"size of what has a size":                               motoCrashes + " for types without a size",
	"refuses an index key of the wrong type":                motoAccepts,
	"refuses a number of 39 digits":                         motoAccepts,
	"refuses a number that is too large":                    motoAccepts,
	"refuses attributes nested deeper than 32":              motoAccepts,
	"refuses a set with repeats":                            "compares the texts of numbers",
	"takes what is just inside the limits":                  "its item limit is 405,000 bytes",
	"refuses an undefined name":                             motoCrashes,
	"refuses a function in the wrong place":                 motoCrashes,
	"refuses a comparison with a literal that has no order": "takes the condition for false",
	"refuses begins_with of a number":                       "takes the condition for false",
	"refuses an unknown type name":                          "takes the condition for false",
	"refuses BETWEEN with its bounds exchanged":             "takes the condition for false",
	"refuses a value nested too deeply":                     motoAccepts,
	"refuses a sum out of range":                            motoCrashes,
	"refuses a key that is not the table's (2)":             motoAccepts,
	"refuses a key that is not the table's (4)":             motoCrashes + " for an update with an empty key",
	"refuses values without an expression":                  motoAccepts,
	"refuses overlapping projections":                       motoAccepts,
	"numbers are exact and come back in plain notation":     motoNumbers,
	"sums are exact":                                        motoNumbers,
	"equal numbers are one key":                             motoNumbers,
	"a page that fills Limit exactly has a last key":        "looks ahead and gives none",
	"projections reach nested paths":                        "loses all but the last element of a list",
	"refuses OR in a key condition":                         motoCrashes,
	"refuses IN in a key condition":                         motoCrashes,
	"refuses <> in a key condition":                         motoCrashes,
	"refuses two conditions on one key":                     motoCrashes,
	"refuses a filter on a key":                             motoAccepts,
	"refuses a key value of the wrong type":                 motoAccepts,
	"refuses a start key that is not the table's":           motoCrashes,
	"refuses a start key from another partition":            motoAccepts,
	"the last key of an index holds index and table keys":   motoCrashes + " on a start key without the index's keys",
	"refuses what an index cannot give":                     "has another code for an index that is not there, and gives what is not projected",
	"refuses repeated keys in a batch":                      "compares the texts of numbers",
	"refuses 26 writes and 101 reads":                       "takes 101 reads",
	"one bad entry refuses the whole batch":                 "writes what comes before the bad entry",
	"a fault in stored data cancels":                        "answers a plain ValidationException",
	"a token makes a repeat harmless":                       "ignores the token",
	"of parallel conditional puts one wins":                 motoParallel,
	"parallel ADD loses nothing":                            motoParallel,
	"parallel transactions lose nothing":                    motoParallel,
}
