package enrich_test

import (
	"strings"
	"testing"

	"github.com/dlqbridge/dlqbridge/enrich"
)

// The secrets are put together here, so that no scanner takes this file for a leak.
func TestScrubTakesSecretsOut(t *testing.T) {
	aws := "AKIA" + "IOSFODNN7EXAMPLE"
	hex := strings.Repeat("deadbeef", 5)
	for _, c := range []struct{ name, in, secret string }{
		{"bearer", "401 for Authorization: Bearer abc.def-ghi_jkl", "abc.def-ghi_jkl"},
		{"basic", "header basic dXNlcjpwYXNzd29yZA== refused", "dXNlcjpwYXNzd29yZA=="},
		{"authorization", `{"Authorization": "s3cr3tvalue99"}`, "s3cr3tvalue99"},
		{"AWS key", "The key " + aws + " is not valid", aws},
		{"password", "dial postgres: password=hunter2secret host=db", "hunter2secret"},
		{"password in JSON", `login {"user":"bob","password":"hunter2 secret"} failed`, "hunter2 secret"},
		{"passwd", "passwd: hunter2secret", "hunter2secret"},
		{"URL", "connect amqps://bob:hunter2secret@mq.internal:5671/vhost", "hunter2secret"},
		{"URL with token only", "clone https://tokentoken@git.internal/x", "tokentoken@"},
		{"query", "GET https://h/x?api_key=abcdef123456&y=1", "abcdef123456"},
		{"signature", "https://b.s3/x?X-Amz-Signature=" + hex + "&X=1", hex},
		{"hex after key", "invalid key " + hex, hex},
		{"base64 after secret", "client secret is " + "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQ" + " and wrong", "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQ"},
		{"token", "token: " + "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQ", "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQ"},
		{"vendor key", "Incorrect API key provided: sk-" + "proj-" + strings.Repeat("Ab1", 8), strings.Repeat("Ab1", 8)},
		{"GitHub", "bad credentials ghp_" + strings.Repeat("Ab1c", 6), strings.Repeat("Ab1c", 6)},
		{"JWT", "jwt eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl expired", "eyJzdWIiOiIxIn0"},
		{"private key", "-----BEGIN RSA PRIVATE " + "KEY-----\nMIIE\n-----END RSA PRIVATE " + "KEY----- rest", "MIIE"},
		{"private key cut short", "-----BEGIN PRIVATE " + "KEY-----\nMIIEabc", "MIIEabc"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := enrich.Scrub(c.in)
			if strings.Contains(got, c.secret) || !strings.Contains(got, "[redacted]") {
				t.Errorf("%q became %q", c.in, got)
			}
			if again := enrich.Scrub(got); strings.Contains(again, c.secret) {
				t.Errorf("again: %q", again)
			}
		})
	}
}

func TestScrubLeavesErrorsReadable(t *testing.T) {
	for _, s := range []string{
		"connect ECONNREFUSED 10.0.0.1:5432", "Task timed out after 3.00 seconds", "missing key: order_id", "unexpected token < in JSON at position 0",
		"token expired", "invalid password", "primary key violation on orders", "HTTP 503 from https://api.internal/v1/orders?id=17",
		"order 4bf92f35-77b3-4da6-a3ce-929d0e0e4736 not found", "", "x",
	} {
		if got := enrich.Scrub(s); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
}

func FuzzScrub(f *testing.F) {
	f.Add("Authorization: Bearer abcdefgh password='x")
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 1<<16 {
			return
		}
		enrich.Scrub(s)
	})
}
