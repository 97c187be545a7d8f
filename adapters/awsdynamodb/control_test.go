package awsdynamodb

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge"
)

// hostile makes controls of which every part may be missing, ordinary, or as
// long and strange as the program lets it become.
type hostile struct{ *rand.Rand }

func (h hostile) pick(options ...string) string { return options[h.IntN(len(options))] }

// id is a text as dlqbridge.Short leaves it, or of any length up to its limit.
func (h hostile) id() string {
	return h.pick("", "=", "==x", "acme", "a#b~c", strings.Repeat("x", 128), strings.Repeat("\x01", 128), strings.Repeat("é", 64), strings.Repeat(`"`, 128),
		dlqbridge.Short(strings.Repeat("y", 5000)), "<&>\u2028", strings.Repeat("日本", 21), "\U0010FFFF")
}

func (h hostile) time() time.Time {
	switch h.IntN(4) {
	case 0:
		return time.Time{}
	case 1:
		return time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC)
	case 2:
		return time.Date(1, 1, 1, 0, 0, 0, 1e6, time.UTC)
	}
	return time.UnixMilli(1_700_000_000_000 + h.Int64N(1e11)).UTC()
}

func (h hostile) count() int { return []int{0, 1, 17, 1_000_000, 1<<31 - 1}[h.IntN(5)] }

func (h hostile) yes() bool { return h.IntN(2) == 0 }

func one[T any](h hostile, list []T) T { return list[h.IntN(len(list))] }

func (h hostile) control() dlqbridge.Control {
	key := func() string { return h.pick("", "aaaabbbbccccddddeeeeffff", "0123456789abcdef01234567") }
	effects := []dlqbridge.Effect{"", dlqbridge.EffectNone, dlqbridge.EffectConfirmed, dlqbridge.EffectUnknown}
	actions := []dlqbridge.Action{"", dlqbridge.ActionHumanReview, dlqbridge.ActionCompensate}
	c := dlqbridge.Control{
		ID: dlqbridge.RecordID(dlqbridge.IdentityTask, "s", "t", h.id(), h.count()), Version: 1 + h.count(), Identity: dlqbridge.IdentityMessage, Episode: h.count(),
		Previous: h.pick("", dlqbridge.RecordID(dlqbridge.IdentityTask, "s", "t", "p", 0)), Route: h.pick("", "orders", "a#b", strings.Repeat("r", 64)),
		Provider: dlqbridge.PubSub, Source: h.pick("", "arn:aws-us-gov:sqs:us-gov-west-1:123456789012:"+strings.Repeat("q", 80), "projects/"+strings.Repeat("p", 30)+"/subscriptions/"+strings.Repeat("s", 255)),
		TaskID: h.id(), TaskType: h.id(), Tenant: h.id(), Owner: h.id(), Signature: h.pick("", "sg_0123456789abcdef", strings.Repeat("#", 32)),
		Signed: dlqbridge.Signed{Rule: h.count(), Since: h.time(), Agent: h.pick("", "1.4.2", strings.Repeat("\x01", dlqbridge.MaxSignedVersion)), Workflow: h.pick("", "12", strings.Repeat("é", dlqbridge.MaxSignedVersion/2))},
		Status: one(h, dlqbridge.Statuses()), Cause: one(h, append(dlqbridge.Causes(), "", "odd")), Effect: one(h, effects), Uncovered: one(h, effects), RepeatSafe: h.yes(), Action: one(h, actions),
		Why: dlqbridge.Why(h.pick("", string(dlqbridge.WhyCoveredEffect))), PayloadVersion: h.count(), Payload: key(), Context: key(), Arrivals: h.count(), Newest: key(), Conflict: h.yes(), Late: h.yes(),
		Fix: h.pick("", "deploy:1.4.2", strings.Repeat("\x02", 64)), Redrives: h.count(), Recurrences: h.count(), FirstSeen: h.time(), LastSeen: h.time(), Deadline: h.time(), ValidUntil: h.time(),
		LostAt: h.time(), TriageBy: h.time(), NotBefore: h.time(), RecheckAt: h.time(), LastSend: h.time(), ClosedAt: h.time(),
		Move: dlqbridge.Move{
			At: h.time(), By: h.pick("", "policy:default@1", "arn:aws:sts::123456789012:assumed-role/"+strings.Repeat("R", 64)+"/"+strings.Repeat("s", 64)), Verb: dlqbridge.VerbCompleteManually,
			From: one(h, append(dlqbridge.Statuses(), "")), Why: h.id(), Arrival: key(), Context: key(), Note: key(), Job: h.pick("", "j_abcdefghijklmnop"), N: h.count(),
		},
	}
	c.Move.Version, c.Move.To = c.Version, h.pickStatus(c.Status)
	if h.yes() {
		c.Authorized = &dlqbridge.Authorization{By: h.pick("", "os:me", strings.Repeat("w", 170)), At: h.time(), Action: one(h, actions), Of: h.pick("", dlqbridge.Fingerprint("x"))}
	}
	if h.yes() {
		c.Claim = &dlqbridge.Claim{Job: h.pick("", "j_abcdefghijklmnop"), N: h.count(), Until: h.time(), Before: h.time()}
	}
	return c
}

