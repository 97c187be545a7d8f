package openaiagents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awserr/awsread"
)

// Defaults and bounds, each with its reason.
const (
	// DefaultName is the store's name where none is given.
	DefaultName = "openai_agents"
	// DefaultMaxRun is longer than the longest run of a Lambda function, which
	// is 15 minutes ("Lambda quotas", read 2026-11-30).
	DefaultMaxRun = 15 * time.Minute
	// How many calls of one state are told.
	maxCalls = 150
)

// Querier is what the store needs of a DynamoDB client.
type Querier = awsread.Querier

// Key is one key attribute and its value for a task.
type Key = awsread.Key

// Options are the choices of a Store.
type Options struct {
	// Client and Table are required.
	Client Querier
	Table  string
	// Name is the store's name on findings; empty means DefaultName.
	Name string
	// Hash and, where the table has one, Range name the one row with a task's
	// state.
	Hash, Range Key
	// State is the attribute with the state: its JSON as a text or bytes, or the
	// same as a map. Required.
	State string
	// Updated is the attribute with the time at which it was saved.
	Updated string
	// Mutating names the tools that change something outside; nil means every
	// tool, an empty list none. A call whose tool the state does not name counts
	// always.
	Mutating []string
	// SavedBeforeEachCall is why a call that the state does not show as executed
	// was not begun, in a sentence for whoever relies on it. It promises that the
	// state is saved after executed is set and before the tool's own code runs,
	// that each run of the task goes on from it, and that no tool runs at the
	// model's provider. Empty promises nothing; Updated is required with it.
	SavedBeforeEachCall string
	// MaxRun is how long after it was saved a run may be going; 0 means
	// DefaultMaxRun.
	MaxRun time.Duration
	// Parallel and Timeout are as in awsread.Asking; 0 means its defaults.
	Parallel int
	Timeout  time.Duration
}

// Store reads run states. It may be used concurrently.
type Store struct {
	o      Options
	asking awsread.Asking
	table  awsread.Rows
}

var _ dlqbridge.Store = (*Store)(nil)

// New returns a Store; an error names the option that is missing or wrong.
func New(o Options) (*Store, error) {
	o.Name, o.MaxRun = cmp.Or(o.Name, DefaultName), cmp.Or(o.MaxRun, DefaultMaxRun)
	rows := awsread.Rows{Client: o.Client, Table: o.Table, Hash: o.Hash, Range: o.Range, Max: 1}
	if err := o.check(rows); err != nil {
		return nil, fmt.Errorf("openaiagents: %w", err)
	}
	rows.Retry = awsread.TablePolicy(o.Client)
	place := "table " + o.Table
	return &Store{o: o, table: rows, asking: awsread.Asking{
		Store: o.Name, Place: place, Needs: "dynamodb:Query on " + place, Refused: rows.Refused(), Parallel: o.Parallel, Timeout: o.Timeout,
	}}, nil
}

func (o Options) check(rows awsread.Rows) error {
	switch {
	case o.Client == nil:
		return errors.New("option Client is required")
	case o.Table == "":
		return errors.New("option Table is required")
	case o.State == "":
		return errors.New("option State is required")
	case o.MaxRun < 0:
		return errors.New("option MaxRun is negative")
	case slices.Contains(o.Mutating, ""):
		return errors.New("option Mutating names an empty tool")
	case o.SavedBeforeEachCall != "" && o.Updated == "":
		return errors.New("option Updated is required with SavedBeforeEachCall: when was the state saved?")
	case strings.HasSuffix(o.Range.Value, "*"):
		return fmt.Errorf("Range.Value %q: a task has one state, so it cannot end in *", o.Range.Value)
	}
	return rows.Check()
}

// Name implements dlqbridge.Store.
func (s *Store) Name() string { return s.o.Name }

// Ask implements dlqbridge.Store: one consistent query per task.
func (s *Store) Ask(ctx context.Context, questions []dlqbridge.Question) []dlqbridge.Testimony {
	return s.asking.Ask(ctx, questions, s.read)
}

func (s *Store) read(ctx context.Context, q dlqbridge.Question) (dlqbridge.Testimony, error) {
	rows, why, err := s.table.Read(ctx, q)
	switch {
	case err != nil:
		return dlqbridge.Testimony{}, err
	case why != "":
		return s.silence(q, why), nil
	case len(rows) == 0:
		return s.silence(q, "no state of this task"), nil
	}
	return s.testify(q, rows[0])
}
