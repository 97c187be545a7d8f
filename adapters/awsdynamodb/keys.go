package awsdynamodb

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dlqbridge/dlqbridge"
)

// Names of attributes and indexes.
const (
	attrPK      = "pk"
	attrSK      = "sk"
	attrDoc     = "doc"
	attrVersion = "version"
	attrToken   = "tk" // the writer's, see ours
	attrExpires = "expires_at"
	attrWorkPK  = "work_pk"
	attrWorkSK  = "work_sk"
	attrSigPK   = "sig_pk"
	attrSigSK   = "sig_sk"

	indexWork      = "work"
	indexSignature = "signature"
)

// Sort keys of a record's items; see DESIGN.md, "What a record is made of".
const (
	skControl     = "control"
	prefixArrival = "arrival#"
	prefixContext = "context#"
	prefixEvent   = "event#"
	prefixNote    = "note#"
	prefixSend    = "send#"
	prefixWide    = "wide#"
)

// key is a primary key of either table.
type key struct{ pk, sk string }

func (k key) String() string { return k.pk + " " + k.sk }

func (k key) attributes() map[string]types.AttributeValue {
	return map[string]types.AttributeValue{attrPK: text(k.pk), attrSK: text(k.sk)}
}

func recordPK(id string) string  { return "R#" + keyPart(id) }
func payloadPK(id string) string { return "P#" + keyPart(id) }

func controlKey(id string) key { return key{recordPK(id), skControl} }
func eventKey(id string, version int) key {
	return key{recordPK(id), fmt.Sprintf("%s%08d", prefixEvent, version)}
}

func sendKey(id string, n int) key { return key{recordPK(id), fmt.Sprintf("%s%04d", prefixSend, n)} }

func arrivalKey(id, arrival string) key {
	return key{recordPK(id), prefixArrival + keyPart(arrival)}
}
func contextKey(id, name string) key { return key{recordPK(id), prefixContext + keyPart(name)} }
func noteKey(id, name string) key    { return key{recordPK(id), prefixNote + keyPart(name)} }
func wideKey(id, name string) key    { return key{recordPK(id), prefixWide + name} }
func messageKey(message string) key  { return key{"M#" + keyPart(message), "message"} }
func leaseKey(destination string) key {
	return key{"D#" + keyPart(destination), "lease"}
}
func jobKey(id string) key { return key{"J#" + keyPart(id), "job"} }
func memberKey(job string, chunk int) key {
	return key{"J#" + keyPart(job), fmt.Sprintf("members#%06d", chunk)}
}

func chunkKey(id, arrival string, chunk int) key {
	return key{payloadPK(id), fmt.Sprintf("%s#%04d", keyPart(arrival), chunk)}
}

func approvalKey(a dlqbridge.Approval) key {
	return key{approvalPK(a.Plan), keyTime(a.At) + "#" + keyPart(a.By.String())}
}

func approvalPK(plan string) string { return "A#" + keyPart(plan) }

var (
	holdsKey = key{"HOLDS", "holds"}
	mutesKey = key{"MUTES", "mutes"}
)

// Partitions that list something.
const (
	jobsPK   = "JOBS"
	routesPK = "ROUTES"
)

// maxKeyPart keeps every key below DynamoDB's limits of 2,048 bytes for a
// partition key and 1,024 for a sort key ("Quotas in Amazon DynamoDB",
// read 2026-11-30) and an index key within reason.
const maxKeyPart = 512

// keyPart is s as it stands in a key: s itself, or its hash where s is too
// long, not UTF-8 or holds a separator. The whole text stands in the item.
func keyPart(s string) string {
	if len(s) <= maxKeyPart && utf8.ValidString(s) && !strings.ContainsAny(s, "#~") {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return "~" + hex.EncodeToString(sum[:16])
}

// shardOf spreads records over n shards by their id alone, so that it can be
// computed again at any time.
func shardOf(id string, n int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id)) // a hash takes everything
	return int(h.Sum32() % uint32(n))
}

// workPK is the index partition of open records of one route, cause and status.
func workPK(route string, cause dlqbridge.Cause, status dlqbridge.Status, shard int) string {
	return keyPart(route) + "#" + keyPart(string(cause)) + "#" + keyPart(string(status)) + "#" + strconv.Itoa(shard)
}

// parseWorkPK is the way back; ok is false for a partition of another kind.
func parseWorkPK(pk string) (route string, cause dlqbridge.Cause, status dlqbridge.Status, ok bool) {
	parts := strings.Split(pk, "#")
	if len(parts) != 4 {
		return "", "", "", false
	}
	return parts[0], dlqbridge.Cause(parts[1]), dlqbridge.Status(parts[2]), true
}

func signaturePK(signature string, shard int) string {
	return keyPart(signature) + "#" + strconv.Itoa(shard)
}

// closedPK is the index partition of closed records that Sweep has not seen
// yet. It has one separator, the others have three.
func closedPK(shard int) string { return "closed#" + strconv.Itoa(shard) }

// workSK sorts records by urgency: those with a deadline first, nearest
// first; then the oldest. The id makes it unique, so lists can go on behind it.
func workSK(c dlqbridge.Control) string {
	if !c.Deadline.IsZero() {
		return "D#" + keyTime(c.Deadline) + "#" + keyPart(c.ID)
	}
	return "~#" + keyTime(c.FirstSeen) + "#" + keyPart(c.ID)
}

// Bounds of times that fit into the fixed-width form and into JSON.
var (
	earliest = time.Date(1, 1, 1, 0, 0, 0, 1e6, time.UTC) // the zero time means none
	latest   = time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC)
)

// bounded brings a time that somebody made up into what can be written.
func bounded(t time.Time) time.Time {
	switch {
	case t.IsZero():
		return t
	case t.Before(earliest):
		return earliest
	case t.After(latest):
		return latest
	}
	return t
}

// writable says that bounded changes none of these.
func writable(times ...time.Time) bool {
	return !slices.ContainsFunc(times, func(t time.Time) bool { return bounded(t) != t })
}

// keyTime is a time in a key; the zero time sorts before all others.
func keyTime(t time.Time) string {
	if t.IsZero() {
		return "0000-00-00T00:00:00.000Z"
	}
	return dlqbridge.FormatTime(bounded(t))
}
