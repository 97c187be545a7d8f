package config

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dlqbridge/dlqbridge/adapters/langgraph"
	"github.com/dlqbridge/dlqbridge/adapters/openaiagents"
	"github.com/dlqbridge/dlqbridge/adapters/powertools"
	"github.com/dlqbridge/dlqbridge/adapters/reconcile"
	"github.com/dlqbridge/dlqbridge/adapters/stepfunctions"
	"github.com/dlqbridge/dlqbridge/adapters/tablestore"
)

var (
	storeName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)
	// These need no declaration.
	builtInStores = []string{"message", "ledger"}
	// Findings of declarations and of people carry the other two names.
	takenNames = append([]string{"route", "operator"}, builtInStores...)
)

// maxCall leaves room within the time that a store has for a whole batch.
const maxCall = 4 * time.Second

// validateDeclared checks the map of stores: what is a matter of their packages
// is checked by those, and their words for settings become the file's.
func validateDeclared(d *decoder, stores map[string]Store) {
	for _, name := range sortedKeys(stores) {
		path, s := "stores."+name, stores[name]
		switch {
		case slices.Contains(takenNames, name):
			d.reportAt(path, fmt.Sprintf("%q is the name of something else", name), "give it another name; message and ledger are there without a declaration")
			continue
		case !storeName.MatchString(name):
			d.reportAt(path, fmt.Sprintf("%q is no name of a store", name), "write 1 to 63 characters of a-z, 0-9, - and _")
			continue
		}
		switch kinds := s.kinds(); {
		case len(kinds) == 0:
			d.reportAt(path, "says no kind", "write one of "+strings.Join(storeKinds, ", ")+"; with defaults alone as {}, such as stepfunctions: {}")
			continue
		case len(kinds) > 1:
			d.reportAt(path+"."+kinds[1], "the store has "+kinds[0]+" already", "make a store of its own for each")
			continue
		}
		validateStore(d, path+"."+s.Kind(), name, s)
	}
}

// validateStore makes a store with a client that is never called: to check
// settings nobody is asked.
func validateStore(d *decoder, path, name string, s Store) {
	switch {
	case s.Powertools != nil:
		validateTable(d, path, s.Powertools.Table)
		o := s.Powertools.Options(name)
		o.Client = struct{ powertools.Getter }{}
		_, err := powertools.New(o)
		d.refused(path, err, powertoolsKeys)
		d.storeSpan(path+".expires_after", s.Powertools.ExpiresAfter)
		d.storeSpan(path+".max_run", s.Powertools.MaxRun)
	case s.LangGraph != nil:
		validateTable(d, path, s.LangGraph.Table)
		o := s.LangGraph.Options(name)
		o.Client = struct{ langgraph.Client }{}
		_, err := langgraph.New(o)
		d.refused(path, err, langgraphKeys)
	case s.DynamoDBTable != nil:
		validateTable(d, path, s.DynamoDBTable.Table)
		o := s.DynamoDBTable.Options(name)
		o.Client = struct{ tablestore.Querier }{}
		_, err := tablestore.New(o)
		d.refused(path, err, tableKeys)
		d.storeSpan(path+".max_run", s.DynamoDBTable.MaxRun)
		if n := s.DynamoDBTable.None; n != nil {
			if len(n.Status) == 0 {
				d.reportAt(path+".none.status", "missing", "name the statuses, or leave none out")
			}
			d.span(path+".none.settled", n.Settled, 0, maxSpan)
		}
	case s.OpenAIAgents != nil:
		validateTable(d, path, s.OpenAIAgents.Table)
		o := s.OpenAIAgents.Options(name)
		o.Client = struct{ openaiagents.Querier }{}
		_, err := openaiagents.New(o)
		d.refused(path, err, openaiagentsKeys)
		d.storeSpan(path+".max_run", s.OpenAIAgents.MaxRun)
	case s.StepFunctions != nil:
		o := s.StepFunctions.Options(name)
		o.Client = struct{ stepfunctions.Client }{}
		_, err := stepfunctions.New(o)
		d.refused(path, err, stepfunctionsKeys)
		d.storeSpan(path+".recheck", s.StepFunctions.Recheck)
	case s.Reconcile != nil:
		validateReconcile(d, path, name, *s.Reconcile)
	}
}

func (d *decoder) storeSpan(path string, v Duration) {
	if v != 0 { // 0 is the default
		d.span(path, v, time.Second, maxSpan)
	}
}

func validateTable(d *decoder, path, table string) {
	switch {
	case table == "":
		d.reportAt(path+".table", "missing", "name the table, by name or ARN")
	case !tableName.MatchString(table) && !tableARN.MatchString(table):
		d.reportAt(path+".table", fmt.Sprintf("%q is no table", table), "write a name of 3 to 255 letters, digits, - _ . or a table's ARN")
	}
}

