package awserr_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awserr"
)

// doer is an HTTP client that answers every request alike.
type doer func(*http.Request) (*http.Response, error)

func (d doer) Do(r *http.Request) (*http.Response, error) { return d(r) }

func config(d doer) aws.Config {
	return aws.Config{
		Region:       "eu-central-1",
		BaseEndpoint: aws.String("http://cloud"),
		HTTPClient:   d,
		Retryer:      func() aws.Retryer { return aws.NopRetryer{} },
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "a", SecretAccessKey: "b"}, nil
		}),
	}
}

func answer(status int, header map[string]string, body string) doer {
	return func(r *http.Request) (*http.Response, error) {
		h := http.Header{"Content-Type": {"application/x-amz-json-1.0"}, "X-Amzn-Requestid": {"req-1"}}
		for k, v := range header {
			h.Set(k, v)
		}
		return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	}
}

func sendError(d doer) error {
	_, err := sqs.NewFromConfig(config(d)).SendMessage(context.Background(), &sqs.SendMessageInput{
		QueueUrl: aws.String("http://cloud/1/q"), MessageBody: aws.String("x"),
	})
	return err
}

func putError(d doer) error {
	_, err := dynamodb.NewFromConfig(config(d)).PutItem(context.Background(), &dynamodb.PutItemInput{
		TableName: aws.String("t"), Item: map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: "x"}},
	})
	return err
}

// only fails unless err has exactly the meaning want.
func only(t *testing.T, err, want error) {
	t.Helper()
	for _, m := range []error{
		dlqbridge.ErrNotFound, dlqbridge.ErrExists, dlqbridge.ErrConflict, dlqbridge.ErrThrottled, dlqbridge.ErrUnavailable,
		dlqbridge.ErrCredentials, dlqbridge.ErrDenied, dlqbridge.ErrTooLarge, dlqbridge.ErrInvalid, dlqbridge.ErrUnclear,
	} {
		if got := errors.Is(err, m); got != errors.Is(want, m) {
			t.Errorf("errors.Is(%q, %q) = %v, want meaning %q", err, m, got, want)
		}
	}
}

// C76: one fault in two spellings has one meaning, whatever type the SDK makes of it.
func TestC76OneMeaningForEverySpelling(t *testing.T) {
	for _, row := range []struct {
		shape, query string
		want         error
	}{
		{"QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", dlqbridge.ErrNotFound},
		{"AWS.SimpleQueueService.NonExistentQueue", "", dlqbridge.ErrNotFound},
		{"AccessDeniedException", "AccessDenied", dlqbridge.ErrDenied},
		{"AccessDenied", "", dlqbridge.ErrDenied},
		{"RequestThrottled", "RequestThrottled", dlqbridge.ErrThrottled},
		{"ThrottlingException", "Throttling", dlqbridge.ErrThrottled},
		{"OverLimit", "OverLimit", dlqbridge.ErrThrottled},
		{"KmsThrottled", "KMS.ThrottlingException", dlqbridge.ErrThrottled},
		{"KmsAccessDenied", "KMS.AccessDeniedException", dlqbridge.ErrDenied},
		{"KmsNotFound", "KMS.NotFoundException", dlqbridge.ErrDenied},
		{"KmsDisabled", "KMS.DisabledException", dlqbridge.ErrDenied},
		{"ExpiredTokenException", "ExpiredToken", dlqbridge.ErrCredentials},
		{"UnrecognizedClientException", "InvalidClientTokenId", dlqbridge.ErrCredentials},
		{"InvalidSignatureException", "SignatureDoesNotMatch", dlqbridge.ErrCredentials},
		{"InvalidMessageContents", "InvalidMessageContents", dlqbridge.ErrInvalid},
		{"InvalidParameterValueException", "InvalidParameterValue", dlqbridge.ErrInvalid},
		{"MissingRequiredParameterException", "MissingParameter", dlqbridge.ErrInvalid},
		{"BatchRequestTooLong", "AWS.SimpleQueueService.BatchRequestTooLong", dlqbridge.ErrTooLarge},
		{"ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid", dlqbridge.ErrNotFound},
		{"QueueNameExists", "QueueAlreadyExists", dlqbridge.ErrExists},
	} {
		t.Run(row.shape, func(t *testing.T) {
			body := `{"__type":"com.amazonaws.sqs#` + row.shape + `","message":"m"}`
			header := map[string]string{}
			if row.query != "" {
				header["x-amzn-query-error"] = row.query + ";Sender"
			}
			only(t, awserr.Wrap(sendError(answer(400, header, body))), row.want)
			only(t, awserr.Entry(row.shape, "m", true), row.want)
			if row.query != "" {
				only(t, awserr.Entry(row.query, "m", true), row.want)
			}
		})
	}
}

