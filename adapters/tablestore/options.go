package tablestore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awserr/awsread"
)

// DefaultMaxRun is how long after its last sign of life a row that says running
// is believed: longer than the longest run of a Lambda function, which is 15
// minutes ("Lambda quotas", read 2026-11-30).
const DefaultMaxRun = 15 * time.Minute

// Querier is what the store needs of a DynamoDB client.
type Querier = awsread.Querier

// Key is one key attribute and its value for a task.
type Key = awsread.Key

// Options declare a table.
type Options struct {
	// Client, Name (the store's name on findings) and Table are required.
	Client Querier
	Name   string
	Table  string
	// Hash is the table's hash key and its value for a task. Range is that of
	// the range key, if the task's rows are fewer than the hash key has; a Value
	// that ends in * means all that begin so.
	Hash, Range Key
	// Fields say where in a row things are.
	Fields Fields
	// Confirmed, Running: the statuses that mean so. Statuses are compared as
	// texts, exactly. With ConfirmedNeedsReceipt Fields.Receipt is required.
	Confirmed             []string
	ConfirmedNeedsReceipt bool
	Running               []string
	// None are the statuses that prove that nothing happened.
	None None
	// MaxRun is how long after its last time a row that says running is
	// believed; 0 means DefaultMaxRun.
	MaxRun time.Duration
	// Parallel and Timeout are as in awsread.Asking; 0 means its defaults.
	Parallel int
	Timeout  time.Duration
}

// Fields are selectors; Status is required, the others may be empty.
type Fields struct {
	Status, Receipt string
	// Step is the row's step; empty: a row speaks for the whole task. Run is the
	// run it speaks of; empty: of all.
	Step, Run string
	// Started and Updated are times: RFC 3339, or seconds or milliseconds since 1970.
	Started, Updated string
	// Code, Message and Tool are of the row's failure.
	Code, Message, Tool string
}

// None declares which statuses prove that nothing happened, and why the table
// may say so.
type None struct {
	Status []string
	// Because is why the table is an authority on it, in a sentence for the
	// person who relies on it. Required with Status.
	Because string
	// Proof is dlqbridge.ProofNotStarted or dlqbridge.ProofSystemRead. Required
	// with Status; the latter needs Fields.Updated.
	Proof dlqbridge.Proof
	// Settled is how long after the last work on a task a look at the outside
	// world sees all of it (ProofSystemRead).
	Settled time.Duration
}

func (o Options) rows() awsread.Rows {
	return awsread.Rows{Client: o.Client, Table: o.Table, Hash: o.Hash, Range: o.Range, Max: maxRows, Retry: awsread.TablePolicy(o.Client)}
}

// check names the option that is missing or wrong.
func (o Options) check() error {
	switch {
	case o.Client == nil:
		return errors.New("option Client is required")
	case o.Name == "":
		return errors.New("option Name is required")
	case o.Table == "":
		return errors.New("option Table is required")
	case o.Fields.Status == "":
		return errors.New("Fields.Status is required")
	case len(o.Confirmed) == 0 && len(o.None.Status) == 0:
		return errors.New("options Confirmed and None.Status are both empty, so the table could prove nothing")
	case o.ConfirmedNeedsReceipt && o.Fields.Receipt == "":
		return errors.New("Fields.Receipt is required with ConfirmedNeedsReceipt")
	}
	if err := o.rows().Check(); err != nil {
		return err
	}
	if err := o.None.check(o.Fields); err != nil {
		return err
	}
	seen := map[string]string{}
	for _, list := range []struct {
		name     string
		statuses []string
	}{{"Confirmed", o.Confirmed}, {"None.Status", o.None.Status}, {"Running", o.Running}} {
		for _, status := range list.statuses {
			if status == "" {
				return fmt.Errorf("%s holds an empty status, which a row without one would have", list.name)
			}
			if other := seen[status]; other != "" {
				return fmt.Errorf("status %q is in %s and in %s", status, other, list.name)
			}
			seen[status] = list.name
		}
	}
	return nil
}

func (n None) check(f Fields) error {
	if len(n.Status) == 0 {
		if n.Because != "" || n.Proof != "" || n.Settled != 0 {
			return errors.New("None.Status is required with the rest of None")
		}
		return nil
	}
	proofs := []dlqbridge.Proof{dlqbridge.ProofNotStarted, dlqbridge.ProofSystemRead}
	switch {
	case strings.TrimSpace(n.Because) == "":
		return errors.New("None.Because is required: why may this table say that nothing happened?")
	case !slices.Contains(proofs, n.Proof):
		return fmt.Errorf("None.Proof %q: must be %s or %s", n.Proof, proofs[0], proofs[1])
	case n.Proof == dlqbridge.ProofSystemRead && f.Updated == "":
		return errors.New("Fields.Updated is required with None.Proof system_read: when was the outside world looked at?")
	case n.Settled < 0:
		return errors.New("None.Settled is negative")
	}
	return nil
}
