package dynamodb

import (
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dlqbridge/dlqbridge/localstack/wire"
)

// Bounds of a transaction (API Reference, TransactWriteItems).
const (
	maxActions          = 100
	maxTransactionBytes = 4 << 20
	tokenLife           = 10 * time.Minute
)

// transactions remembers the tokens of transactions that went through.
type transactions struct {
	mu     sync.Mutex // held while a transaction with a token runs
	tokens map[string]remembered
	oldest []string // the tokens in the order in which they are forgotten
}

type remembered struct {
	request [sha256.Size]byte
	until   time.Time
}

// forget drops the tokens whose time is over. SDKs put a token on every
// transaction, so this must not look at all of them. The caller holds the lock.
func (k *transactions) forget(now time.Time) {
	for len(k.oldest) > 0 && !now.Before(k.tokens[k.oldest[0]].until) {
		delete(k.tokens, k.oldest[0])
		k.oldest = k.oldest[1:]
	}
}

// remember keeps the token of a transaction that went through. The caller
// holds the lock.
func (k *transactions) remember(token string, request [sha256.Size]byte, now time.Time) {
	if k.tokens == nil {
		k.tokens = map[string]remembered{}
	}
	k.tokens[token] = remembered{request, now.Add(tokenLife)}
	k.oldest = append(k.oldest, token)
}

// The actions of a transaction and the members each knows.
var (
	actionMembers = []string{
		"TableName", "ConditionExpression", "ExpressionAttributeNames", "ExpressionAttributeValues", "ReturnValuesOnConditionCheckFailure",
	}
	actions = map[string]*writeKind{
		"Put":            {members: append([]string{"Item"}, actionMembers...)},
		"Delete":         {members: append([]string{"Key"}, actionMembers...), key: true},
		"Update":         {members: append([]string{"Key", "UpdateExpression"}, actionMembers...), key: true, update: true},
		"ConditionCheck": checkKind,
	}
	checkKind = &writeKind{members: append([]string{"Key"}, actionMembers...), key: true}
)

// transactRequest is the body of a transaction.
type transactRequest struct {
	writes         []*parsedWrite
	gets           []*request
	token          string
	returnCapacity string
}

