package jmespathsel

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"testing"
)

const body = `{
  "order": {"id": "o-7", "x-id": "dashed", "big": 12345678901234567890, "price": 1.50, "count": 3, "zero": -0, "exp": 1e3, "flag": true, "none": null},
  "items": [
    {"sku": "b", "n": 2, "id": 9007199254740993},
    {"sku": "a", "n": 10, "id": 9007199254740992},
    {"sku": "c", "n": 1, "id": 3}
  ],
  "tags": ["one", "two"],
  "twice": 1, "twice": 2,
  "inner": "{\"task\":{\"id\":98765432109876543210,\"n\":4}}",
  "coded": "eyJpZCI6ImZyb20gYmFzZTY0In0="
}`

func TestSelect(t *testing.T) {
	for expression, want := range map[string]string{
		`order.id`:                    "o-7",
		`order."x-id"`:                "dashed",
		`order.big`:                   "12345678901234567890",
		`order.price`:                 "1.50",
		`order.count`:                 "3",
		`order.zero`:                  "-0",
		`order.exp`:                   "1e3",
		`items[0].id`:                 "9007199254740993",
		`items[1].id`:                 "9007199254740992",
		`items[-1].sku`:               "c",
		`items[1:] | [0].sku`:         "a",
		`order.id[2:]`:                "7",
		`twice`:                       "2",
		"items[?n > `5`].sku | [0]":   "a",
		"items[?n > `5`].id | [0]":    "9007199254740992",
		`items[?sku == 'b'].id | [0]`: "9007199254740993",
		// A float would take the neighbour for it.
		"items[?to_string(id) == '9007199254740993'].sku | [0]": "b",
		`sort_by(items, &n)[0].sku`:                             "c",
		`max_by(items, &n).sku`:                                 "a",
		`length(items)`:                                         "3",
		"order.price + `1`":                                     "2.5",
		`to_string(order.big)`:                                  "12345678901234567890",
		`to_number('17')`:                                       "17",
		`join(',', tags)`:                                       "one,two",
		`not_null(order.none, order.id)`:                        "o-7",
		`order.missing || order.id`:                             "o-7",
		`powertools_json(inner).task.id`:                        "98765432109876543210",
		`powertools_json(inner).task.n`:                         "4",
		`powertools_json(powertools_base64(coded)).id`:          "from base64",
		`split(order.id, '-')[1]`:                               "7",
		`items[*].[sku, n][] | [0]`:                             "b",
		`type(order.count)`:                                     "number",
	} {
		s, err := Compile(expression)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		if got, ok := s.Select([]byte(body)); got != want || !ok {
			t.Errorf("%s: got %q, %v, want %q", expression, got, ok, want)
		}
	}
}

func TestWhatIsNoValue(t *testing.T) {
	for _, expression := range []string{
		`order`, `items`, `order.flag`, `order.none`, `missing`, `order.id.deeper`, `items[9].sku`, "items[?n > `99`].sku | [0]",
		"order.count / `0`", "`0` / `0`", "order.big + `1`", "order.big > `1`", `to_number('12345678901234567890')`, `length(order.count)`, `sum(tags)`, `sort_by(items, &missing)`,
		`powertools_json(order.id)`, `powertools_json(inner)`, `powertools_base64(order.price)`, `powertools_base64('?')`, `abs(order.big)`, `max(items[*].id)`,
		`&order`, `order.count == order.count`,
	} {
		s, err := Compile(expression)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		if got, ok := s.Select([]byte(body)); ok || got != "" {
			t.Errorf("%s: got %q", expression, got)
		}
	}
}

