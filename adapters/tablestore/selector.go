package tablestore

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/jmespath-community/go-jmespath/pkg/api"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awserr/awsread"
)

// selector finds a value in a row; nil finds nothing.
type selector func(row map[string]any) any

// compile reads a selector: attr:NAME, item:/JSON/POINTER, jmespath:EXPRESSION.
func compile(text string) (selector, error) {
	kind, rest, found := strings.Cut(text, ":")
	switch {
	case text == "":
		return func(map[string]any) any { return nil }, nil
	case !found || rest == "":
		return nil, fmt.Errorf("%q is no selector: write attr:NAME, item:/JSON/POINTER or jmespath:EXPRESSION", text)
	case kind == "attr":
		return func(row map[string]any) any { return row[rest] }, nil
	case kind == "item":
		if !strings.HasPrefix(rest, "/") {
			return nil, fmt.Errorf("%q: a pointer begins with /", text)
		}
		steps := strings.Split(rest[1:], "/")
		for i, s := range steps {
			steps[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(s)
		}
		return func(row map[string]any) any { return follow(row, steps) }, nil
	case kind == "jmespath":
		e, err := api.Compile(rest)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		return func(row map[string]any) any {
			v, err := search(e, row)
			if err != nil {
				return nil // a row of another shape has nothing there
			}
			return v
		}, nil
	}
	return nil, fmt.Errorf("%q: a selector is attr:NAME, item:/JSON/POINTER or jmespath:EXPRESSION", text)
}

// search keeps a panic of the library over an odd row to that row.
func search(e api.JMESPath, v any) (found any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return e.Search(v)
}

// follow goes down a JSON pointer. A text on the way is read as JSON.
func follow(v any, steps []string) any {
	for _, s := range steps {
		if text, ok := v.(string); ok {
			d := json.NewDecoder(strings.NewReader(text))
			d.UseNumber()
			if err := d.Decode(&v); err != nil {
				return nil
			}
		}
		switch in := v.(type) {
		case map[string]any:
			v = in[s]
		case []any:
			i, err := strconv.Atoi(s)
			if err != nil || i < 0 || i >= len(in) {
				return nil
			}
			v = in[i]
		default:
			return nil
		}
	}
	return v
}

// timeOf reads RFC 3339, or a number of seconds or milliseconds since 1970;
// anything else is no time.
func timeOf(v any) time.Time {
	text := strings.TrimSpace(awsread.Text(v))
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t, err := dlqbridge.ParseTime(text)
		if err != nil {
			return time.Time{}
		}
		return t
	}
	const (
		year2286     = 1e10 // in seconds; as milliseconds it is April 1970
		year2286InMs = 1e13
	)
	switch {
	case math.IsNaN(n) || n <= 0 || n >= year2286InMs:
		return time.Time{}
	case n < year2286:
		n *= 1000
	}
	return time.UnixMilli(int64(n)).UTC()
}

// fill puts a task into a template; false if the task lacks what it needs.
func fill(template string, q dlqbridge.Question) (string, bool) {
	values := map[string]string{"{taskId}": q.TaskID, "{runId}": q.RunID, "{idempotencyKey}": q.IdempotencyKey, "{tenant}": q.Tenant}
	var pairs []string
	for _, p := range placeholders {
		if strings.Contains(template, p) && values[p] == "" {
			return "", false
		}
		pairs = append(pairs, p, values[p])
	}
	return strings.NewReplacer(pairs...).Replace(template), true
}

var errNumber = errors.New("not a number")

// checkNumber says whether DynamoDB would take a text for a number.
func checkNumber(text string) error {
	if _, err := strconv.ParseFloat(text, 64); err != nil || strings.ContainsAny(text, "xXpP_nNiI") {
		return errNumber
	}
	return nil
}
