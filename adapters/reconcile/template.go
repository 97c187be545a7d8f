package reconcile

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dlqbridge/dlqbridge"
)

// placeholder is one value of a question that a template may hold.
type placeholder struct {
	// name is how a template writes it, words how a sentence does.
	name, words string
	of          func(q dlqbridge.Question) string
	// task: it says which task the question is about.
	task bool
}

var placeholders = []placeholder{
	{"idempotencyKey", "idempotency key", func(q dlqbridge.Question) string { return q.IdempotencyKey }, true},
	{"taskId", "task id", func(q dlqbridge.Question) string { return q.TaskID }, true},
	{"runId", "run id", func(q dlqbridge.Question) string { return q.RunID }, true},
	{"tenant", "tenant", func(q dlqbridge.Question) string { return q.Tenant }, false},
}

const placeholderHint = "the placeholders are {idempotencyKey} {taskId} {runId} {tenant}"

// position is where a value stands, which says how it is escaped.
type position int

const (
	inPath position = iota
	inQuery
	inJSON
	inText
)

// part is a literal text, or the placeholder of that index.
type part struct {
	literal     string
	placeholder int // -1: a literal
	at          position
}

type template []part

// unasked is why a question cannot be put. Silent means that there is nothing
// to ask by; otherwise there is, but it does not fit.
type unasked struct {
	why    string
	silent bool
}

func (u *unasked) Error() string { return u.why }

// maxValue is the longest value that is asked for. Extraction cuts ids of 1,024
// bytes and more, and the outside system never saw the cut one: asking for it
// would find nothing.
const maxValue = 1000

// render fills a template in.
func (t template) render(q dlqbridge.Question) (string, error) {
	var b strings.Builder
	for _, p := range t {
		if p.placeholder < 0 {
			b.WriteString(p.literal)
			continue
		}
		ph := placeholders[p.placeholder]
		value := ph.of(q)
		if value == "" {
			return "", &unasked{"the task has no " + ph.words + " to ask by", true}
		}
		escaped, err := escape(value, p.at)
		if err != nil {
			return "", &unasked{"the " + ph.words + " " + err.Error(), false}
		}
		b.WriteString(escaped)
	}
	return b.String(), nil
}

// escape makes a value stand for itself at its position, or says why it cannot.
func escape(value string, at position) (string, error) {
	switch {
	case len(value) > maxValue:
		return "", fmt.Errorf("is longer than %d bytes", maxValue)
	case !utf8.ValidString(value) || strings.ContainsRune(value, utf8.RuneError):
		return "", errors.New("is not valid UTF-8") // or was not, before it was stored
	case strings.ContainsFunc(value, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		return "", errors.New("holds control characters")
	}
	switch at {
	case inPath:
		// Escaped they are still undone by many servers and gateways on the way,
		// and then another object is asked for.
		if strings.ContainsAny(value, `/\%`) || value == "." || value == ".." {
			return "", errors.New(`cannot stand in a path because of / \ % or dots; put it into the query`)
		}
		return url.PathEscape(value), nil
	case inQuery:
		return url.QueryEscape(value), nil
	case inJSON:
		text, err := json.Marshal(value)
		if err != nil {
			return "", err
		}
		return string(text[1 : len(text)-1]), nil
	case inText:
	}
	return value, nil
}

// parse splits a text at its placeholders. What looks like one and is none is
// refused: sent as it stands it would ask about nothing, and find nothing.
func parse(text string, at position) (template, error) {
	var t template
	last := 0
	for _, m := range placeholderPattern.FindAllStringIndex(text, -1) {
		name := text[m[0]+1 : m[1]-1]
		i := slices.IndexFunc(placeholders, func(p placeholder) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("{%s} at position %d is unknown; %s", name, m[0]+1, placeholderHint)
		}
		t = append(t, part{text[last:m[0]], -1, at}, part{"", i, at})
		last = m[1]
	}
	return append(t, part{text[last:], -1, at}), nil
}

var placeholderPattern = regexp.MustCompile(`\{[A-Za-z_][A-Za-z0-9_.]*\}`)

// uses says whether one of the template's placeholders is asked for.
func (t template) uses(want func(placeholder) bool) bool {
	return slices.ContainsFunc(t, func(p part) bool { return p.placeholder >= 0 && want(placeholders[p.placeholder]) })
}

// address is a URL template with its fixed origin.
type address struct {
	template     template
	scheme, host string
}

// parseURL reads a URL template. Scheme, host and port are fixed.
func parseURL(text string) (address, error) {
	rest, ok := strings.CutPrefix(text, "https://")
	if !ok {
		if rest, ok = strings.CutPrefix(text, "http://"); !ok {
			return address{}, errors.New("url: must begin with https:// (or http://, for addresses in allow_addresses)")
		}
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	origin, rest := text[:len(text)-len(rest)+end], rest[end:]
	switch {
	case strings.ContainsAny(origin, "{}"):
		return address{}, errors.New("url: no placeholder may stand in the host or port: a letter would choose whom to ask")
	case strings.ContainsAny(origin, "@"):
		return address{}, errors.New("url: no user or password; send them in a header with env:NAME")
	case strings.ContainsAny(rest, "#"):
		return address{}, errors.New("url: a #fragment is never sent")
	}
	path, query, asks := strings.Cut(rest, "?")
	t, err := parse(path, inPath)
	if err != nil {
		return address{}, fmt.Errorf("url: path: %w", err)
	}
	if asks {
		q, err := parse(query, inQuery)
		if err != nil {
			return address{}, fmt.Errorf("url: query: %w", err)
		}
		t = append(append(t, part{"?", -1, inQuery}), q...)
	}
	t = append(template{{origin, -1, inPath}}, t...)
	for _, p := range t {
		if p.placeholder < 0 && strings.ContainsFunc(p.literal, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(`{}\`, r) }) {
			return address{}, fmt.Errorf(`url: a space, {, } or \ cannot stand as it is; write %%20, %%7B, %%7D or %%5C; %s`, placeholderHint)
		}
	}
	u, err := url.Parse(placeholderPattern.ReplaceAllString(text, "x"))
	if err != nil || u.Hostname() == "" || u.Opaque != "" {
		return address{}, errors.New("url: not a URL: is the host there, and each % followed by two hex digits?")
	}
	return address{t, u.Scheme, u.Host}, nil
}

// render is the URL for a question; it always points to the fixed origin.
func (a address) render(q dlqbridge.Question) (string, error) {
	text, err := a.template.render(q)
	if err != nil {
		return "", err
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != a.scheme || u.Host != a.host || u.User != nil {
		return "", &unasked{"the question does not make a URL", false}
	}
	for segment := range strings.SplitSeq(u.EscapedPath(), "/") {
		// Two values side by side can make what neither is.
		if segment == "." || segment == ".." {
			return "", &unasked{"the question makes a path that climbs", false}
		}
	}
	return text, nil
}

// parseBody reads a JSON body template whose placeholders stand in texts.
func parseBody(text string) (template, error) {
	t, err := parse(text, inJSON)
	if err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	// An escaped quotation mark is JSON inside a text only.
	probe, err := t.render(dlqbridge.Question{IdempotencyKey: `"`, TaskID: `"`, RunID: `"`, Tenant: `"`})
	if err != nil || !json.Valid([]byte(probe)) {
		return nil, errors.New(`body: not JSON with its placeholders in texts ("{idempotencyKey}", with the quotation marks)`)
	}
	return t, nil
}
