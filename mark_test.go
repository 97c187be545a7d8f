package dlqbridge

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestParseMark(t *testing.T) {
	id := RecordID(IdentityTask, "s", "", "t", 0)
	want := Mark{Record: id, Job: "j_1", N: 2, Action: ActionResume, Idem: "k", From: "c"}
	written, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	good := string(written)
	for _, value := range []string{good, " " + good + "\n", strings.Replace(good, "{", `{"later":1,`, 1), strings.Replace(good, `"k"`, `"\u006b"`, 1)} {
		if got, err := ParseMark([]byte(value)); err != nil || got != want {
			t.Errorf("%s: %+v, %v", value, got, err)
		}
	}
	for _, bad := range []string{
		"", "x", "{}", "[]", "null", "7", "\xff",
		good + good,
		strings.Replace(good, id, "", 1),
		strings.Replace(good, id, "r_a", 1),
		strings.Replace(good, id, "R_"+id[2:], 1),
		strings.Replace(good, id, id+"a", 1),
		strings.Replace(good, id, id[:27]+"#", 1),
		strings.Replace(good, "j_1", "", 1),
		strings.Replace(good, "j_1", strings.Repeat("j", 65), 1),
		strings.Replace(good, `"n":2`, `"n":0`, 1),
		strings.Replace(good, `"n":2`, `"n":-1`, 1),
		strings.Replace(good, `"n":2`, `"n":2.5`, 1),
		strings.Replace(good, `"n":2`, `"n":1000001`, 1),
		strings.Replace(good, `"n":2`, `"n":1e99`, 1),
		strings.Replace(good, `"n":2`, `"n":"2"`, 1),
		strings.Replace(good, "resume", "human_review", 1),
		strings.Replace(good, "resume", "", 1),
		strings.Replace(good, `"c"`, `"`+strings.Repeat("c", 1025)+`"`, 1),
		strings.Replace(good, `"k"`, `"`+strings.Repeat("k", 1025)+`"`, 1),
		good + strings.Repeat(" ", 4096),
	} {
		got, err := ParseMark([]byte(bad))
		if !errors.Is(err, ErrInvalid) || got != (Mark{}) {
			t.Errorf("%.60q: %+v, %v", bad, got, err)
		}
		if err != nil && (strings.Contains(err.Error(), "j_1") || strings.Contains(err.Error(), id)) {
			t.Errorf("the text repeats what stood there: %v", err)
		}
	}
}

func TestValidRecordID(t *testing.T) {
	id := RecordID(IdentityContent, "s", "t", "k", 3)
	if !ValidRecordID(id) {
		t.Errorf("%s", id)
	}
	for _, bad := range []string{"", "r_", id[2:], "r_" + id, id + " ", strings.ToUpper(id), "r_" + strings.Repeat("1", 26), "r_" + strings.Repeat("é", 13)} {
		if ValidRecordID(bad) {
			t.Errorf("%q", bad)
		}
	}
}

// Whatever stands there, what is taken for a mark is one that we could have
// written, and reads the same when it is written again.
func FuzzParseMark(f *testing.F) {
	f.Add([]byte(`{"rec":"r_aaaaaaaaaaaaaaaaaaaaaaaaaa","job":"j_1","n":1,"act":"retry","idem":"k","from":"c"}`))
	f.Add([]byte(`{"rec":"r_x","n":1e3}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		m, err := ParseMark(value)
		if err != nil {
			return
		}
		again, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if len(again) > maxMarkRead {
			return // escapes of escapes; ours drop what is too long
		}
		if got, err := ParseMark(again); err != nil || got != m {
			t.Errorf("%q: %+v, then %+v, %v", value, m, got, err)
		}
	})
}
