package enrich

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// drawn are the things that differ between failures of one kind, each drawn anew.
var drawn = map[string]func(r *rand.Rand) string{
	"{id}":    func(r *rand.Rand) string { return fmt.Sprintf("%s-%d", word(r), r.IntN(1e6)) },
	"{num}":   func(r *rand.Rand) string { return strconv.FormatInt(r.Int64N(1e12)-5e11, 10) },
	"{float}": func(r *rand.Rand) string { return fmt.Sprintf("%.*f", r.IntN(5), r.Float64()*1e4) },
	"{uuid}": func(r *rand.Rand) string {
		return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", r.Uint32(), r.IntN(1<<16), r.IntN(1<<16), r.IntN(1<<16), r.Int64N(1<<48))
	},
	"{v6}":  func(r *rand.Rand) string { return fmt.Sprintf("2001:db8::%x:%x", r.IntN(1<<16), r.IntN(1<<16)) },
	"{hex}": func(r *rand.Rand) string { return fmt.Sprintf("%x%08x", r.Uint64()|1<<63, r.Uint32()) },
	"{0x}":  func(r *rand.Rand) string { return fmt.Sprintf("0x%x", r.Uint64()) },
	"{quoted}": func(r *rand.Rand) string {
		return []string{`"`, "'", "`"}[r.IntN(3)] + word(r) + " " + word(r) + "X"
	},
	"{url}": func(r *rand.Rand) string {
		return fmt.Sprintf("https://%s.example/%s?x=%d", word(r), word(r), r.IntN(9))
	},
	"{mail}": func(r *rand.Rand) string { return word(r) + "." + word(r) + "@" + word(r) + ".example" },
	"{ip}": func(r *rand.Rand) string {
		return fmt.Sprintf("%d.%d.%d.%d:%d", r.IntN(256), r.IntN(256), r.IntN(256), r.IntN(256), r.IntN(65536))
	},
	"{path}": func(r *rand.Rand) string {
		var out strings.Builder
		for range 1 + r.IntN(4) {
			out.WriteString("/" + word(r))
		}
		return out.String() + []string{"", ".txt", ".json"}[r.IntN(3)]
	},
	"{time}": func(r *rand.Rand) string {
		t := time.Unix(r.Int64N(4e9), r.Int64N(1e9)).UTC()
		return t.Format([]string{time.RFC3339, time.RFC3339Nano, time.RFC1123, time.DateTime, "2006-01-02T15:04:05.000Z07:00"}[r.IntN(5)])
	},
}

func word(r *rand.Rand) string {
	n := 3 + r.IntN(6)
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('a' + r.IntN(26))
	}
	return string(b)
}

func fill1(r *rand.Rand, template string) string {
	for _, name := range slices.Sorted(maps.Keys(drawn)) {
		draw := drawn[name]
		for strings.Contains(template, name) {
			v := draw(r)
			if name == "{quoted}" {
				v += v[:1] // closed as it was opened
			}
			template = strings.Replace(template, name, v, 1)
		}
	}
	return template
}

var templates = []string{
	"order {id} not found", "cannot charge {num} for order {id}: declined", "timed out after {float} seconds", "trace {uuid} failed at {time}",
	"digest {hex} does not match {hex}", "panic at {0x}", "unexpected value {quoted} in field amount", "GET {url} answered badly",
	"no mailbox for {mail}", "no route to {v6}", "dial tcp {ip}: connect: connection refused", "open {path}: no such file", "it can't read {path} since the user's quota ran out at {time}",
	"key {quoted} of {id} expired at {time} (request {uuid}, host {ip})", "{time} {uuid} Task timed out after {float} seconds", "at {path}: {quoted}: bad value",
}

// The signature of a failure does not change with what differs between two
// failures of one kind, and differs between kinds.
func TestSignatureIsStable(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	of := func(message string) string {
		return Signature(dlqbridge.Task{TaskType: "charge"}, dlqbridge.Failure{Message: message})
	}
	seen := map[string]string{}
	for _, template := range templates {
		first := fill1(r, template)
		if other, ok := seen[of(first)]; ok {
			t.Errorf("%q and %q have one signature", template, other)
		}
		seen[of(first)] = template
		for range 500 {
			if again := fill1(r, template); of(again) != of(first) {
				t.Fatalf("%q: %q and %q differ:\n%s\n%s", template, first, again, normalMessage(first), normalMessage(again))
			}
		}
	}
}

// Long messages are stored cut; the cut must not make two kinds of one.
func TestSignatureOfACutMessageIsStable(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	f := field{kind: kindMessage}
	tail := strings.Repeat(" and then it failed while writing the result of this step to its place", 30)
	first := ""
	for range 200 {
		message := strings.Repeat(fill1(r, "order {id} "), 3) + tail
		text, _ := f.read(found{message, message})
		got := Signature(dlqbridge.Task{}, dlqbridge.Failure{Message: text})
		if first == "" {
			first = got
		}
		if got != first {
			t.Fatalf("%q has another signature", normalMessage(text))
		}
	}
}

// Words are never taken for something that differs.
func TestSignatureKeepsWords(t *testing.T) {
	for in, want := range map[string]string{
		"can't open it, the user's quota is full": "can't open it, the user's quota is full",
		"read and/or write failed":                "read and/or write failed",
		"Message May fail":                        "message may fail",
		"code: bad; name: worse":                  "code: bad; name: worse",
		"a::b is no scope":                        "a::b is no scope",
	} {
		if got := normalMessage(in); got != want {
			t.Errorf("%q became %q", in, got)
		}
	}
}

func FuzzSignature(f *testing.F) {
	for _, template := range templates {
		f.Add(template)
	}
	f.Fuzz(func(t *testing.T, message string) {
		n := normalMessage(message)
		if len(n) > normalLength || normalMessage(message) != n {
			t.Fatalf("%q became %q", message, n)
		}
	})
}