func (h hostile) pickStatus(usual dlqbridge.Status) dlqbridge.Status {
	return one(h, []dlqbridge.Status{usual, usual, dlqbridge.StatusReceived, ""})
}

func TestAControlItemComesBackAsItWasAndFitsOneWriteUnit(t *testing.T) {
	s := &Store{shards: maxShards, recordRetention: DefaultRecordRetention, now: func() time.Time { return time.Time{} }}
	h := hostile{rand.New(rand.NewPCG(1, 2))}
	apart := 0
	for range 5_000 {
		c := h.control()
		e, err := s.encodeControl(c, newToken())
		if err != nil {
			t.Fatal(err)
		}
		if n := itemSize(e.item); n > maxControlBytes {
			t.Fatalf("%d bytes: %v", n, e.item)
		}
		if e.wide != nil {
			apart++
		}
		got, err := decodeControl(e.item, e.wide)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c, got); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
		again, err := s.encodeControl(got, textOf(e.item, attrToken))
		if err != nil || !reflect.DeepEqual(again, e) {
			t.Fatalf("encoded again it differs (%v):\n%v\n%v", err, e.item, again.item)
		}
		for name, v := range e.item {
			if strings.HasSuffix(name, "_pk") && textOf(e.item, name) == "" {
				t.Fatalf("index key %s is %v", name, v) // C67
			}
		}
	}
	if apart == 0 || apart == 5_000 {
		t.Errorf("texts stood apart %d times", apart)
	}
}

// fill gives every part of a value something of its own.
func fill(t *testing.T, v reflect.Value, path string) {
	t.Helper()
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.UnixMilli(1_700_000_000_000 + int64(len(path))).UTC()))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), path+"."+v.Type().Field(i).Name)
		}
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), path)
	case v.Kind() == reflect.String:
		v.SetString(path)
	case v.CanInt():
		v.SetInt(int64(1000 + len(path)))
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	default:
		t.Fatalf("%s is a %s, which no control item can hold yet", path, v.Type())
	}
}

// Whoever adds a part to Control, Claim, Authorization or Move and not to
// controlDoc hears it here.
func TestNoPartOfAControlIsForgotten(t *testing.T) {
	s := &Store{shards: 8, recordRetention: DefaultRecordRetention}
	var c dlqbridge.Control
	fill(t, reflect.ValueOf(&c).Elem(), "c")
	c.Move.Version = c.Version
	for _, status := range []dlqbridge.Status{dlqbridge.StatusRedriving, dlqbridge.StatusRejected} {
		c.Status = status
		e, err := s.encodeControl(c, newToken())
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeControl(e.item, e.wide)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	}
}

// An ordinary record fits, whatever state it is in.
func TestAnOrdinaryRecordNeedsNoSecondItem(t *testing.T) {
	s := &Store{shards: 8, recordRetention: DefaultRecordRetention}
	at := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	in := func(m int) time.Time { return at.Add(time.Duration(m) * time.Minute) }
	c := dlqbridge.Control{
		ID: dlqbridge.RecordID(dlqbridge.IdentityTask, "s", "t", "k", 0), Version: 12, Identity: dlqbridge.IdentityTask, Route: "orders", Provider: dlqbridge.SQS,
		Source: "arn:aws:sqs:us-east-1:123456789012:orders-production", TaskID: "5f0d9a9e-7c1a-4d0e-9a34-9d1f6e6b2c11", TaskType: "invoice.create", Tenant: "acme-europe", Owner: "platform-team",
		Signature: "sg_0123456789abcdef", Status: dlqbridge.StatusRedriving, Cause: dlqbridge.CauseDependencyUnavailable, Effect: dlqbridge.EffectNone, Uncovered: dlqbridge.EffectNone,
		Action: dlqbridge.ActionRetry, Why: dlqbridge.WhyRetryable, PayloadVersion: 1, Context: "c_0123456789abcdef", Arrivals: 2, Newest: "aaaabbbbccccddddeeeeffff", Fix: "deploy:1.4.2",
		Authorized: &dlqbridge.Authorization{By: "arn:aws:sts::123456789012:assumed-role/Operators/alice@example.com", At: in(50), Action: dlqbridge.ActionResume, Of: dlqbridge.Fingerprint("resume", "ck")},
		Claim:      &dlqbridge.Claim{Job: "abcdefghijklmnop", N: 2, Until: in(61)}, Redrives: 2, Recurrences: 1, FirstSeen: at, LastSeen: in(40), Deadline: in(500), ValidUntil: in(600),
		LostAt: in(20_160), TriageBy: in(1440), NotBefore: in(55), RecheckAt: in(56), LastSend: in(60),
		Move: dlqbridge.Move{Version: 12, At: in(60), By: "job:abcdefghijklmnop", Verb: dlqbridge.VerbClaim, From: dlqbridge.StatusAuthorized, To: dlqbridge.StatusRedriving, Why: "claimed for redrive 2", Job: "abcdefghijklmnop", N: 2},
	}
	e, err := s.encodeControl(c, newToken())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", itemSize(e.item))
	if e.wide != nil {
		t.Errorf("its texts stand apart: %v", e.item)
	}
}

