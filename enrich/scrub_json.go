package enrich

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/dlqbridge/dlqbridge/enrich/jsonspan"
)

// secretName is the end of a name whose value is a secret, whatever it looks like.
var secretName = regexp.MustCompile(`(?i)(?:` + secretWords + `|authorization)$`)

// A name that may announce a secret, and a value that looks like one.
var (
	secretKind  = regexp.MustCompile(`(?i)(?:key|token|secret|password|credentials?)$`)
	secretValue = regexp.MustCompile(`^[A-Za-z0-9+/_=.*-]{20,}$`)
)

// scrubText scrubs a text of any kind. One that is a JSON object or list stays
// one: only values are replaced, and all else is kept as it was written.
func scrubText(s string) string {
	if t := strings.TrimSpace(s); t == "" || t[0] != '{' && t[0] != '[' || !json.Valid([]byte(s)) {
		return Scrub(s)
	}
	return scrubJSON(s)
}

// scrubJSON walks over valid JSON. Whatever stands below a secret's name is secret.
func scrubJSON(s string) string {
	var out strings.Builder
	var outer []bool // for each open object or list, whether what it stands in is secret
	inside, named, name := false, false, ""
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == '"':
			end := jsonspan.End(s, i)
			raw := s[i:end]
			if strings.HasPrefix(s[jsonspan.Blanks(s, end):], ":") {
				name = text([]byte(raw))
				named = secretName.MatchString(name)
				out.WriteString(quoted(raw, name, Scrub(name)))
			} else {
				out.WriteString(scrubbedValue(raw, name, inside || named))
			}
			i = end
			continue
		case c == '{' || c == '[':
			outer = append(outer, inside)
			inside, named, name = inside || named, false, ""
		case c == '}' || c == ']':
			inside, outer = outer[len(outer)-1], outer[:len(outer)-1]
		case c == ',':
			named, name = false, ""
		case (inside || named) && (c == '-' || c >= '0' && c <= '9'):
			for i < len(s) && strings.IndexByte("+-.eE0123456789", s[i]) >= 0 {
				i++
			}
			out.WriteString(`"` + redacted + `"`)
			continue
		}
		out.WriteByte(s[i])
		i++
	}
	return out.String()
}

func scrubbedValue(raw, name string, secret bool) string {
	said := text([]byte(raw))
	if said != "" && (secret || secretKind.MatchString(name) && secretValue.MatchString(said)) {
		return quoted(raw, said, redacted)
	}
	return quoted(raw, said, scrubText(said))
}

// quoted is a text as JSON, as it was written where it has not changed.
func quoted(raw, was, is string) string {
	if was == is {
		return raw
	}
	return string(jsonspan.Quote(is))
}
