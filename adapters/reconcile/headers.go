package reconcile

import (
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"regexp"
	"slices"
	"strings"
)

// headers are what is sent besides the question, and the secrets among them,
// which may not come back out in a receipt.
type headers struct {
	set     http.Header
	secrets []string
}

// Headers that say how a message is framed or to whom it goes are not free.
var fixedHeaders = []string{
	"Host", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "Te", "Trailer", "Keep-Alive", "Proxy-Authorization", "Accept-Encoding", "Expect",
}

var (
	envPattern       = regexp.MustCompile(`^(.*?)\benv:(\S*)$`)
	envNamePattern   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	fieldNamePattern = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
)

// parseHeaders reads the headers and their secrets once, at the start, so that
// a missing one is seen then. No error holds a value.
func parseHeaders(in map[string]string, env func(string) (string, bool)) (headers, error) {
	out := headers{set: http.Header{}}
	for name, value := range in {
		key := textproto.CanonicalMIMEHeaderKey(name)
		switch {
		case !fieldNamePattern.MatchString(name):
			return headers{}, fmt.Errorf("headers: %q is not a header name", name)
		case slices.Contains(fixedHeaders, key):
			return headers{}, fmt.Errorf("headers: %s cannot be set", key)
		case out.set.Get(key) != "":
			return headers{}, fmt.Errorf("headers: %s stands there twice", key)
		case placeholderPattern.MatchString(value):
			return headers{}, fmt.Errorf("headers: %s: placeholders stand in url and body only", key)
		}
		if m := envPattern.FindStringSubmatch(value); m != nil {
			secret, err := lookup(m[2], env)
			if err != nil {
				return headers{}, fmt.Errorf("headers: %s: %w", key, err)
			}
			value = m[1] + secret
			out.secrets = append(out.secrets, secret)
		}
		if value == "" || strings.TrimSpace(value) != value || strings.ContainsFunc(value, func(r rune) bool { return r < 0x20 && r != '\t' || r == 0x7f }) {
			return headers{}, fmt.Errorf("headers: %s: the value is empty, or has blanks around it or control characters in it", key)
		}
		out.set.Set(key, value)
	}
	return out, nil
}

func lookup(name string, env func(string) (string, bool)) (string, error) {
	if !envNamePattern.MatchString(name) {
		return "", errors.New("write env:NAME at the end, with the name of a variable")
	}
	if env == nil {
		return "", errors.New("option Env is required")
	}
	value, ok := env(name)
	if !ok || value == "" {
		return "", fmt.Errorf("variable %s is not set", name)
	}
	return value, nil
}
