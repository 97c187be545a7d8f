package sqs

import (
	"crypto/md5" //nolint:gosec // the digest that the service's protocol prescribes
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dlqbridge/dlqbridge/localstack/wire"
)

// message is one message in one queue.
type message struct {
	id         string
	body       string
	bodyMD5    string
	attributes map[string]attribute
	trace      string
	sender     string
	group      string
	dedup      string
	sequence   string
	sourceARN  string // the queue it was moved from by the service, if any

	sentAt       time.Time
	enqueued     time.Time // when its retention clock started
	firstReceive time.Time
	receives     int // over all queues
	receivesHere int // since it came into this queue; the redrive policy counts these

	state    state
	position uint64
	lane     *lane
	receipt  uint32    // the number of the latest receive; older handles are stale
	received time.Time // the latest receive: twelve hours in flight count from it
	due      time.Time
	dueIndex int
	ageIndex int
}

// attribute is a message attribute as it travels.
type attribute struct {
	DataType         string
	StringValue      *string  `json:",omitempty"`
	BinaryValue      []byte   `json:",omitempty"`
	StringListValues []string `json:",omitempty"`
	BinaryListValues [][]byte `json:",omitempty"`
}

func newID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	var text [36]byte
	hex.Encode(text[0:8], b[0:4])
	hex.Encode(text[9:13], b[4:6])
	hex.Encode(text[14:18], b[6:8])
	hex.Encode(text[19:23], b[8:10])
	hex.Encode(text[24:36], b[10:16])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text[:])
}

func md5Hex(text string) string {
	sum := md5.Sum([]byte(text)) //nolint:gosec // as the protocol prescribes
	return hex.EncodeToString(sum[:])
}

// attributesMD5 is the digest that SDKs compare (page "Amazon SQS message
// metadata", calculating the MD5 message digest for message attributes).
func attributesMD5(attributes map[string]attribute) string {
	if len(attributes) == 0 {
		return ""
	}
	var text []byte
	add := func(value string) {
		text = binary.BigEndian.AppendUint32(text, uint32(len(value)))
		text = append(text, value...)
	}
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		a := attributes[name]
		add(name)
		add(a.DataType)
		if a.StringValue != nil {
			text = append(text, 1)
			add(*a.StringValue)
		} else {
			text = append(text, 2)
			add(string(a.BinaryValue))
		}
	}
	sum := md5.Sum(text) //nolint:gosec // as the protocol prescribes
	return hex.EncodeToString(sum[:])
}

// size is what counts towards the limits: the body and the names, types and
// values of the user's attributes, in bytes. System attributes do not count.
func size(body string, attributes map[string]attribute) int {
	n := len(body)
	for name, a := range attributes {
		n += len(name) + len(a.DataType) + len(a.BinaryValue)
		if a.StringValue != nil {
			n += len(*a.StringValue)
		}
	}
	return n
}

// allowedCharacters is the page "SendMessage".
const allowedCharacters = "#x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF"

func checkCharacters(text, where string) *wire.Error {
	for _, r := range text {
		switch {
		case r == '\t', r == '\n', r == '\r', r >= 0x20 && r <= 0xD7FF, r >= 0xE000 && r <= 0xFFFD, r >= 0x10000:
		default:
			return refuse("InvalidMessageContents", "Invalid binary character '#x%X' was found in the %s, the set of allowed characters is %s", r, where, allowedCharacters)
		}
	}
	return nil
}

// maxAttributes and the rules of checkAttributes are the page "Amazon SQS
// message metadata".
const maxAttributes = 10

var attributeName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,256}$`)

func checkAttributes(attributes map[string]attribute) *wire.Error {
	if len(attributes) > maxAttributes {
		return badValue("Number of message attributes [%d] exceeds the allowed maximum [%d].", len(attributes), maxAttributes)
	}
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		if err := checkAttributeName(name); err != nil {
			return err
		}
		if err := checkAttribute(name, attributes[name]); err != nil {
			return err
		}
	}
	return nil
}

func checkAttributeName(name string) *wire.Error {
	lower := strings.ToLower(name)
	switch {
	case !attributeName.MatchString(name):
		return badValue("The message attribute name '%s' is invalid. Attribute name can contain A-Z, a-z, 0-9, underscore (_), hyphen (-), and period (.) characters and be up to 256 characters long.", name)
	case strings.HasPrefix(lower, "aws.") || strings.HasPrefix(lower, "amazon."):
		return badValue("You can't use message attribute names beginning with 'AWS.' or 'Amazon.'. These strings are reserved for internal use.")
	case strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") || strings.Contains(name, ".."):
		return badValue("The message attribute name '%s' is invalid. Attribute name can't start or end with a period, or have periods in succession.", name)
	}
	return nil
}

func checkAttribute(name string, a attribute) *wire.Error {
	if len(a.StringListValues) > 0 || len(a.BinaryListValues) > 0 {
		return refuse("UnsupportedOperation", "Message attribute list values in SendMessage operation are not supported.")
	}
	if a.DataType == "" {
		return badValue("The message attribute '%s' must contain a non-empty message attribute type.", name)
	}
	kind, _, _ := strings.Cut(a.DataType, ".")
	if (kind != "String" && kind != "Number" && kind != "Binary") || len(a.DataType) > 256 {
		return badValue("The type of message attribute '%s' is invalid. You must use only the following supported type prefixes: Binary, Number, String.", name)
	}
	if err := checkCharacters(a.DataType, "message attribute type"); err != nil {
		return err
	}
	if kind == "Binary" {
		if len(a.BinaryValue) == 0 || a.StringValue != nil {
			return emptyAttribute(name, a.DataType)
		}
		return nil
	}
	if a.StringValue == nil || *a.StringValue == "" || len(a.BinaryValue) > 0 {
		return emptyAttribute(name, a.DataType)
	}
	if kind == "Number" && !isNumber(*a.StringValue) {
		return badValue("Can't cast the value of message attribute '%s' to a number.", name)
	}
	return checkCharacters(*a.StringValue, "message attribute '"+name+"'")
}

func emptyAttribute(name, dataType string) *wire.Error {
	return badValue("The message attribute '%s' must contain non-empty message attribute value for message attribute type '%s'.", name, dataType)
}

var numberRule = regexp.MustCompile(`^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?$`)

// isNumber follows the page "Amazon SQS message metadata": up to 38 digits of
// precision, between -10^128 and 10^126.
func isNumber(text string) bool {
	if !numberRule.MatchString(text) {
		return false
	}
	mantissa := strings.FieldsFunc(text, func(r rune) bool { return r == 'e' || r == 'E' })[0]
	digits := strings.TrimLeft(strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, mantissa), "0")
	if len(strings.TrimRight(digits, "0")) > 38 {
		return false
	}
	value, ok := new(big.Rat).SetString(text)
	if !ok {
		return false
	}
	most := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(126), nil))
	least := new(big.Rat).SetInt(new(big.Int).Neg(new(big.Int).Exp(big.NewInt(10), big.NewInt(128), nil)))
	return value.Cmp(most) <= 0 && value.Cmp(least) >= 0
}

// groupRule is the page "SendMessage": group and deduplication ids are up to
// 128 letters, digits and punctuation.
func checkID(value, parameter string) *wire.Error {
	valid := value != "" && utf8.RuneCountInString(value) <= 128
	for i := range len(value) {
		valid = valid && value[i] > 0x20 && value[i] < 0x7f
	}
	if valid {
		return nil
	}
	return badParameter(value, parameter, "%s can only include alphanumeric and punctuation characters. 1 to 128 in length.", parameter)
}
