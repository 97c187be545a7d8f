package localstack

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestCompactIsWhatTheStandardLibraryDoes(t *testing.T) {
	for _, text := range []string{
		`{}`, `[]`, `1`, `"a b"`, `{"a": "b c", "d": [1, 2,  {"e":  null}]}`, `{"a":"q \" r", "b": "\\", "c": "\\\" d"}`,
		`{ "":  "" , "x y": " "}`,
	} {
		var want bytes.Buffer
		if err := json.Compact(&want, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got := compact([]byte(text)); !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%s: got %s, want %s", text, got, want.Bytes())
		}
	}
}