// Each expression that cannot work is an error at the start that says where and
// what to do.
func TestWrongExpressions(t *testing.T) {
	for expression, want := range map[string]string{
		``:                                     "the expression is empty",
		"\xff":                                 "not valid UTF-8",
		strings.Repeat("a", maxExpression+1):   "longer than 2048 bytes",
		`order.`:                               "position 7: ",
		`order[`:                               "position ",
		`order.id)`:                            "position 9: ",
		`items[?n > 5]`:                        "numbers stand in backticks: `5`",
		`/order/id`:                            "that is a JSON pointer: write body: instead of jmespath:",
		`$.order.id`:                           `position 1: the root $ is not allowed; leave "$." out`,
		`order.x-id`:                           `a name with a dash stands in quotation marks: "x-id"`,
		`'open`:                                "its end is missing",
		`order.* | [0]`:                        "position 7: a wildcard over an object's members has no order",
		`keys(order)[0]`:                       "position 1: the function keys is not known here; there are abs ",
		`values(order)`:                        "the function values is not known here",
		`order.id | pad_left(@, order.count)`:  "position 12: the function pad_left is not known here",
		`nope(order)`:                          "the function nope is not known here",
		`length()`:                             "the function length takes 1 argument",
		`join(order.id, tags)`:                 "what join puts in between must be a text in the expression",
		`contains(tags)`:                       "the function contains takes 2 arguments",
		"items[?id == `12345678901234567890`]": "position 14: a number of more than 15 digits cannot be compared",
		`items[?id == $.order.id]`:             "position 14: the root $ is not allowed",
		`let $x = order.id in $x`:              "let is not allowed",
		`items[::0]`:                           "a slice cannot step by 0",
	} {
		_, err := Compile(expression)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: got %v, want %q", expression, err, want)
		}
	}
}

func TestHostileBodies(t *testing.T) {
	s, err := Compile(`a || [0] || length(@)`)
	if err != nil {
		t.Fatal(err)
	}
	deep := func(n int) string { return strings.Repeat(`{"b":`, n) + "1" + strings.Repeat("}", n) }
	for name, tt := range map[string]struct {
		body string
		ok   bool
	}{
		"empty": {"", false}, "a text": {`"a"`, false}, "a number": {"1", false}, "broken": {`{"a":"x"`, false}, "two values": {`{"a":"x"}{}`, false},
		"a comma too much": {`{"a":"x",}`, false}, "not UTF-8": {"{\"a\":\"\xff\"}", true}, "a byte order mark": {"\xEF\xBB\xBF{\"a\":\"x\"}", true},
		"deep": {deep(maxDepth - 1), true}, "too deep": {deep(maxDepth + 1), false}, "much too deep": {deep(100_000), false},
		"deep lists": {strings.Repeat("[", 400_000) + strings.Repeat("]", 400_000), false}, "many values": {"[" + strings.Repeat("1,", maxValues) + "1]", false},
		"large": {`{"a":"` + strings.Repeat("x", maxBody) + `"}`, false}, "a huge number": {`{"a":` + strings.Repeat("9", 100_000) + "}", true},
		"a number without end": {`{"a":1e999999999}`, true}, "a small one": {`{"a":1e-400}`, true},
	} {
		if got, ok := s.Select([]byte(tt.body)); ok != tt.ok {
			t.Errorf("%s: got %.40q, %v", name, got, ok)
		}
	}
	parts, err := Compile(`length(split(a, ''))`)
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := parts.Select([]byte(`{"a":"` + strings.Repeat("x", maxParts+1) + `"}`)); ok {
		t.Errorf("got %s parts", got)
	}
}

// One document for many selectors at once: none may change it.
func TestADocumentIsShared(t *testing.T) {
	d, ok := Decode([]byte(body))
	if !ok {
		t.Fatal("not decoded")
	}
	var wait sync.WaitGroup
	for _, tt := range []struct{ expression, want string }{
		{`sort_by(items, &sku)[0].sku`, "a"},
		{`items[0].sku`, "b"},
		{`reverse(items)[0].sku`, "c"},
		{`merge(order, items[0]).sku`, "b"},
		{`sort(tags)[0]`, "one"},
		{`sort_by(items, &n)[0].sku`, "c"},
		{`max_by(items, &n).sku`, "a"},
		{`items[].sku | [0]`, "b"},
	} {
		s, err := Compile(tt.expression)
		if err != nil {
			t.Fatal(err)
		}
		wait.Go(func() {
			for range 50 {
				if got, ok := s.SelectFrom(d); got != tt.want || !ok {
					t.Errorf("%s: got %q, want %q", tt.expression, got, tt.want)
					return
				}
			}
		})
	}
	wait.Wait()
}

