package awsdynamodb

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// maxControlBytes is one write unit: what a control item may cost.
const maxControlBytes = 1024

// controlDoc is the body of a control item. What stands in the index keys of
// an open record (route, cause, status, signature) is not repeated here, and
// all times share one text.
type controlDoc struct {
	// texts is nil when they did not fit: then they stand in the item wide#<Wide>.
	*texts
	Wide string `json:"w,omitempty"`

	Identity       dlqbridge.Identity `json:"idn,omitempty"`
	Episode        int                `json:"ep,omitempty"`
	Provider       dlqbridge.Provider `json:"prov,omitempty"`
	Status         dlqbridge.Status   `json:"st,omitempty"` // same: with route and cause in the index key
	Cause          dlqbridge.Cause    `json:"cs,omitempty"`
	Effect         dlqbridge.Effect   `json:"ef,omitempty"`
	Uncovered      dlqbridge.Effect   `json:"un,omitempty"` // same: as Effect
	RepeatSafe     bool               `json:"rs,omitempty"`
	Action         dlqbridge.Action   `json:"ac,omitempty"`
	PayloadVersion int                `json:"pv,omitempty"`
	Arrivals       int                `json:"arr,omitempty"`
	Conflict       bool               `json:"conf,omitempty"`
	Late           bool               `json:"late,omitempty"`
	Authorized     *authorizedDoc     `json:"auth,omitempty"`
	Claim          *claimDoc          `json:"cl,omitempty"`
	Redrives       int                `json:"n,omitempty"`
	Compensations  int                `json:"cmp,omitempty"`
	Recurrences    int                `json:"rec,omitempty"`
	SignedRule     int                `json:"sr,omitempty"`
	Times          string             `json:"t,omitempty"`
	Move           moveDoc            `json:"mv"`
}

type authorizedDoc struct {
	Action dlqbridge.Action `json:"ac,omitempty"`
	Of     string           `json:"of,omitempty"`
}

type claimDoc struct {
	N int `json:"n,omitempty"`
}

type moveDoc struct {
	Verb dlqbridge.Verb   `json:"vb,omitempty"`
	From dlqbridge.Status `json:"fr,omitempty"`
	To   dlqbridge.Status `json:"to,omitempty"` // same: as the record's
	N    int              `json:"n,omitempty"`
}

// texts are the parts of a control item of which nobody knows how long they are.
type texts struct {
	Previous     string `json:"prev,omitempty"`
	Route        string `json:"rt,omitempty"`
	Source       string `json:"src,omitempty"`
	TaskID       string `json:"task,omitempty"`
	TaskType     string `json:"type,omitempty"`
	Tenant       string `json:"ten,omitempty"`
	Owner        string `json:"own,omitempty"`
	Signature    string `json:"sig,omitempty"`
	SignedAgent  string `json:"sav,omitempty"`
	SignedFlow   string `json:"swf,omitempty"`
	Why          string `json:"why,omitempty"`
	Context      string `json:"ctx,omitempty"`
	Newest       string `json:"new,omitempty"`
	Payload      string `json:"pl,omitempty"` // same: as Newest
	Fix          string `json:"fix,omitempty"`
	AuthorizedBy string `json:"aby,omitempty"`
	ClaimJob     string `json:"cj,omitempty"`
	By           string `json:"by,omitempty"` // same: as AuthorizedBy
	Reason       string `json:"mw,omitempty"`
	Arrival      string `json:"ma,omitempty"` // same: as Newest
	MoveContext  string `json:"mc,omitempty"` // same: as Context
	Note         string `json:"mn,omitempty"`
	Job          string `json:"mj,omitempty"` // same: as ClaimJob
}

// same stands for a value that is written already in another place.
const same = "="

// fold writes same for what stands elsewhere; unfold is the way back.
func fold[T ~string](v, elsewhere T) T {
	switch {
	case v == "":
		return v
	case v == elsewhere:
		return same
	case strings.HasPrefix(string(v), same):
		return same + v
	}
	return v
}

func unfold[T ~string](v, elsewhere T) T {
	if v == same {
		return elsewhere
	}
	return T(strings.TrimPrefix(string(v), same))
}

// encodedControl is a control item ready to be written, with the item that
// holds its texts if they did not fit (nil otherwise), to be written before.
type encodedControl struct {
	item, wide item
}

// encodeControl makes the item of a control under a writer's token.
func (s *Store) encodeControl(c dlqbridge.Control, token string) (encodedControl, error) {
	it := controlKey(c.ID).attributes()
	it[attrVersion] = number(int64(c.Version))
	it[attrToken] = text(token)
	s.index(it, c)
	doc := s.controlDoc(it, c)
	if err := putDoc(it, doc); err != nil {
		return encodedControl{}, fmt.Errorf("encode record %s: %w: %w", c.ID, dlqbridge.ErrInvalid, err)
	}
	if itemSize(it) <= maxControlBytes {
		return encodedControl{item: it}, nil
	}
	all, err := compact(doc.texts)
	if err != nil {
		return encodedControl{}, fmt.Errorf("encode record %s: %w: %w", c.ID, dlqbridge.ErrInvalid, err)
	}
	doc.texts, doc.Wide = nil, dlqbridge.Fingerprint(all)
	wide := wideKey(c.ID, doc.Wide).attributes()
	wide[attrDoc] = text(all)
	return encodedControl{item: it, wide: wide}, putDoc(it, doc)
}

