package dynamodb

import (
	"math/big"
	"strconv"
	"strings"
)

// Bounds of the number type (Amazon DynamoDB Developer Guide, "Data types":
// up to 38 digits of precision, 1E-130 to 9.9999999999999999999999999999999999999E+125).
const (
	maxDigits   = 38
	minExponent = -130
	maxExponent = 125
)

// Number is an exact decimal: 0.d1d2d3… times ten to the power of exp. The
// digits have no zero at either end, so equal numbers are equal values; zero
// has no digits. The zero value is 0. A Number never changes.
type Number struct {
	negative bool
	digits   string
	exp      int
}

// ParseNumber reads a decimal as the service does: surrounding spaces are not
// allowed, an exponent is. A refusal is a ValidationException.
func ParseNumber(text string) (Number, error) {
	if n, ok := parseInt(text); ok {
		return n, nil
	}
	bad := func() (Number, error) {
		if text == "" {
			return Number{}, invalid("The parameter cannot be converted to a numeric value")
		}
		return Number{}, invalid("The parameter cannot be converted to a numeric value: %s", text)
	}
	rest := text
	negative := false
	switch {
	case strings.HasPrefix(rest, "-"):
		negative, rest = true, rest[1:]
	case strings.HasPrefix(rest, "+"):
		rest = rest[1:]
	}
	exponent := 0
	if at := strings.IndexAny(rest, "eE"); at >= 0 {
		e, err := strconv.Atoi(rest[at+1:])
		if err != nil {
			return bad()
		}
		// Far out of range either way; clamped so that sums below cannot overflow.
		exponent, rest = min(max(e, -1_000_000), 1_000_000), rest[:at]
	}
	whole, fraction, _ := strings.Cut(rest, ".")
	all := whole + fraction
	if all == "" || strings.TrimLeft(all, "0123456789") != "" {
		return bad()
	}
	return newNumber(negative, all, len(whole)+exponent)
}

// parseInt is the short way for what most numbers are: a few plain digits.
func parseInt(text string) (Number, bool) {
	if len(text) == 0 || len(text) > maxDigits || text[0] == '0' {
		return Number{}, text == "0"
	}
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return Number{}, false
		}
	}
	return Number{digits: strings.TrimRight(text, "0"), exp: len(text)}, true
}

// newNumber makes 0.digits × 10^exp, or refuses what the type cannot hold.
func newNumber(negative bool, digits string, exp int) (Number, error) {
	trimmed := strings.TrimLeft(digits, "0")
	exp -= len(digits) - len(trimmed)
	digits = strings.TrimRight(trimmed, "0")
	switch {
	case digits == "":
		return Number{}, nil
	case exp-1 > maxExponent:
		return Number{}, invalid("Number overflow. Attempting to store a number with magnitude larger than supported range")
	case exp-1 < minExponent:
		return Number{}, invalid("Number underflow. Attempting to store a number with magnitude smaller than supported range")
	case len(digits) > maxDigits:
		return Number{}, invalid("Attempting to store more than 38 significant digits in a Number")
	}
	return Number{negative: negative, digits: digits, exp: exp}, nil
}

func numberOf(n int) Number {
	number, err := ParseNumber(strconv.Itoa(n))
	if err != nil {
		panic(err) // no int is out of range
	}
	return number
}

// String is the number in plain notation, as the service returns it.
func (n Number) String() string { return string(n.append(nil)) }

func (n Number) append(dst []byte) []byte {
	if n.digits == "" {
		return append(dst, '0')
	}
	if n.negative {
		dst = append(dst, '-')
	}
	switch {
	case n.exp <= 0:
		dst = append(dst, "0."...)
		dst = appendZeros(dst, -n.exp)
		return append(dst, n.digits...)
	case n.exp >= len(n.digits):
		dst = append(dst, n.digits...)
		return appendZeros(dst, n.exp-len(n.digits))
	}
	dst = append(dst, n.digits[:n.exp]...)
	dst = append(dst, '.')
	return append(dst, n.digits[n.exp:]...)
}

func appendZeros(dst []byte, n int) []byte {
	for range n {
		dst = append(dst, '0')
	}
	return dst
}

// Compare is -1, 0 or 1 as n is less than, equal to or greater than other.
func (n Number) Compare(other Number) int {
	if a, b := n.sign(), other.sign(); a != b {
		if a < b {
			return -1
		}
		return 1
	}
	result := 0
	switch {
	case n.exp != other.exp && n.digits != "":
		result = 1
		if n.exp < other.exp {
			result = -1
		}
	default:
		result = strings.Compare(n.digits, other.digits)
	}
	if n.negative {
		return -result
	}
	return result
}

func (n Number) sign() int {
	switch {
	case n.digits == "":
		return 0
	case n.negative:
		return -1
	}
	return 1
}

// Add is the exact sum; it refuses a result that the type cannot hold.
func (n Number) Add(other Number) (Number, error) { return n.sum(other, false) }

// Sub is the exact difference; it refuses a result that the type cannot hold.
func (n Number) Sub(other Number) (Number, error) { return n.sum(other, true) }

func (n Number) sum(other Number, minus bool) (Number, error) {
	scale := min(n.exp-len(n.digits), other.exp-len(other.digits))
	a, b := n.scaled(scale), other.scaled(scale)
	if minus {
		a.Sub(a, b)
	} else {
		a.Add(a, b)
	}
	text := new(big.Int).Abs(a).String()
	return newNumber(a.Sign() < 0, text, len(text)+scale)
}

// scaled is n as a whole number of 10^scale; scale is at most n's own.
func (n Number) scaled(scale int) *big.Int {
	i := new(big.Int)
	if n.digits == "" {
		return i
	}
	i.SetString(n.digits+strings.Repeat("0", n.exp-len(n.digits)-scale), 10)
	if n.negative {
		i.Neg(i)
	}
	return i
}

// unix is the whole part as a count of seconds, and whether it fits.
func (n Number) unix() (int64, bool) {
	if n.exp <= 0 {
		return 0, true
	}
	whole, _, _ := strings.Cut(n.String(), ".")
	i, err := strconv.ParseInt(whole, 10, 64)
	return i, err == nil
}

// size is the number's share of the item size (Developer Guide, "DynamoDB item
// sizes and formats": about one byte per two significant digits and one byte
// more; a negative number takes another).
func (n Number) size() int {
	size := 1 + (len(n.digits)+1)/2
	if n.negative {
		size++
	}
	return size
}