func TestPlainNumbers(t *testing.T) {
	for text, want := range map[string]bool{
		"0": true, "-0": true, "1": true, "1.50": true, "123456789012345": true, "1234567890123456": false, "9007199254740993": false, "1.0000000000": true,
		"0.1": true, "0.123456789012345": true, "0.1234567890123456": false, "1e20": true, "1E+20": true, "1e291": false, "1e-291": false,
		"100000000000000000000": true, "100000000000000000001": false, "1e99999999999999999999": false,
	} {
		if got := plain(text); got != want {
			t.Errorf("%s: got %v", text, got)
		}
	}
}

func FuzzCompile(f *testing.F) {
	for _, e := range []string{
		`a.b[0]`, "items[?n > `5`].id | [0]", `sort_by(@, &a)[-1]`, `join(',', a[*].b)`, `a[::-1]`, `{x: a, y: b}.x`, `a || !b && c`, `"x-y"`, `powertools_json(a).b`,
		`split(a, '')[0]`, `find_last(a, 'b', to_number(c))`, `trim(a, 'x')`, `a[`, `@.`, `&`, "`", `let $x = a in $x`,
	} {
		f.Add(e, []byte(body))
	}
	f.Add(`a`, []byte(`{"a":1e999}`))
	f.Fuzz(func(t *testing.T, expression string, body []byte) {
		s, err := Compile(expression)
		if err != nil {
			return
		}
		before := string(body)
		first, ok := s.Select(body)
		again, still := s.Select(body)
		if first != again || ok != still {
			t.Errorf("%q answers %q and then %q", expression, first, again)
		}
		if string(body) != before {
			t.Error("the body was changed")
		}
	})
}

// A number that is selected is the number that was written.
func FuzzNumbers(f *testing.F) {
	for _, n := range []string{"0", "-0", "1.50", "12345678901234567890", "1e3", "1E-7", "0.1", "9007199254740993", "1e400"} {
		f.Add(n)
	}
	s, err := Compile(`n`)
	if err != nil {
		f.Fatal(err)
	}
	list, err := Compile(`[?n].n | [0]`)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, number string) {
		if !json.Valid([]byte(number)) || len(number) > 300 || strings.ContainsAny(number, " \t\r\n") || !strings.ContainsAny(number[:1], "-0123456789") {
			return
		}
		if got, ok := s.Select([]byte(`{"n":` + number + `}`)); !ok || got != number {
			t.Errorf("got %q, want %q", got, number)
		}
		if got, _ := list.Select([]byte(`[{"n":` + number + `}]`)); got != number {
			t.Errorf("in a list: got %q, want %q", got, number)
		}
		if plain(number) { // then its float is no other plain number's
			f, err := json.Number(number).Float64()
			if err != nil {
				t.Fatal(err)
			}
			want, ok := new(big.Rat).SetString(number)
			got, _ := new(big.Rat).SetString(fmt.Sprintf("%.14e", f))
			if ok && want.Cmp(got) != 0 {
				t.Errorf("%s is held as %g", number, f)
			}
		}
	})
}

func FuzzWithin(f *testing.F) {
	f.Add([]byte(`{"a":{"b":1}}`))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, inner []byte) {
		text, err := json.Marshal(map[string]string{"c": base64.StdEncoding.EncodeToString(inner)})
		if err != nil {
			t.Fatal(err)
		}
		s, err := Compile(`powertools_json(powertools_base64(c)) | (a.b || @[0])`)
		if err != nil {
			t.Fatal(err)
		}
		s.Select(text)
	})
}
