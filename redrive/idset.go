package redrive

import "crypto/sha256"

// idSet remembers ids in some thirty bytes each, whatever their length: by half
// of their SHA-256, which no two ids share.
type idSet map[[16]byte]struct{}

// add says whether the id is new.
func (s idSet) add(id string) bool {
	k := idKey(id)
	if _, known := s[k]; known {
		return false
	}
	s[k] = struct{}{}
	return true
}

func (s idSet) has(id string) bool {
	_, known := s[idKey(id)]
	return known
}

func idKey(id string) [16]byte {
	sum := sha256.Sum256([]byte(id))
	return [16]byte(sum[:16])
}
