package powertools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awserr/awsread"
	"github.com/dlqbridge/dlqbridge/adapters/retry"
)

// DefaultName is the store's name where none is given.
const DefaultName = "powertools"

// Runtime is the language whose Powertools wrote the table; they compute keys
// differently.
type Runtime string

// The runtimes.
const (
	Python     Runtime = "python"
	TypeScript Runtime = "typescript"
)

// Input is what the worker made idempotent, which the expressions work on.
type Input string

// The inputs. InputRecord is the default.
const (
	// InputRecord is one record of Lambda's SQS event: messageId, body,
	// messageAttributes and attributes.MessageGroupId.
	InputRecord Input = "record"
	// InputEvent is Lambda's SQS event with this one record in Records.
	InputEvent Input = "event"
	// InputBody is the message's body, decoded from JSON.
	InputBody Input = "body"
)

// Defaults of Options, each with its reason.
const (
	// DefaultExpiresAfter is Powertools' own default of expires_after_seconds
	// ("Powertools for AWS Lambda (Python): Idempotency", read 2026-11-30).
	DefaultExpiresAfter = time.Hour
	// DefaultMaxRun is the longest time a Lambda function can run ("Lambda
	// quotas", read 2026-11-30): how long after INPROGRESS was written a run
	// without in_progress_expiration may still be going.
	DefaultMaxRun = 15 * time.Minute
)

// Getter is what the store needs of a DynamoDB client.
type Getter interface {
	GetItem(ctx context.Context, in *dynamodb.GetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
}

// Options are the choices of a Store. Those that Powertools has too have its
// names and its defaults, so that they can be copied from the worker's code.
type Options struct {
	// Client and Table are required.
	Client Getter
	Table  string
	// Name is the store's name on findings; empty means DefaultName.
	Name string
	// Runtime is required.
	Runtime Runtime
	// Prefix is required: what stands before # in a key. Python:
	// "FUNCTION.HANDLER" (the Lambda function's name and the qualified name of
	// what is decorated) or key_prefix; TypeScript: "FUNCTION" or "FUNCTION.NAME"
	// or keyPrefix.
	Prefix string
	// Input is what the worker made idempotent; empty means InputRecord.
	Input Input
	// EventKeyJMESPath (event_key_jmespath) selects the key. It is required but
	// for InputBody: a whole record holds what no dead letter keeps.
	EventKeyJMESPath string
	// PayloadValidationJMESPath (payload_validation_jmespath) selects what must
	// be the same for the same key; empty: the worker validates nothing.
	PayloadValidationJMESPath string
	// HashFunction (hash_function) is md5, sha1, sha256, sha384 or sha512; empty
	// means md5.
	HashFunction string
	// KeyAttr and the other names are those of the table's attributes; empty
	// means id, status, expiration, in_progress_expiration, data, validation.
	KeyAttr, StatusAttr, ExpiryAttr, InProgressExpiryAttr, DataAttr, ValidationKeyAttr string
	// SortKeyAttr (sort_key_attr), if the table has one: then the hash key is
	// StaticPKValue (static_pk_value, "idempotency#FUNCTION"), required with it.
	SortKeyAttr, StaticPKValue string
	// ReceiptJMESPath selects the receipt from the stored response; empty takes
	// all of it.
	ReceiptJMESPath string
	// Step is the step that a record speaks for; empty is the whole task.
	Step string
	// ExpiresAfter (expires_after_seconds) is how long records live; 0 means
	// DefaultExpiresAfter. It dates records that say INPROGRESS and not until when.
	ExpiresAfter time.Duration
	// MaxRun is how long one run may take; 0 means DefaultMaxRun.
	MaxRun time.Duration
	// Parallel and Timeout are as in awsread.Asking; 0 means its defaults.
	Parallel int
	Timeout  time.Duration
}

// Store reads an idempotency table. It may be used concurrently.
type Store struct {
	o      Options
	keys   keys
	asking awsread.Asking
	retry  retry.Policy
}

var _ dlqbridge.Store = (*Store)(nil)

// New returns a Store; an error names the option that is missing or wrong.
func New(o Options) (*Store, error) {
	o.Name = cmp.Or(o.Name, DefaultName)
	o.Input = cmp.Or(o.Input, InputRecord)
	o.Step = cmp.Or(o.Step, dlqbridge.AllSteps)
	o.KeyAttr, o.StatusAttr = cmp.Or(o.KeyAttr, "id"), cmp.Or(o.StatusAttr, "status")
	o.ExpiryAttr = cmp.Or(o.ExpiryAttr, "expiration")
	o.InProgressExpiryAttr = cmp.Or(o.InProgressExpiryAttr, "in_progress_expiration")
	o.DataAttr, o.ValidationKeyAttr = cmp.Or(o.DataAttr, "data"), cmp.Or(o.ValidationKeyAttr, "validation")
	if o.ExpiresAfter <= 0 {
		o.ExpiresAfter = DefaultExpiresAfter
	}
	if o.MaxRun <= 0 {
		o.MaxRun = DefaultMaxRun
	}
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("powertools: %w", err)
	}
	k, err := newKeys(o)
	if err != nil {
		return nil, fmt.Errorf("powertools: %w", err)
	}
	place := "table " + o.Table
	return &Store{
		o: o, keys: k, retry: awsread.TablePolicy(o.Client),
		asking: awsread.Asking{
			Store: o.Name, Place: place, Needs: "dynamodb:GetItem on " + place,
			Refused:  fmt.Sprintf("are KeyAttr (%s) and SortKeyAttr (%s) all its keys, both strings?", o.KeyAttr, o.SortKeyAttr),
			Parallel: o.Parallel, Timeout: o.Timeout,
		},
	}, nil
}

