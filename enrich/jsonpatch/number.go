package jsonpatch

import (
	"bytes"
	"strconv"
	"strings"
)

// sameNumber compares by value (RFC 6902, 4.6) and never rounds: 1.0 is 1 and
// 1e2 is 100, but 9007199254740993 is not 9007199254740992.
func sameNumber(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, okX := decimalOf(string(a))
	y, okY := decimalOf(string(b))
	return okX && okY && x == y
}

// decimal is a number as its digits, without zeros at either end, times a power
// of ten; the zero value is zero, which has no sign.
type decimal struct {
	negative bool
	digits   string
	exponent int64
}

// Exponents have at most maxExponentDigits: a sender may write a million of
// them, and a number that is not compared is like none but itself.
const maxExponentDigits = 17

func decimalOf(number string) (decimal, bool) {
	number, negative := strings.CutPrefix(number, "-")
	mantissa, exponent := number, ""
	if at := strings.IndexAny(number, "eE"); at >= 0 {
		mantissa, exponent = number[:at], strings.TrimPrefix(number[at+1:], "+")
	}
	whole, part, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+part, "0")
	if digits == "" {
		return decimal{}, true
	}
	d := decimal{negative: negative, digits: strings.TrimRight(digits, "0")}
	d.exponent = int64(len(digits) - len(d.digits) - len(part))
	if exponent == "" {
		return d, true
	}
	exponent, below := strings.CutPrefix(exponent, "-")
	exponent = strings.TrimLeft(exponent, "0")
	if len(exponent) > maxExponentDigits {
		return decimal{}, false
	}
	n, _ := strconv.ParseInt("0"+exponent, 10, 64) // they are digits, and few
	if below {
		n = -n
	}
	d.exponent += n
	return d, true
}
