package ledger

import (
	"fmt"
	"math/big"
	"strings"
	"sync"
)

// cost adds up what the runs of a task cost, in exact decimals. The header gets
// the sum, not the addend, so that writing it twice is writing it once.
type cost struct {
	mu    sync.Mutex
	sum   big.Rat
	dirty bool
}

// maxCostDigits bounds an amount's text; DynamoDB's numbers have 38 digits.
const maxCostDigits = 24

// load starts from what the header says; what it cannot add to is dropped.
func (c *cost) load(s string) {
	if amount, err := parseCost(s); err == nil {
		c.sum = *amount
	}
}

func (c *cost) add(s string) error {
	amount, err := parseCost(s)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sum.Add(&c.sum, amount)
	c.dirty = true
	return nil
}

func parseCost(s string) (*big.Rat, error) {
	amount, ok := new(big.Rat).SetString(s)
	if len(s) > maxCostDigits || strings.ContainsAny(s, "eEpPxX/_") || !ok || amount.Sign() < 0 {
		return nil, fmt.Errorf("cost %q is no amount such as 0.0125", s)
	}
	return amount, nil
}

// text is the sum in decimals if it has changed since it was saved.
func (c *cost) text() (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// A sum of decimals is a decimal: FloatPrec is exact.
	digits, _ := c.sum.FloatPrec()
	return c.sum.FloatString(digits), c.dirty
}

func (c *cost) saved(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	digits, _ := c.sum.FloatPrec()
	if c.sum.FloatString(digits) == text {
		c.dirty = false
	}
}
