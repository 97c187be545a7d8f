package awserr_test

import (
	"context"
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awserr"
)

// C75: the default chain reads the credentials file once; after Invalidate it
// is built anew.
func TestC75CredentialsAreLoadedAnewAfterInvalidate(t *testing.T) {
	file := "old"
	c := &awserr.Credentials{Load: func(context.Context) (aws.CredentialsProvider, error) {
		read := file // as the SDK does: read at once, kept for ever
		return aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			if read == "" {
				return aws.Credentials{}, errors.New("no keys in the file")
			}
			return aws.Credentials{AccessKeyID: read, SecretAccessKey: "s"}, nil
		}), nil
	}}
	key := func() string {
		found, err := c.Retrieve(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return found.AccessKeyID
	}
	if got := key(); got != "old" {
		t.Fatalf("got key %s", got)
	}
	file = "new"
	if got := key(); got != "old" {
		t.Errorf("got key %s before Invalidate, want the cached one", got)
	}
	awserr.Renew(c)()
	if got := key(); got != "new" {
		t.Errorf("got key %s after Invalidate, want new", got)
	}
	file = ""
	c.Invalidate()
	if _, err := c.Retrieve(context.Background()); !errors.Is(err, dlqbridge.ErrCredentials) {
		t.Errorf("got %v, want ErrCredentials", err)
	}
}
