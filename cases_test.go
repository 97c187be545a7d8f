package dlqbridge

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// cases are the known faults of tools like ours, by number, with the right
// behaviour in a line. Each has at least one test whose name or comment carries
// its number and that fails without the fix.
var cases = map[int]string{
	1:  "a letter is deleted only after its own write succeeded",
	2:  "failed entries of an answered batch are treated one by one",
	3:  "a letter that cannot be stored stops no other",
	4:  "batches are cut by bytes as well as by count",
	5:  "a queue's own size limit decides",
	6:  "the same message twice in one batch",
	7:  "batch entry ids are positions",
	8:  "one invalid message fails no batch mates",
	9:  "all attributes are asked for",
	10: "type labels go back as they came",
	11: "our mark never takes the eleventh place",
	12: "our mark replaces an earlier one",
	13: "what cannot be sent back empty is left out",
	14: "the trace header goes back",
	15: "a standard queue's group goes back",
	16: "characters that SQS refuses are refused before sending",
	17: "bodies that look like base64 are left alone",
	18: "a compressed body is opened for reading only, with a cap",
	19: "bytes that are no text survive",
	20: "texts are cut on a character's border",
	21: "a byte order mark hides nothing",
	22: "a message without a body is empty, not missing",
	23: "what anybody can forge says nothing",
	24: "the facts of a Celery task are beside its body",
	25: "an asynchronous invocation has no queue to go back to",
	26: "failure facts and the sender's attributes are kept apart",
	27: "an object's key is shown decoded and kept as it came",
	28: "arguments that are not JSON are not nothing",
	29: "what goes back is the original, without a wrapper",
	30: "an encrypted payload is no failure",
	31: "no event's attributes leak into the next",
	32: "big integers keep their digits",
	33: "depth costs nothing",
	34: "hostile depth stops nobody",
	35: "a pointer is kept though its object may be gone",
	36: "a hiccup of an object store makes no letter poison",
	37: "a payload larger than an item is kept whole",
	38: "each message goes back in its own group, in order",
	39: "each redrive has its own deduplication id, each retry the same",
	40: "a later message of a group waits for a failed one",
	41: "an ordering key is not paused for ever",
	42: "nothing of a key goes out after a failed one",
	43: "one ordering key per request",
	44: "a shared dead-letter queue: each letter to its own source",
	45: "who would get a copy is named, and a narrow way back",
	46: "back and forth ends at the budget, whatever a worker strips",
	47: "no second sees more than rate and burst, and what was stopped can be sent later",
	48: "attribute limits are bytes, and the user's are never cut",
	49: "what the service added does not go back",
	50: "an empty answer does not mean an empty queue",
	51: "extensions stay within twelve hours of the receive",
	52: "an expired handle aborts nothing",
	53: "in flight at the limit is not idle",
	54: "a failing store makes no hot loop",
	55: "stopping finishes what is in hand and gives the rest back",
	56: "a lease that lasts until the letter is stored",
	57: "an acknowledgement that did not happen is told",
	58: "a delivery count that is absent is unknown",
	59: "a write whose answer was lost is recognised as ours",
	60: "what is tried again is the same request",
	61: "two people press the button: one send",
	62: "died between send and note: in doubt, and the same number",
	63: "a claim ends with its lease",
	64: "a redelivered letter is deleted, a new failure is kept",
	65: "index reads are candidates only",
	66: "a publish that hangs ends, in doubt and once",
	67: "index keys are never empty and always text",
	68: "unprocessed items are written before anything is deleted",
	69: "expiry is a number of seconds, and what has expired is gone",
	70: "times sort as text",
	71: "two letters in the same instant are two arrivals",
	72: "index keys are spread over shards",
	74: "the retention clock that was running before",
	75: "credentials that expire in the middle",
	76: "both spellings of an error mean the same",
	77: "nothing in a message drives the operator's terminal",
}

var caseNumber = regexp.MustCompile(`\bC(\d\d)\b|C(\d\d)(?:[A-Z_]|$)`)

func TestEveryCaseHasATest(t *testing.T) {
	covered := map[int][]string{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") || path == "cases_test.go" {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(fn.Name.Name, "Test") {
				continue
			}
			for _, m := range caseNumber.FindAllStringSubmatch(fn.Name.Name+" "+fn.Doc.Text(), -1) {
				n, err := strconv.Atoi(m[1] + m[2])
				if err != nil {
					t.Fatal(err)
				}
				covered[n] = append(covered[n], filepath.Dir(path)+"."+fn.Name.Name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for n, right := range cases {
		if len(covered[n]) == 0 {
			t.Errorf("C%02d (%s) has no test", n, right)
		}
	}
	if testing.Verbose() {
		numbers := make([]int, 0, len(covered))
		for n := range covered {
			numbers = append(numbers, n)
		}
		slices.Sort(numbers)
		for _, n := range numbers {
			t.Logf("C%02d %s: %s", n, cases[n], strings.Join(slices.Compact(covered[n]), ", "))
		}
	}
}
