package dynamodb

import (
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// rational is the number as math/big knows it.
func rational(t testing.TB, n Number) *big.Rat {
	t.Helper()
	r, ok := new(big.Rat).SetString(n.String())
	if !ok {
		t.Fatalf("%s is no rational", n)
	}
	return r
}

// FuzzNumber holds parsing, printing, order, sums and key encoding to math/big.
func FuzzNumber(f *testing.F) {
	for _, seed := range [][2]string{
		{"0", "-0"},
		{"1.10", "1.1"},
		{"1E125", "-1E125"},
		{"1E-130", "1"},
		{"99999999999999999999999999999999999999", "1"},
		{"0.1", "0.2"},
		{"+5", "5e0"},
		{".5", "5."},
		{"1e999999999999999999999", "x"},
		{"-12.5", "-12.50001"},
		{"00012300", "1.23e4"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, textA, textB string) {
		a, errA := ParseNumber(textA)
		b, errB := ParseNumber(textB)
		if errA != nil || errB != nil {
			return
		}
		if again, err := ParseNumber(a.String()); err != nil || again != a {
			t.Errorf("%s prints as %s, which reads as %v, %v", textA, a, again, err)
		}
		if len(textA) < 300 && !strings.ContainsAny(textA, "eE") || len(textA) < 8 {
			if want, ok := new(big.Rat).SetString(textA); ok && want.Cmp(rational(t, a)) != 0 {
				t.Errorf("%s reads as %s", textA, a)
			}
		}
		x, y := rational(t, a), rational(t, b)
		if got, want := a.Compare(b), x.Cmp(y); got != want {
			t.Errorf("compare %s, %s: got %d, want %d", a, b, got, want)
		}
		if got, want := strings.Compare(string(a.appendKey(nil)), string(b.appendKey(nil))), x.Cmp(y); got != want {
			t.Errorf("compare the keys of %s, %s: got %d, want %d", a, b, got, want)
		}
		if sum, err := a.Add(b); err == nil && new(big.Rat).Add(x, y).Cmp(rational(t, sum)) != 0 {
			t.Errorf("%s + %s gives %s", a, b, sum)
		}
		if difference, err := a.Sub(b); err == nil && new(big.Rat).Sub(x, y).Cmp(rational(t, difference)) != 0 {
			t.Errorf("%s - %s gives %s", a, b, difference)
		}
	})
}

func TestNumbersSortByTheirKeys(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var numbers []Number
	for range 500 {
		digits := strings.TrimLeft(big.NewInt(random.Int64N(1_000_000)).String(), "0")
		n, err := newNumber(random.IntN(2) == 0, digits, random.IntN(255)-128)
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, n)
	}
	slices.SortFunc(numbers, func(a, b Number) int {
		return strings.Compare(string(a.appendKey(nil)), string(b.appendKey(nil)))
	})
	if !slices.IsSortedFunc(numbers, func(a, b Number) int { return rational(t, a).Cmp(rational(t, b)) }) {
		t.Error("the order of keys is not the order of numbers")
	}
}