func TestWrapKnowsWhatDynamoDBSays(t *testing.T) {
	for _, row := range []struct {
		code, message string
		status        int
		want          error
	}{
		{"ConditionalCheckFailedException", "The conditional request failed", 400, dlqbridge.ErrConflict},
		{"ResourceNotFoundException", "Requested resource not found", 400, dlqbridge.ErrNotFound},
		{"ProvisionedThroughputExceededException", "", 400, dlqbridge.ErrThrottled},
		{"RequestLimitExceeded", "", 400, dlqbridge.ErrThrottled},
		{"ThrottlingException", "", 400, dlqbridge.ErrThrottled},
		{"TransactionConflictException", "", 400, dlqbridge.ErrThrottled},
		{"TransactionInProgressException", "", 400, dlqbridge.ErrUnclear},
		{"ValidationException", "The provided key element does not match the schema", 400, dlqbridge.ErrInvalid},
		{"ValidationException", "Item size has exceeded the maximum allowed size", 400, dlqbridge.ErrTooLarge},
		{"ItemCollectionSizeLimitExceededException", "", 400, dlqbridge.ErrTooLarge},
		{"InternalServerError", "", 500, dlqbridge.ErrUnclear},
		{"ServiceUnavailable", "", 503, dlqbridge.ErrUnclear},
		{"SomethingNewException", "", 400, dlqbridge.ErrInvalid},
		{"SomethingNewException", "", 500, dlqbridge.ErrUnclear},
	} {
		t.Run(row.code, func(t *testing.T) {
			body := `{"__type":"com.amazonaws.dynamodb.v20120810#` + row.code + `","message":"` + row.message + `"}`
			only(t, awserr.Wrap(putError(answer(row.status, nil, body))), row.want)
		})
	}
}

func TestWrapJudgesACancelledTransactionByItsReasons(t *testing.T) {
	reason := func(codes ...string) error {
		err := &types.TransactionCanceledException{}
		for _, c := range codes {
			err.CancellationReasons = append(err.CancellationReasons, types.CancellationReason{Code: aws.String(c)})
		}
		return fmt.Errorf("operation: %w", err)
	}
	only(t, awserr.Wrap(reason("None", "ConditionalCheckFailed", "ThrottlingError")), dlqbridge.ErrConflict)
	only(t, awserr.Wrap(reason("TransactionConflict", "None")), dlqbridge.ErrThrottled)
	only(t, awserr.Wrap(reason("ThrottlingError", "ValidationError")), dlqbridge.ErrInvalid)
}

func TestWrapSaysNotSentOnlyWhenNothingWasSent(t *testing.T) {
	fails := func(err error) doer {
		return func(*http.Request) (*http.Response, error) { return nil, err }
	}
	for _, row := range []struct {
		name string
		d    doer
		want error
	}{
		{"refused connection", fails(&net.OpError{Op: "dial", Err: errors.New("connection refused")}), dlqbridge.ErrUnavailable},
		{"unknown host", fails(&net.DNSError{Err: "no such host", IsNotFound: true}), dlqbridge.ErrUnavailable},
		{"wrong certificate", fails(&tls.CertificateVerificationError{Err: errors.New("expired")}), dlqbridge.ErrUnavailable},
		{"reset while reading", fails(&net.OpError{Op: "read", Err: errors.New("connection reset by peer")}), dlqbridge.ErrUnclear},
		{"broken pipe", fails(&net.OpError{Op: "write", Err: errors.New("broken pipe")}), dlqbridge.ErrUnclear},
		{"cut answer", fails(io.ErrUnexpectedEOF), dlqbridge.ErrUnclear},
		{"timeout", fails(&net.OpError{Op: "read", Err: timeoutError{}}), dlqbridge.ErrUnclear},
		{"unreadable success", answer(200, nil, `{"MessageId":`), dlqbridge.ErrUnclear},
		{"wrong checksum", answer(200, nil, `{"MessageId":"m","MD5OfMessageBody":"00"}`), dlqbridge.ErrUnclear},
		{"bad gateway", answer(502, nil, `<html>`), dlqbridge.ErrUnclear},
		{"gateway timeout", answer(504, nil, ``), dlqbridge.ErrUnclear},
		{"request timeout", answer(408, nil, ``), dlqbridge.ErrUnclear},
		{"proxy says too many", answer(429, nil, `<html>`), dlqbridge.ErrThrottled},
		{"proxy says no", answer(403, nil, `<html>`), dlqbridge.ErrDenied},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := awserr.Wrap(sendError(row.d))
			only(t, err, row.want)
			if _, ok := errors.AsType[*smithy.OperationError](err); !ok {
				t.Errorf("%v lost its cause", err)
			}
		})
	}
}

