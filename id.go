package dlqbridge

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"strings"
)

// idEncoding spells ids in lower-case base32 without padding.
var idEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// digest hashes fields with their lengths before them: no two different lists
// of fields hash alike, whatever separators they contain.
func digest[T string | []byte](fields ...T) []byte {
	var room [1 << 10]byte // for most, so that nothing is allocated
	text := room[:0]
	for _, f := range fields {
		text = append(binary.BigEndian.AppendUint64(text, uint64(len(f))), f...)
	}
	sum := sha256.Sum256(text)
	return sum[:]
}

// Identity says what a record's id was made from.
type Identity string

// The kinds of identity.
const (
	// IdentityTask: the task id; one record for all deaths of the task.
	IdentityTask Identity = "task"
	// IdentityMessage: the SQS message id, for a letter without task id.
	IdentityMessage Identity = "message"
	// IdentityContent: the payload's hash and first publish time, for a Pub/Sub
	// letter without task id.
	IdentityContent Identity = "content"
)

// RecordID is the id of the record for one unit of work: "r_" and 26 base32
// characters (130 bits) of SHA-256 over source, tenant, key and episode. Key is
// the task id, or what stands for it (see Identity). Episode is 0, and one
// more each time a letter meets a closed record.
func RecordID(identity Identity, source, tenant, key string, episode int) string {
	var e [8]byte
	binary.BigEndian.PutUint64(e[:], uint64(episode))
	return "r_" + idEncoding.EncodeToString(digest(source, tenant, string(identity)+":"+key, string(e[:])))[:26]
}

// ValidRecordID says whether s has the form of a record id, so that no other
// text is ever used as a key.
func ValidRecordID(s string) bool {
	rest, ok := strings.CutPrefix(s, "r_")
	return ok && len(rest) == 26 && strings.Trim(rest, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// ArrivalKey names one letter on its record: the same letter delivered again
// has the same key.
func ArrivalKey(l Letter) string {
	return hex.EncodeToString(digest(l.Place, l.MessageID, FormatTime(l.SentAt))[:12])
}

// RepairedName names a payload that a repair made. It follows from the content,
// so that the same repair written again writes the same, and two different ones
// never write over each other.
func RepairedName(record string, p Payload) string {
	return "v_" + hex.EncodeToString(digest("repaired", record, string(p.Encode()))[:12])
}

// Fingerprint is a short stable name (16 hex characters) for a list of fields.
func Fingerprint[T string | []byte](fields ...T) string {
	return hex.EncodeToString(digest(fields...)[:8])
}

// NewToken is a fresh random name of 16 characters for a job, a note or a holder.
func NewToken() string {
	var b [10]byte
	_, _ = rand.Read(b[:]) // crypto/rand.Read never fails
	return idEncoding.EncodeToString(b[:])
}

// shortLimit is how long an id may be in the control item, in bytes.
const shortLimit = 128

// Short cuts texts over 128 bytes to a prefix and a hash, for places of bounded
// size; the whole text stands in the arrival. Texts that fit are unchanged.
func Short(s string) string {
	if len(s) <= shortLimit {
		return s
	}
	return CutText(s, 48) + "~" + Fingerprint(s)
}

// CutText cuts s to at most limit bytes on a character border, so that what was
// valid UTF-8 stays valid.
func CutText(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	end := limit
	for end > 0 && end > limit-4 && s[end]&0xC0 == 0x80 {
		end--
	}
	return strings.ToValidUTF8(s[:end], "\uFFFD")
}

// ShellWord is a text as a POSIX shell takes it for one word, so that a command
// that is shown can be pasted whatever somebody's file or step is called.
func ShellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("#+,-./:@_", r)
	}
	if s != "" && s[0] != '#' && strings.TrimLeftFunc(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
