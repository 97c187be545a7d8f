package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/gowebpki/jcs"
)

// InputHash is the SHA-256, in hex, of the input's canonical JSON (RFC 8785):
// the same for every language and any order of fields.
//
// RFC 8785 knows numbers only as IEEE doubles, in which 9007199254740993 and
// 9007199254740992 are the same. Two inputs with one hash would get each
// other's receipts, so whole numbers that a double cannot hold are refused:
// write them as strings.
func InputHash(input any) (string, error) {
	text, err := json.Marshal(input)
	if err != nil {
		return "", fmt.Errorf("encode the input: %w", err)
	}
	if err := checkNumbers(text); err != nil {
		return "", err
	}
	canonical, err := jcs.Transform(text)
	if err != nil {
		return "", fmt.Errorf("canonical form of the input: %w", err)
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}

func checkNumbers(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the input: %w", err)
		}
		n, ok := token.(json.Number)
		if !ok || strings.ContainsAny(n.String(), ".eE") {
			continue
		}
		f, err := n.Float64()
		if err != nil || strings.TrimPrefix(strconv.FormatFloat(f, 'f', 0, 64), "-") != strings.TrimPrefix(n.String(), "-") {
			return errors.New("the input has a whole number that JSON's numbers cannot hold exactly; write it as a string")
		}
	}
}