func putDoc(it item, doc any) error {
	body, err := compact(doc)
	if err != nil {
		return err
	}
	it[attrDoc] = text(body)
	return nil
}

// index gives an open record its place in the indexes, and a closed one its
// end and a place where Sweep finds it.
func (s *Store) index(it item, c dlqbridge.Control) {
	shard := shardOf(c.ID, s.shards)
	if c.Status.Closed() {
		it[attrExpires] = expiry(s.controlExpiry(c))
		it[attrWorkPK] = text(closedPK(shard))
		it[attrWorkSK] = text(keyTime(closedAt(c)) + "#" + keyPart(c.ID))
		return
	}
	urgency := text(workSK(c))
	it[attrWorkPK] = text(workPK(c.Route, workCause(c.Cause), workStatus(c.Status), shard))
	it[attrWorkSK] = urgency
	if c.Signature != "" { // an index key must not be empty (C67)
		it[attrSigPK] = text(signaturePK(c.Signature, shard))
		it[attrSigSK] = urgency
	}
}

// workCause and workStatus keep a record with a value that we do not know in a
// partition that lists read.
func workCause(c dlqbridge.Cause) dlqbridge.Cause {
	if c.Valid() {
		return c
	}
	return dlqbridge.CauseUnclassified
}

func workStatus(st dlqbridge.Status) dlqbridge.Status {
	if st.Valid() {
		return st
	}
	return dlqbridge.StatusReceived
}

func (s *Store) controlDoc(it item, c dlqbridge.Control) *controlDoc {
	d := &controlDoc{
		texts: &texts{
			Previous: c.Previous, Route: c.Route, Source: c.Source, TaskID: c.TaskID, TaskType: c.TaskType,
			Tenant: c.Tenant, Owner: c.Owner, Signature: c.Signature, SignedAgent: c.Signed.Agent, SignedFlow: c.Signed.Workflow, Why: string(c.Why), Context: c.Context,
			Newest: c.Newest, Payload: fold(c.Payload, c.Newest), Fix: c.Fix, By: c.Move.By, Reason: c.Move.Why,
			Arrival: fold(c.Move.Arrival, c.Newest), MoveContext: fold(c.Move.Context, c.Context), Note: c.Move.Note,
			Job: c.Move.Job,
		},
		Identity: c.Identity, Episode: c.Episode, Provider: c.Provider, Status: fold(c.Status, ""), Cause: c.Cause,
		Effect: c.Effect, Uncovered: fold(c.Uncovered, c.Effect), RepeatSafe: c.RepeatSafe, Action: c.Action,
		PayloadVersion: c.PayloadVersion, Arrivals: c.Arrivals, Conflict: c.Conflict, Late: c.Late,
		Redrives: c.Redrives, Compensations: c.Compensations, Recurrences: c.Recurrences, SignedRule: c.Signed.Rule, Times: writeTimes(timesOf(&c)),
		Move: moveDoc{Verb: c.Move.Verb, From: c.Move.From, To: fold(c.Move.To, c.Status), N: c.Move.N},
	}
	if a := c.Authorized; a != nil {
		d.Authorized = &authorizedDoc{a.Action, a.Of}
		d.AuthorizedBy = a.By
	}
	if cl := c.Claim; cl != nil {
		d.Claim = &claimDoc{cl.N}
		d.ClaimJob = cl.Job
	}
	d.By = fold(c.Move.By, d.AuthorizedBy)
	d.Job = fold(c.Move.Job, d.ClaimJob)
	if route, cause, status, ok := parseWorkPK(textOf(it, attrWorkPK)); ok {
		if route == c.Route && cause == c.Cause && status == c.Status {
			d.Route, d.Cause, d.Status = "", "", same
		}
	}
	if sig, _, ok := strings.Cut(textOf(it, attrSigPK), "#"); ok && sig == c.Signature {
		d.Signature = ""
	}
	return d
}

// errWide says that the texts of a control item stand in an item of their own.
var errWide = errors.New("texts stand apart")