func (o Options) check() error {
	switch {
	case o.Client == nil:
		return errors.New("option Client is required")
	case o.Table == "":
		return errors.New("option Table is required")
	case o.Runtime != Python && o.Runtime != TypeScript:
		return fmt.Errorf("Runtime %q: must be %s or %s", o.Runtime, Python, TypeScript)
	case o.Prefix == "":
		return errors.New("option Prefix is required: what stands before # in the table's keys")
	case o.Input != InputRecord && o.Input != InputEvent && o.Input != InputBody:
		return fmt.Errorf("Input %q: must be %s, %s or %s", o.Input, InputRecord, InputEvent, InputBody)
	case o.EventKeyJMESPath == "" && o.Input != InputBody:
		return fmt.Errorf("EventKeyJMESPath is required with Input %s: a whole %s holds what no dead letter keeps", o.Input, o.Input)
	case o.SortKeyAttr != "" && o.SortKeyAttr == o.KeyAttr:
		return fmt.Errorf("SortKeyAttr and KeyAttr are both %s", o.KeyAttr)
	case o.SortKeyAttr != "" && o.StaticPKValue == "":
		return errors.New("StaticPKValue is required with SortKeyAttr: idempotency# and the function's name by default")
	case o.SortKeyAttr == "" && o.StaticPKValue != "":
		return errors.New("StaticPKValue has no meaning without SortKeyAttr")
	}
	return nil
}

// Name implements dlqbridge.Store.
func (s *Store) Name() string { return s.o.Name }

// NeedsPayload says that a question must come with the message: the key is made
// from that.
func (s *Store) NeedsPayload() bool { return true }

// Ask implements dlqbridge.Store: one consistent read per task.
func (s *Store) Ask(ctx context.Context, questions []dlqbridge.Question) []dlqbridge.Testimony {
	return s.asking.Ask(ctx, questions, s.read)
}

func (s *Store) read(ctx context.Context, q dlqbridge.Question) (dlqbridge.Testimony, error) {
	if q.Payload == nil {
		return dlqbridge.Testimony{}, awsread.UnavailableError("the message is not at hand, and the key is made from it")
	}
	key, validation, why := s.keys.of(q)
	if why != "" {
		return s.silence(q, why), nil
	}
	out, err := awsread.Call(ctx, s.retry, func(ctx context.Context) (*dynamodb.GetItemOutput, error) {
		return s.o.Client.GetItem(ctx, &dynamodb.GetItemInput{
			TableName: aws.String(s.o.Table), Key: s.key(key), ConsistentRead: aws.Bool(true),
		})
	})
	if err != nil {
		return dlqbridge.Testimony{}, fmt.Errorf("read idempotency record: %w", err)
	}
	if len(out.Item) == 0 {
		return s.silence(q, "no record under the key of this message"), nil
	}
	return s.testify(q, s.decode(out.Item), validation), nil
}

// key is the table's key of an idempotency key.
func (s *Store) key(idempotencyKey string) awsread.Item {
	if s.o.SortKeyAttr == "" {
		return awsread.Item{s.o.KeyAttr: &types.AttributeValueMemberS{Value: idempotencyKey}}
	}
	return awsread.Item{
		s.o.KeyAttr:     &types.AttributeValueMemberS{Value: s.o.StaticPKValue},
		s.o.SortKeyAttr: &types.AttributeValueMemberS{Value: idempotencyKey},
	}
}
