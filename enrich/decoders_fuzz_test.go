package enrich

import (
	"bytes"
	"testing"
	"unicode/utf8"

	"github.com/dlqbridge/dlqbridge"
)

// FuzzGunzip: unpacking is bounded and fails on nothing.
func FuzzGunzip(f *testing.F) {
	f.Add([]byte("H4sIAAAAAAAA/wMAAAAAAAAAAAA="))
	f.Add([]byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"))
	f.Fuzz(func(t *testing.T, in []byte) {
		before := bytes.Clone(in)
		out, whole, ok := gunzip(in)
		if len(out) > maxDecoded || !bytes.Equal(in, before) {
			t.Fatalf("%d bytes, whole %v, ok %v", len(out), whole, ok)
		}
	})
}

// FuzzTexts holds the small decoders: none fails, none makes a text that cannot
// be stored.
func FuzzTexts(f *testing.F) {
	for _, s := range []string{
		"agent__0x2e__ctx", "__0x", "__0x__0x2e__", "__0xzz__", `s:4:"acme";`, "s:", `s:1:"`, "eyJhIjoxfQ==", "W10", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"Root=1-2;Parent=3", "datadog:7", "arn:aws:sns:r:a:t", "HTTP/1.1 503", "a.b#c:d", `{"rec":"r_x"}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		cdkName(s)
		phpString(s)
		isARN(s, "sns")
		traceID(s)
		causeOfCode(s)
		causeOfMessage(s)
		if out, ok := decodeBase64JSON([]byte(s)); ok && len(out) > len(s) {
			t.Fatalf("%d bytes became %d", len(s), len(out))
		}
		for _, limit := range []int{16, maxName} {
			if out := cut(s, limit); len(out) > limit || !utf8.ValidString(out) {
				t.Fatalf("cut to %d: %q", limit, out)
			}
			if out := exact(s, s, limit+32); len(out) > limit+32 || !utf8.ValidString(out) {
				t.Fatalf("exact to %d: %q", limit, out)
			}
		}
		// An explanation can be made of anything that a letter said.
		Explain(dlqbridge.Case{Control: dlqbridge.Control{Why: dlqbridge.Why(s)}, Contexts: []dlqbridge.Context{{Failure: dlqbridge.Failure{Rule: s, Message: s}, Restriction: s}}}, Around{})
	})
}
