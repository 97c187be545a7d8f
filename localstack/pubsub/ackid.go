package pubsub

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
)

// ackKey makes the ack IDs of a subscription its own.
type ackKey [96]byte

// An ack ID is, in base64, the key of its subscription, the number of the
// delivery and a checksum: opaque, different for each delivery, and with some
// 144 characters as long as the real ones, so that a request of too many of
// them is too large here too.
func (k *ackKey) id(ack uint64) string {
	var text [len(ackKey{}) + 8 + 4]byte
	copy(text[:], k[:])
	binary.BigEndian.PutUint64(text[len(k):], ack)
	binary.BigEndian.PutUint32(text[len(k)+8:], crc32.ChecksumIEEE(text[:len(k)+8]))
	return base64.RawURLEncoding.EncodeToString(text[:])
}

// number reads an ack ID; false if it is none of this subscription's.
func (k *ackKey) number(id string) (ack uint64, ok bool) {
	var text [len(ackKey{}) + 8 + 4]byte
	if len(id) != base64.RawURLEncoding.EncodedLen(len(text)) {
		return 0, false
	}
	if _, err := base64.RawURLEncoding.Decode(text[:], []byte(id)); err != nil {
		return 0, false
	}
	sum := binary.BigEndian.Uint32(text[len(k)+8:])
	if ackKey(text[:len(k)]) != *k || sum != crc32.ChecksumIEEE(text[:len(k)+8]) {
		return 0, false
	}
	return binary.BigEndian.Uint64(text[len(k):]), true
}

// rememberedAcks bounds what a subscription remembers of acknowledgements.
const rememberedAcks = 10_000

// recentAcks are the deliveries that were acknowledged of late: with exactly
// once, acknowledging again is no error, acknowledging a lost delivery is one.
type recentAcks struct {
	set  map[uint64]bool
	ring []uint64
	at   int
}

func (r *recentAcks) add(ack uint64) {
	if r.set == nil {
		r.set = map[uint64]bool{}
	}
	r.set[ack] = true
	if len(r.ring) < rememberedAcks {
		r.ring = append(r.ring, ack)
		return
	}
	delete(r.set, r.ring[r.at])
	r.ring[r.at] = ack
	r.at = (r.at + 1) % rememberedAcks
}

func (r *recentAcks) has(ack uint64) bool { return r.set[ack] }