func validateReconcile(d *decoder, path, name string, r Reconcile) {
	for _, key := range sortedKeys(r.Headers) {
		at, value := path+".headers."+key, string(r.Headers[key])
		switch { // no value is repeated: it may be the secret
		case strings.Contains(value, "env:") && !headerVariable.MatchString(value):
			d.reportAt(at, "holds more than a scheme and a variable", "write env:NAME or Bearer env:NAME, and put the whole secret into the variable")
		case headerSecret.MatchString(key) && !headerVariable.MatchString(value):
			d.reportAt(at, "looks like a secret, which does not belong into this file", "write env:NAME or Bearer env:NAME, and set the variable")
		}
	}
	for i, a := range r.AllowAddresses {
		if _, err := netip.ParsePrefix(a); err != nil {
			d.reportAt(fmt.Sprintf("%s.allow_addresses[%d]", path, i), fmt.Sprintf("%q is no range of addresses", a), "write 10.1.0.0/16, or one address as 127.0.0.1/32")
		}
	}
	if r.Timeout != 0 {
		d.span(path+".timeout", r.Timeout, 100*time.Millisecond, maxCall)
	}
	if r.ConsistencyDelay != 0 {
		d.span(path+".consistency_delay", r.ConsistencyDelay, 0, 30*day)
	}
	o := r.Options(name)
	o.Now = time.Now
	o.Env = func(string) (string, bool) { return "set", true } // whoever only reads records needs no secret
	_, err := reconcile.New(o)
	d.refused(path, err, nil)
}

// option is a package's word for a setting and the file's.
type option struct{ word, key string }

// The longer of two words that begin alike goes first.
var (
	powertoolsKeys = []option{
		{"EventKeyJMESPath", "event_key_jmespath"},
		{"PayloadValidationJMESPath", "payload_validation_jmespath"},
		{"ReceiptJMESPath", "receipt_jmespath"},
		{"HashFunction", "hash_function"},
		{"StaticPKValue", "static_pk_value"},
		{"SortKeyAttr", "sort_key_attr"},
		{"KeyAttr", "key_attr"},
		{"Runtime", "runtime"},
		{"Prefix", "prefix"},
		{"Input", "input"},
		{"Table", "table"},
	}
	langgraphKeys = []option{{"Thread", "thread"}, {"Mutating", "mutating"}, {"Table", "table"}}
	tableKeys     = []option{
		{"Hash.Attribute", "hash.attribute"},
		{"Hash.Value", "hash.value"},
		{"Range.Attribute", "range.attribute"},
		{"Range.Value", "range.value"},
		{"Fields.Status", "fields.status"},
		{"Fields.Receipt", "fields.receipt"},
		{"Fields.Step", "fields.step"},
		{"Fields.Run", "fields.run"},
		{"Fields.Started", "fields.started"},
		{"Fields.Updated", "fields.updated"},
		{"Fields.Code", "fields.code"},
		{"Fields.Message", "fields.message"},
		{"Fields.Tool", "fields.tool"},
		{"None.Because", "none.because"},
		{"None.Status", "none.status"},
		{"None.Proof", "none.proof"},
		{"None.Settled", "none.settled"},
		{"ConfirmedNeedsReceipt", "confirmed_needs_receipt"},
		{"Confirmed", "confirmed"},
		{"Running", "running"},
		{"Table", "table"},
	}
	openaiagentsKeys = []option{
		{"SavedBeforeEachCall", "saved_before_each_call"},
		{"Hash.Attribute", "hash.attribute"},
		{"Hash.Value", "hash.value"},
		{"Range.Attribute", "range.attribute"},
		{"Range.Value", "range.value"},
		{"Updated", "updated"},
		{"Mutating", "mutating"},
		{"MaxRun", "max_run"},
		{"State", "state"},
		{"Table", "table"},
	}
	stepfunctionsKeys = []option{{"Execution", "execution"}, {"Mutating", "mutating"}}
)

var (
	storePrefix  = regexp.MustCompile(`^(powertools|langgraph|openaiagents|stepfunctions|table store [^:]*|reconciler [^:]*): (option )?`)
	leadingField = regexp.MustCompile(`^[a-z_]+`)
	required     = regexp.MustCompile(`^\S+ is (required(?:: )?)(.*)$`)
)

// refused reports what a store's package refuses at the key that it names.
func (d *decoder) refused(path string, err error, keys []option) {
	if err == nil {
		return
	}
	text := storePrefix.ReplaceAllString(err.Error(), "")
	field, at := "", len(text)
	for _, k := range keys {
		if i := strings.Index(text, k.word); i >= 0 && i < at {
			field, at = k.key, i
		}
	}
	for _, k := range keys {
		text = regexp.MustCompile(`\b`+regexp.QuoteMeta(k.word)+`\b`).ReplaceAllString(text, k.key)
	}
	hint := ""
	switch m := required.FindStringSubmatch(text); {
	case keys == nil: // the package names its settings as the file does
		field = leadingField.FindString(text)
		text = strings.TrimLeft(strings.TrimPrefix(text, field), ": ,")
	case m != nil && strings.HasSuffix(m[1], ": "):
		text, hint = "missing", m[2]
	case m != nil:
		text, hint = "missing", strings.TrimSpace(m[1]+m[2])
	default:
		text = strings.TrimPrefix(text, field+" ")
	}
	d.reportAt(join(path, field), text, hint)
}