func readTransaction(body []byte, members []string, action func(t *transactRequest, r *reader, kind string) error) (*transactRequest, error) {
	r := &reader{data: body}
	t := &transactRequest{}
	count := 0
	err := r.object(func(name string) (err error) {
		switch {
		case r.null():
		case !slices.Contains(members, name):
			return notServed("the parameter " + name + " of this operation")
		case name == "ClientRequestToken":
			t.token, err = r.text()
		case name == "ReturnConsumedCapacity":
			t.returnCapacity, err = r.text()
		case name == "ReturnItemCollectionMetrics":
			_, err = r.text()
		case name == "TransactItems":
			return r.array(func() error {
				count++
				return t.readAction(r, action)
			})
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case r.end() != nil:
		return nil, r.end()
	case count == 0:
		return nil, constraint("[]", "transactItems", "Member must have length greater than or equal to 1")
	case count > maxActions:
		return nil, constraint("[...]", "transactItems", "Member must have length less than or equal to 100")
	case len(t.token) > 36:
		return nil, constraint(t.token, "clientRequestToken", "Member must have length less than or equal to 36")
	}
	return t, checkChoice("returnConsumedCapacity", t.returnCapacity, capacityChoices)
}

func (t *transactRequest) readAction(r *reader, action func(t *transactRequest, r *reader, kind string) error) error {
	kinds := 0
	err := r.object(func(kind string) error {
		if r.null() {
			return nil
		}
		kinds++
		return action(t, r, kind)
	})
	if err == nil && kinds != 1 {
		err = invalid("TransactItems can only contain one of Check, Put, Update or Delete")
	}
	return err
}

func readTransactWrite(t *transactRequest, r *reader, name string) error {
	kind := actions[name]
	if kind == nil {
		return notServed("the parameter " + name + " of a transaction")
	}
	q := &request{}
	if err := q.read(r, kind.members); err != nil {
		return err
	}
	switch {
	case name == "Update" && q.update == nil:
		return required("transactItems.member.update.updateExpression")
	case kind == checkKind && q.condition == nil:
		return required("transactItems.member.conditionCheck.conditionExpression")
	}
	parsed, err := kind.parse(q)
	t.writes = append(t.writes, parsed)
	return err
}

func (s *Service) transactWrite(body []byte) ([]byte, error) {
	request, err := readTransaction(body,
		[]string{"TransactItems", "ClientRequestToken", "ReturnConsumedCapacity", "ReturnItemCollectionMetrics"}, readTransactWrite)
	if err != nil {
		return nil, err
	}
	if request.token == "" {
		return s.transact(request)
	}
	sum, err := canonical(body)
	if err != nil {
		return nil, err
	}
	// One transaction with a token at a time: a repeat that comes while the
	// first is running waits for it, and then finds it done.
	known := &s.transactions
	known.mu.Lock()
	defer known.mu.Unlock()
	now := s.clock.Now()
	known.forget(now)
	if before, ok := known.tokens[request.token]; ok {
		if before.request != sum {
			return nil, &wire.Error{
				Status: http.StatusBadRequest, Type: ownPrefix + "IdempotentParameterMismatchException",
				Message: "The request was submitted with a client token that was already used with different parameters",
			}
		}
		return newAnswer().bytes(), nil
	}
	answer, err := s.transact(request)
	if err == nil {
		known.remember(request.token, sum, now)
	}
	return answer, err
}

// canonical is a digest of the request that does not depend on the order of
// members or on what the caller wants to know about costs.
func canonical(body []byte) (sum [sha256.Size]byte, err error) {
	var members map[string]any
	if err := json.Unmarshal(body, &members); err != nil {
		return sum, malformed("%s", err)
	}
	delete(members, "ReturnConsumedCapacity")
	delete(members, "ReturnItemCollectionMetrics")
	text, err := json.Marshal(members) // map keys come sorted
	return sha256.Sum256(text), err
}

// transact plans all writes, checks all, and commits under the locks of all
// tables that take part.
func (s *Service) transact(request *transactRequest) ([]byte, error) {
	tables, err := s.takePart(len(request.writes), func(i int) string { return request.writes[i].q.table })
	if err != nil {
		return nil, err
	}
	writes := make([]*write, len(request.writes))
	seen := map[*table]map[string]bool{}
	total := 0
	for i, parsed := range request.writes {
		t := tables[i]
		w, err := parsed.prepare(t)
		if err != nil {
			return nil, err
		}
		w.checkOnly = parsed.kind == checkKind
		if seen[t] == nil {
			seen[t] = map[string]bool{}
		}
		if seen[t][w.rowKey] {
			return nil, invalid("Transaction request cannot include multiple operations on one item")
		}
		seen[t][w.rowKey] = true
		total += sizeOfRow(w.fresh)
		writes[i] = w
	}
	if total > maxTransactionBytes {
		return nil, invalid("Collection size exceeded: the items of the transaction are more than 4 MB")
	}
	meters, err := commit(writes)
	if err != nil {
		return nil, err
	}
	for _, m := range meters {
		s.units.add(m)
	}
	a := newAnswer()
	a.capacities(request.returnCapacity, meters)
	return a.bytes(), nil
}

// takePart finds the table of each action.
func (s *Service) takePart(count int, name func(int) string) ([]*table, error) {
	tables := make([]*table, count)
	for i := range tables {
		t, err := s.table(name(i))
		if err != nil {
			return nil, err
		}
		tables[i] = t
	}
	return tables, nil
}

// inOrder are the tables without repeats in the one order in which every
// transaction locks them, so that no two wait for each other.
func inOrder(tables []*table) []*table {
	ordered := slices.SortedFunc(slices.Values(tables), func(a, b *table) int {
		return strings.Compare(a.TableName+a.id, b.TableName+b.id)
	})
	return slices.Compact(ordered)
}

// commit carries out all of the writes or none.
func commit(writes []*write) ([]*meter, error) {
	tables := make([]*table, len(writes))
	for i, w := range writes {
		tables[i] = w.table
	}
	ordered := inOrder(tables)
	for _, t := range ordered {
		t.mu.Lock()
		defer t.mu.Unlock()
	}
	type plan struct{ old, fresh *row }
	plans := make([]plan, len(writes))
	reasons := make([]reason, len(writes))
	cancelled := false
	for i, w := range writes {
		old, fresh, err := w.plan()
		plans[i], reasons[i] = plan{old, fresh}, reasonOf(err)
		cancelled = cancelled || err != nil
	}
	if cancelled {
		return nil, cancelledBy(reasons)
	}
	meters := make([]*meter, 0, len(ordered))
	byTable := map[*table]*meter{}
	for i, w := range writes {
		m := byTable[w.table]
		if m == nil {
			m = &meter{table: w.table.TableName}
			byTable[w.table] = m
			meters = append(meters, m)
		}
		cost := writeCost{table: writeUnits(sizeOfRow(plans[i].old))}
		if !w.checkOnly {
			cost = w.table.replace(plans[i].old, plans[i].fresh)
		}
		// A transaction prepares and commits: every unit counts twice (Developer
		// Guide, "Amazon DynamoDB Transactions: how it works").
		m.write(cost)
		m.write(cost)
	}
	return meters, nil
}

// reason says why an action cancelled its transaction.
type reason struct {
	Code    string
	Message string `json:",omitempty"`
	Item    any    `json:",omitempty"`
}

// reasonOf words the refusal of one action as a reason.
func reasonOf(err error) reason {
	refusal, ok := err.(*wire.Error) //nolint:errorlint // plan returns it as it is
	switch {
	case err == nil:
		return reason{Code: "None"}
	case !ok:
		return reason{Code: "ValidationError", Message: err.Error()}
	case strings.HasSuffix(refusal.Type, "#ConditionalCheckFailedException"):
		return reason{"ConditionalCheckFailed", refusal.Message, refusal.Fields["Item"]}
	}
	return reason{Code: "ValidationError", Message: refusal.Message}
}

// cancelledBy refuses a transaction, with one reason for each action in the
// order of the request (API Reference, TransactionCanceledException).
func cancelledBy(reasons []reason) error {
	codes := make([]string, len(reasons))
	for i, r := range reasons {
		codes[i] = r.Code
	}
	return &wire.Error{
		Status: http.StatusBadRequest, Type: ownPrefix + "TransactionCanceledException",
		Message: "Transaction cancelled, please refer cancellation reasons for specific reasons [" + strings.Join(codes, ", ") + "]",
		Fields:  map[string]any{"CancellationReasons": reasons},
	}
}
