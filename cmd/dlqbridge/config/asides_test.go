package config_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/config"
)

// A place besides the source is one of its own, on the same broker.
func TestPlacesBesidesTheSourceAreChecked(t *testing.T) {
	_, err := load(t, read(t, "asides.yaml"), nil, nil)
	if !errors.Is(err, config.ErrConfig) || strings.Contains(err.Error(), "secret") {
		t.Fatalf("got %v, want ErrConfig without a secret", err)
	}
	golden(t, "asides.golden", []byte(err.Error()+"\n"))
}