// C70.
func TestKeyTimesSortAsTimesDo(t *testing.T) {
	plus2 := time.FixedZone("", 2*3600)
	times := []time.Time{
		{},
		earliest, time.Date(2026, 1, 1, 12, 0, 28, 991e6, time.UTC), time.Date(2026, 1, 1, 12, 0, 29, 0, time.UTC),
		time.Date(2026, 1, 1, 14, 0, 29, 17e6, plus2), time.Date(2026, 1, 1, 12, 0, 29, 100e6, time.UTC), latest, time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	for i := range times[1:] {
		if a, b := keyTime(times[i]), keyTime(times[i+1]); a > b || len(a) != keyTimeLength || len(b) != keyTimeLength {
			t.Errorf("%s stands before %s", a, b)
		}
	}
}

func TestKeysAreBoundedAndKeepTextsApart(t *testing.T) {
	seen := map[string]string{}
	for _, s := range []string{"", "a", "a#b", "a~b", "~a", strings.Repeat("x", 513), strings.Repeat("x", 514), "\xff", "\xfe", "日本"} {
		k := keyPart(s)
		if other, ok := seen[k]; ok {
			t.Errorf("%q and %q have the key %q", s, other, k)
		}
		seen[k] = s
		if len(k) > maxKeyPart || strings.Contains(k, "#") {
			t.Errorf("%q has the key %q", s, k)
		}
	}
}

func FuzzControlDoc(f *testing.F) {
	s := &Store{shards: 8, recordRetention: DefaultRecordRetention, now: func() time.Time { return time.Time{} }}
	h := hostile{rand.New(rand.NewPCG(3, 4))}
	for range 20 {
		e, err := s.encodeControl(h.control(), newToken())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(textOf(e.item, attrDoc), textOf(e.wide, attrDoc), textOf(e.item, attrWorkPK), textOf(e.item, attrSigPK))
	}
	f.Fuzz(func(t *testing.T, doc, wideDoc, work, sig string) {
		if !utf8.ValidString(work) || !utf8.ValidString(sig) {
			return // no table holds such a text
		}
		it := item{attrPK: text("R#r_1"), attrSK: text(skControl), attrVersion: number(1), attrDoc: text(doc), attrWorkPK: text(work), attrSigPK: text(sig)}
		var wide item
		if wideDoc != "" {
			wide = item{attrDoc: text(wideDoc)}
		}
		c, err := decodeControl(it, wide)
		if err != nil {
			return
		}
		// What was read can be written and read again, and is the same then.
		e, err := s.encodeControl(c, newToken())
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeControl(e.item, e.wide)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c, again); d != "" {
			t.Fatalf("(-read +read again):\n%s", d)
		}
	})
}

func FuzzPosition(f *testing.F) {
	for _, kind := range []string{positionWork, positionID} {
		f.Add(kind, writePosition(kind, "D#2026-11-30T09:00:00.000Z#r_1"))
		f.Add(kind, "w.!")
	}
	f.Fuzz(func(t *testing.T, kind, position string) {
		if kind != positionWork && kind != positionID {
			return
		}
		after, err := readPosition(kind, position)
		if err != nil || position == "" {
			return
		}
		if again := writePosition(kind, after); again != position {
			t.Errorf("%q reads as %q, which writes %q", position, after, again)
		}
	})
}