// decodeControl reads a control item. Wide is the item of its texts; where it
// is needed and nil, the error is errWide.
func decodeControl(it, wide item) (dlqbridge.Control, error) {
	d := controlDoc{texts: &texts{}}
	id := strings.TrimPrefix(textOf(it, attrPK), "R#")
	if err := decodeDoc(it, &d); err != nil {
		return dlqbridge.Control{}, err
	}
	if d.Wide != "" {
		if wide == nil {
			return dlqbridge.Control{ID: id}, errWide
		}
		*d.texts = texts{}
		if err := decodeDoc(wide, d.texts); err != nil {
			return dlqbridge.Control{}, err
		}
	}
	if d.Status == same {
		d.Route, d.Cause, d.Status, _ = parseWorkPK(textOf(it, attrWorkPK))
	} else {
		d.Status = unfold(d.Status, "")
	}
	if sig, _, ok := strings.Cut(textOf(it, attrSigPK), "#"); ok && d.Signature == "" {
		d.Signature = sig
	}
	c := dlqbridge.Control{
		ID: id, Version: int(numberOf(it, attrVersion)),
		Identity: d.Identity, Episode: d.Episode, Previous: d.Previous, Route: d.Route, Provider: d.Provider,
		Source: d.Source, TaskID: d.TaskID, TaskType: d.TaskType, Tenant: d.Tenant, Owner: d.Owner,
		Signature: d.Signature, Signed: dlqbridge.Signed{Rule: d.SignedRule, Agent: d.SignedAgent, Workflow: d.SignedFlow}, Status: d.Status, Cause: d.Cause, Effect: d.Effect,
		Uncovered: unfold(d.Uncovered, d.Effect), RepeatSafe: d.RepeatSafe, Action: d.Action, Why: dlqbridge.Why(d.Why),
		PayloadVersion: d.PayloadVersion, Payload: unfold(d.Payload, d.Newest), Context: d.Context, Arrivals: d.Arrivals, Newest: d.Newest,
		Conflict: d.Conflict, Late: d.Late, Fix: d.Fix, Redrives: d.Redrives, Compensations: d.Compensations, Recurrences: d.Recurrences,
		Move: dlqbridge.Move{
			Version: int(numberOf(it, attrVersion)), By: unfold(d.By, d.AuthorizedBy), Verb: d.Move.Verb,
			From: d.Move.From, To: unfold(d.Move.To, d.Status), Why: d.Reason, Arrival: unfold(d.Arrival, d.Newest),
			Context: unfold(d.MoveContext, d.Context), Note: d.Note, Job: unfold(d.Job, d.ClaimJob), N: d.Move.N,
		},
	}
	if d.Authorized != nil {
		c.Authorized = &dlqbridge.Authorization{By: d.AuthorizedBy, Action: d.Authorized.Action, Of: d.Authorized.Of}
	}
	if d.Claim != nil {
		c.Claim = &dlqbridge.Claim{Job: d.ClaimJob, N: d.Claim.N}
	}
	if err := readTimes(d.Times, timesOf(&c)); err != nil {
		return dlqbridge.Control{}, fmt.Errorf("decode %s: %w", keyOf(it), err)
	}
	return c, nil
}

// wideName is the name of the item that holds a control item's texts, empty if
// they stand in the control item itself.
func wideName(it item) string {
	var d struct {
		Wide string `json:"w"`
	}
	if json.Unmarshal([]byte(textOf(it, attrDoc)), &d) != nil {
		return ""
	}
	return d.Wide
}

// timesOf lists the times of a control in the order in which they are written;
// nil where there is no place for one. New ones go to the end.
func timesOf(c *dlqbridge.Control) []*time.Time {
	list := []*time.Time{
		&c.FirstSeen, &c.LastSeen, &c.Deadline, &c.ValidUntil, &c.LostAt, &c.TriageBy, &c.NotBefore,
		&c.RecheckAt, &c.LastSend, &c.ClosedAt, &c.Move.At, nil, nil, nil,
		&c.Signed.Since,
	}
	if c.Authorized != nil {
		list[11] = &c.Authorized.At
	}
	if c.Claim != nil {
		list[12] = &c.Claim.Until
		list[13] = &c.Claim.Before
	}
	return list
}

// writeTimes writes times as milliseconds in base 36, the first since 1970 and
// the others since the first, separated by commas; nothing stands for none.
func writeTimes(list []*time.Time) string {
	var b strings.Builder
	var base int64
	for i, t := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		if t == nil || t.IsZero() {
			continue
		}
		ms := bounded(*t).UnixMilli()
		b.WriteString(strconv.FormatInt(ms-base, 36))
		if i == 0 {
			base = ms
		}
	}
	return strings.TrimRight(b.String(), ",")
}

func readTimes(s string, into []*time.Time) error {
	if s == "" {
		return nil
	}
	var base int64
	for i, field := range strings.Split(s, ",") {
		if field == "" {
			continue
		}
		ms, err := strconv.ParseInt(field, 36, 64)
		if err != nil {
			return fmt.Errorf("times %q: %w", s, err)
		}
		if i == 0 {
			base = ms
		} else {
			ms += base
		}
		if ms < earliest.UnixMilli() || ms > latest.UnixMilli() {
			return fmt.Errorf("times %q: number %d is out of bounds", s, i+1)
		}
		if i >= len(into) || into[i] == nil {
			continue // written by a later version of this program
		}
		*into[i] = time.UnixMilli(ms).UTC()
	}
	return nil
}

// closedAt is when a closed record was closed.
func closedAt(c dlqbridge.Control) time.Time {
	if c.ClosedAt.IsZero() {
		return c.Move.At
	}
	return c.ClosedAt
}
