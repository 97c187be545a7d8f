package enrich

import (
	"regexp"
	"strings"
)

// redacted stands where a secret was.
const redacted = "[redacted]"

// secretWords are names of secrets, as the end of an expression's name.
const secretWords = `passw(?:or)?d|passwd|pwd|passphrase|secret|client[_-]?secret|(?:api|access|private|secret|account)[_-]?key|(?:access|refresh|auth|id|session|security)?[_-]?token|credentials?|signature|\bsig|sessionid|session[_-]id` //nolint:gosec // a pattern of secrets, none itself

// secretPart is one character of a secret without quotes. A bracket is none at
// its beginning, where nothing that could be one follows: JSON goes on there.
const secretPart = `[^\s&,;"'}\]){\[\\]|\\[^"'\s]` //nolint:gosec // a pattern of secrets, none itself

// scrubber is one kind of secret. Its hints are texts of which one must be
// there, in lower case, before the expression is worth running: most error
// texts hold none, and every letter has one.
type scrubber struct {
	hints  []string
	expr   *regexp.Regexp
	answer string
}

// scrubbers run in order. They prefer a word too much to a secret kept: an
// error text is for a person, and the exact bytes are in the payload.
var scrubbers = []scrubber{
	// Private keys, to their end or that of the text.
	{[]string{"-----begin"}, regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|$)`), redacted},
	// scheme://user:password@host
	{[]string{"://"}, regexp.MustCompile(`(?i)\b([a-z][a-z0-9+.-]{1,20}://)[^\s/@'"<>]{1,400}@`), "${1}" + redacted + "@"},
	// Authorization: Bearer …, Basic …, Token …
	{[]string{"bearer", "basic", "authorization"}, regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9+/._~=-]{6,}`), "${1} " + redacted},
	{[]string{"authorization"}, regexp.MustCompile(`(?i)\b((?:proxy-)?authorization["']?\s*[:=]\s*["']?)(?:[A-Za-z0-9-]+\s+)?[A-Za-z0-9+/._~=-]{6,}`), "${1}" + redacted},
	// Cloud and vendor keys by their own prefixes.
	{[]string{"akia", "asia", "aroa", "aida"}, regexp.MustCompile(`\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}\b`), redacted},
	{
		[]string{"sk-", "sk_", "rk_", "pk_", "ghp_", "gho_", "ghs_", "ghu_", "github_pat_", "glpat-", "xox", "aiza", "ya29.", "whsec_"},
		regexp.MustCompile(`\b(?:[srp]k[-_](?:live[-_]|test[-_]|proj[-_]|ant[-_])?[A-Za-z0-9_-]{16,}|gh[posu]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|xox[a-z]-[A-Za-z0-9-]{10,}|AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{16,}|whsec_[A-Za-z0-9+/=]{16,})`), redacted,
	},
	// JSON web tokens.
	{[]string{"eyj"}, regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?`), redacted},
	// password=…, "secret": "…", api_key: …, also where the quotes are escaped or
	// the text is cut. Quotes stay, so that JSON in a text stays JSON, and what was
	// redacted before is not redacted again.
	{
		[]string{"passw", "pwd", "secret", "token", "api", "credential", "private", "access", "signature", "sig=", "session"},
		regexp.MustCompile(`(?i)((?:` + secretWords + `)\\*["']?\s*[=:]\s*)(?:\[redacted\]|(\\+["'])[^"']*?(?:\\+["']|$)|(")(?:[^"\\]|\\.)*(?:"|\\?$)|(')(?:[^'\\]|\\.)*(?:'|\\?$)|[{\[](?:` + secretPart + `)+[}\]]?|(?:` + secretPart + `)(?:` + secretPart + `|[{\[])*)`),
		"${1}${2}${3}${4}" + redacted + "${2}${3}${4}",
	},
	// Long random-looking texts after a word that announces a secret.
	{
		[]string{"key", "token", "secret", "password", "credential"},
		regexp.MustCompile(`(?i)\b((?:[a-z_-]*key|[a-z_-]*token|[a-z_-]*secret|password|credentials?)(?:\s+(?:is|was|provided|id))?[\s:='"(<]{1,4})[A-Za-z0-9+/_=.*-]{20,}`), "${1}" + redacted,
	},
}

// Scrub replaces what looks like a secret in an error text: credentials in
// URLs and headers, keys and tokens by their prefixes, values named password,
// secret, token or key, and long random texts after such words.
func Scrub(s string) string {
	if len(s) < 8 {
		return s
	}
	lower := strings.ToLower(s)
	for _, c := range scrubbers {
		for _, h := range c.hints {
			if strings.Contains(lower, h) {
				s = c.expr.ReplaceAllString(s, c.answer)
				break
			}
		}
	}
	return s
}