type timeoutError struct{}

func (timeoutError) Error() string   { return "i/o timeout" }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }

func TestWrapKeepsTheContextsOwnError(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	client := sqs.NewFromConfig(config(func(r *http.Request) (*http.Response, error) {
		cancel()
		return nil, r.Context().Err()
	}))
	_, err := client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: aws.String("http://cloud/1/q"), MessageBody: aws.String("x")})
	err = awserr.Wrap(err)
	only(t, err, dlqbridge.ErrUnclear)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v is no longer context.Canceled", err)
	}
}

func TestWrapKnowsACallThatHadNoCredentials(t *testing.T) {
	cfg := config(answer(200, nil, `{}`))
	cfg.Credentials = aws.NewCredentialsCache(aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{}, &net.OpError{Op: "dial", Err: errors.New("no metadata service")}
	}))
	_, err := sqs.NewFromConfig(cfg).ListQueues(context.Background(), &sqs.ListQueuesInput{})
	only(t, awserr.Wrap(err), dlqbridge.ErrCredentials)
}

func TestWrapKnowsAMissingRegion(t *testing.T) {
	cfg := config(answer(200, nil, `{}`))
	cfg.Region, cfg.BaseEndpoint = "", nil
	_, err := sqs.NewFromConfig(cfg).ListQueues(context.Background(), &sqs.ListQueuesInput{})
	only(t, awserr.Wrap(err), dlqbridge.ErrInvalid)
}

func TestWrapOfNilAndOfWrapped(t *testing.T) {
	if err := awserr.Wrap(nil); err != nil {
		t.Errorf("Wrap(nil) = %v", err)
	}
	once := awserr.Wrap(io.ErrUnexpectedEOF)
	if twice := awserr.Wrap(once); twice != once { //nolint:errorlint // the very same value is wanted
		t.Errorf("Wrap(Wrap(err)) = %v, want %v", twice, once)
	}
	only(t, awserr.Wrap(fmt.Errorf("read: %w", dlqbridge.ErrNotFound)), dlqbridge.ErrNotFound)
}

// I12: what the service quotes from a request is not in our texts.
func TestNoSecretInErrorTexts(t *testing.T) {
	const secret = "s3cr3t"
	for _, row := range []struct{ code, message string }{
		{"InvalidParameterValueException", "Value " + secret + ` for parameter MessageGroupId is invalid. Reason: too long.`},
		{"InvalidParameterValueException", "Value a\\n" + secret + ` for parameter MessageGroupId is invalid. Reason: two lines.`},
		{"ReceiptHandleIsInvalid", `The input receipt handle \"` + secret + `\" is not a valid receipt handle.`},
		{"InvalidSignatureException", "The Canonical String should have been 'x-amz-security-token:" + secret + "'"},
		{"IncompleteSignature", "Authorization=AWS4-HMAC-SHA256 " + secret},
		{"ValidationException", "The parameter cannot be converted to a numeric value: " + secret},
	} {
		t.Run(row.code, func(t *testing.T) {
			body := `{"__type":"com.amazonaws.sqs#` + row.code + `","message":"` + row.message + `"}`
			entry := strings.NewReplacer(`\"`, `"`, `\n`, "\n").Replace(row.message)
			for _, err := range []error{awserr.Wrap(sendError(answer(400, nil, body))), awserr.Entry(row.code, entry, true)} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("text tells the secret: %v", err)
				}
				if !strings.Contains(err.Error(), row.code) {
					t.Errorf("text lacks the code %s: %v", row.code, err)
				}
			}
		})
	}
}

func TestTextSaysWhatWasTriedAndTheRequest(t *testing.T) {
	body := `{"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"The specified queue does not exist."}`
	got := awserr.Wrap(sendError(answer(400, nil, body))).Error()
	want := "not found: SQS SendMessage: QueueDoesNotExist: The specified queue does not exist. (request req-1)"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// C02: a failed entry was not carried out; whose fault it was decides whether
// trying again helps.
func TestC02EntryWithoutAKnownCode(t *testing.T) {
	only(t, awserr.Entry("InternalError", "", false), dlqbridge.ErrUnavailable)
	only(t, awserr.Entry("ServiceUnavailable", "", false), dlqbridge.ErrUnavailable)
	only(t, awserr.Entry("SomethingNew", "", false), dlqbridge.ErrUnavailable)
	only(t, awserr.Entry("SomethingNew", "", true), dlqbridge.ErrInvalid)
	only(t, awserr.Entry("RequestThrottled", "", false), dlqbridge.ErrThrottled)
	only(t, awserr.Entry("InvalidParameterValue", "One or more parameters are invalid. Reason: Message must be shorter than 1024 bytes.", true), dlqbridge.ErrTooLarge)
}
