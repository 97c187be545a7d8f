package redrive

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// onDisk says where temporary files go: into an empty folder, which must be
// empty afterwards too, or nowhere.
func onDisk(t *testing.T, there bool) {
	t.Helper()
	dir := t.TempDir()
	if !there {
		dir = filepath.Join(dir, "missing")
	}
	t.Setenv("TMPDIR", dir)
	t.Cleanup(func() {
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%d temporary files were left behind", len(left))
		}
	})
}

func read[T any](t *testing.T, l List[T]) []T {
	t.Helper()
	list, err := l.Slice()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// A list holds what was added in its order, whether there is a disk or not.
func TestAListOfAnyLength(t *testing.T) {
	for _, disk := range []bool{true, false} {
		t.Run(fmt.Sprintf("disk %v", disk), func(t *testing.T) {
			onDisk(t, disk)
			var l List[PlannedMember]
			var want []PlannedMember
			for i := range 3*heldValues + 7 {
				m := PlannedMember{ID: fmt.Sprint("r_", i), Version: i % 3, Action: dlqbridge.ActionRetry, Resend: i%2 == 0}
				l.Add(m)
				want = append(want, m)
			}
			if got := read(t, l); !slices.Equal(got, want) || l.Len() != len(want) {
				t.Errorf("%d of %d came back, in another order or changed", len(got), len(want))
			}
			if (l.of.written > 0) != disk {
				t.Errorf("%d stand on disk", l.of.written)
			}
			// What comes while it is read is not seen, and all of it the next time.
			n := 0
			for _, err := range l.All() {
				if err != nil {
					t.Fatal(err)
				}
				if n++; n <= heldValues {
					l.Add(PlannedMember{ID: "late"})
				}
			}
			if n != len(want) || l.Len() != n+heldValues || len(read(t, l)) != l.Len() {
				t.Errorf("%d were read, %d are there", n, l.Len())
			}
			copied := ListOf(read(t, l)...)
			if err := copied.AddAll(l.All()); err != nil || copied.Len() != 2*l.Len() {
				t.Errorf("%d, %v", copied.Len(), err)
			}
		})
	}
}

// A disk that fills up in the middle costs memory and no value.
func TestADiskThatFillsUpLosesNothing(t *testing.T) {
	onDisk(t, true)
	var l List[int]
	s := sorter[int]{compare: cmp.Compare[int]}
	for i := range 3 * sortedAtOnce {
		l.Add(i)
		s.add(-i)
		if i != sortedAtOnce {
			continue
		}
		for _, tape := range []*tape{&l.of.tape, &s.tape} {
			again, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", tape.file.Fd()))
			if err != nil {
				t.Skip("this system opens no file again by its number")
			}
			defer tape.file.Close()
			tape.file = again // which can only be read
		}
	}
	for i, v := range read(t, l) {
		if v != i {
			t.Fatalf("value %d is %d", i, v)
		}
	}
	want := 1 - 3*sortedAtOnce
	for v, err := range s.all() {
		if err != nil || v != want {
			t.Fatalf("%d, want %d: %v", v, want, err)
		}
		want++
	}
	if l.Len() != 3*sortedAtOnce || l.of.written == 0 || len(l.of.held) == 0 || want != 1 {
		t.Errorf("%d, %d on disk; sorted to %d", l.Len(), l.of.written, want)
	}
}

// A file that cannot be read is an error and no short list.
func TestAListThatCannotBeReadSaysSo(t *testing.T) {
	onDisk(t, true)
	var l List[int]
	s := sorter[int]{compare: cmp.Compare[int]}
	for i := range 2 * sortedAtOnce {
		l.Add(i)
		s.add(i)
	}
	for _, tape := range []*tape{&l.of.tape, &s.tape} {
		if err := tape.file.Truncate(tape.end / 2); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Slice(); err == nil {
		t.Error("the list says nothing")
	}
	var failed error
	for _, err := range s.all() {
		failed = err
	}
	if failed == nil {
		t.Error("the sorted list says nothing")
	}
	if _, err := json.Marshal(l); err == nil {
		t.Error("its JSON says nothing")
	}
}

func TestSortingMoreThanFitsIntoMemory(t *testing.T) {
	for _, disk := range []bool{true, false} {
		t.Run(fmt.Sprintf("disk %v", disk), func(t *testing.T) {
			onDisk(t, disk)
			rng := rand.New(rand.NewPCG(1, 2))
			now := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
			for _, n := range []int{0, 1, 100, sortedAtOnce, 2*sortedAtOnce + 100} {
				s := sorter[candidate]{compare: (&target{}).order}
				var want []candidate
				for i := range n {
					c := candidate{Planned: PlannedMember{ID: fmt.Sprint("r_", i)}, Kind: kind{"a", "b"}}
					if rng.IntN(2) == 0 {
						c.Deadline = now.AddDate(0, 0, rng.IntN(100))
					}
					c.FirstSeen = now.AddDate(0, 0, -rng.IntN(100))
					s.add(c)
					want = append(want, c)
				}
				slices.SortFunc(want, (&target{}).order)
				for range 2 { // it can be read again
					i := 0
					for c, err := range s.all() {
						if err != nil || c != want[i] {
							t.Fatalf("%d of %d: %+v, want %+v: %v", i, n, c, want[i], err)
						}
						i++
					}
					if i != n {
						t.Errorf("%d of %d", i, n)
					}
				}
				for _, err := range s.all() { // leaving early is fine
					if err != nil {
						t.Fatal(err)
					}
					break
				}
			}
		})
	}
}

// The hash of a plan is that of its JSON, whether it is written whole or piece
// by piece; and what was written is read again as it was.
func TestAPlanIsWrittenAndReadPieceByPiece(t *testing.T) {
	for _, n := range []int{0, 1, 2*heldValues + 3} {
		p := Plan{Format: PlanFormat, Cause: dlqbridge.CauseTimeout, Environment: `"list & <co>`, Canary: []int{1, 5}, Selected: 2 * n, Rate: dlqbridge.Rate{Count: 1, Per: 1}, Burst: 1, MaxInFlight: 1}
		p.Jobs = []PlannedJob{{Destination: "one"}, {Destination: "two", Receivers: []string{"a"}}}
		for i := range n {
			p.Excluded.Add(dlqbridge.Exclusion{ID: fmt.Sprint("x_", i), Reason: dlqbridge.ExcludeHeld, Detail: `hold "<h>"`})
			for k := range p.Jobs {
				p.Jobs[k].Members.Add(PlannedMember{ID: fmt.Sprint("r_", k, "_", i), Version: 2, Action: dlqbridge.ActionRetry})
			}
		}
		var err error
		if p.Hash, err = p.sum(); err != nil {
			t.Fatal(err)
		}
		whole, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		parts, lists := p.Apart()
		head, err := json.Marshal(parts)
		if err != nil {
			t.Fatal(err)
		}
		var pieces bytes.Buffer
		if err := lists.Write(&pieces, head, compactly); err != nil || !bytes.Equal(pieces.Bytes(), whole) {
			t.Fatalf("%d: written piece by piece it is another document: %v", n, err)
		}
		var got struct{ Plan }
		if err := ReadPlan(&pieces, &got, &got.Plan); err != nil {
			t.Fatal(err)
		}
		if err := got.Check(); err != nil {
			t.Errorf("%d: %v", n, err)
		}
		if again, err := json.Marshal(got); err != nil || !bytes.Equal(again, whole) {
			t.Errorf("%d: it was read as another plan: %v", n, err)
		}
		if n > 0 {
			got.Jobs[1].Members.Add(PlannedMember{ID: "r_more"})
			if got.Check() == nil {
				t.Error("a member more is not noticed")
			}
		}
	}
}

func TestWrongPlanDocumentsAreRefused(t *testing.T) {
	const good = `{"jobs":[{"destination":"d","members":[{"id":"r_1","v":1}]}],"excluded":[],"format":1}`
	for name, text := range map[string]string{
		"jobs twice":          strings.Replace(good, `"excluded":[]`, `"jobs":[]`, 1),
		"a field twice":       strings.Replace(good, `"excluded":[]`, `"format":2`, 1),
		"twice in two cases":  strings.Replace(good, `"excluded":[]`, `"Format":2`, 1),
		"jobs in capitals":    strings.Replace(good, `"jobs"`, `"JOBS"`, 1),
		"members in capitals": strings.Replace(good, `"members"`, `"Members"`, 1),
		"no list":             strings.Replace(good, `"excluded":[]`, `"excluded":null`, 1),
		"an unknown field":    strings.Replace(good, `"v":1`, `"w":1`, 1),
		"one of a job":        strings.Replace(good, `"destination"`, `"destinations"`, 1),
		"half of it":          good[:40],
		"something behind":    good + "{}",
		"a list":              "[" + good + "]",
		"nothing":             "",
	} {
		var p Plan
		if err := ReadPlan(strings.NewReader(text), &p, &p); err == nil {
			t.Errorf("%s: %+v", name, p)
		}
	}
	var p Plan
	if err := ReadPlan(strings.NewReader(good), &p, &p); err != nil || p.Format != 1 || p.Jobs[0].Members.Len() != 1 {
		t.Errorf("%+v, %v", p, err)
	}
}
