package redrive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"

	"github.com/dlqbridge/dlqbridge"
)

// Long are the lists of a document that is written piece by piece, since its
// lists may be longer than memory: the document is encoded with a text in each
// list's place, and the lists come in when it is written.
type Long struct {
	prefix string
	lists  []iter.Seq2[any, error]
}

func newLong() *Long { return &Long{prefix: "list " + dlqbridge.NewToken() + " "} }

// apart takes a list out of its document.
func apart[T any](l *Long, list List[T]) List[T] {
	l.lists = append(l.lists, func(yield func(any, error) bool) {
		for v, err := range list.All() {
			if !yield(v, err) {
				return
			}
		}
	})
	return List[T]{place: l.prefix + strconv.Itoa(len(l.lists)-1)}
}

// Apart returns the plan with its lists taken out, to be encoded as part of
// whatever document, and what writes that document with them.
func (p Plan) Apart() (Plan, *Long) {
	l := newLong()
	jobs := p.Jobs
	p.Jobs = make([]PlannedJob, len(jobs))
	for i, j := range jobs {
		j.Members = apart(l, j.Members)
		p.Jobs[i] = j
	}
	p.Excluded = apart(l, p.Excluded)
	return p, l
}

// Apart is the same for a result.
func (r Result) Apart() (Result, *Long) {
	l := newLong()
	r.Excluded, r.InDoubt = apart(l, r.Excluded), apart(l, r.InDoubt)
	return r, l
}

// Write writes an encoded document with its lists back in their places. Each
// is written by list, which gets what stands before it, for the indentation.
func (l *Long) Write(w io.Writer, document []byte, list func(w io.Writer, before []byte, values iter.Seq2[any, error]) error) error {
	rest := document
	for {
		at := bytes.Index(rest, []byte(`"`+l.prefix))
		if at < 0 {
			_, err := w.Write(rest)
			return err
		}
		from := at + 1 + len(l.prefix)
		length := bytes.IndexByte(rest[from:], '"')
		n, err := strconv.Atoi(string(rest[from : from+max(length, 0)]))
		if err != nil || n >= len(l.lists) {
			return fmt.Errorf("write a long document: %w: a place without a list", dlqbridge.ErrInvalid)
		}
		if _, err := w.Write(rest[:at]); err != nil {
			return err
		}
		if err := list(w, document[:len(document)-len(rest)+at], l.lists[n]); err != nil {
			return err
		}
		rest = rest[from+length+1:]
	}
}

// compactly writes a list as json.Marshal does.
func compactly(w io.Writer, _ []byte, values iter.Seq2[any, error]) error {
	if _, err := io.WriteString(w, "["); err != nil {
		return err
	}
	comma := ""
	for v, err := range values {
		if err != nil {
			return err
		}
		text, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("encode a list: %w", err)
		}
		if _, err := w.Write(append([]byte(comma), text...)); err != nil {
			return err
		}
		comma = ","
	}
	_, err := io.WriteString(w, "]")
	return err
}

// ReadPlan reads a document that holds a plan: its long lists into lists, all
// else into document, which has plan embedded and knows each of its fields.
// Only lists grow with the number of records.
func ReadPlan(r io.Reader, document any, plan *Plan) error {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	var members []List[PlannedMember]
	var excluded List[dlqbridge.Exclusion]
	var jobs []json.RawMessage
	rest, err := object(d, map[string]func() error{
		"jobs": func() error {
			return array(d, func() error {
				var list List[PlannedMember]
				job, err := object(d, map[string]func() error{"members": func() error { return into(d, &list) }})
				jobs, members = append(jobs, job), append(members, list)
				return err
			})
		},
		"excluded": func() error { return into(d, &excluded) },
	})
	if err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something stands behind the plan")
	}
	head := json.NewDecoder(bytes.NewReader(rest))
	head.DisallowUnknownFields()
	if err := head.Decode(document); err != nil {
		return err
	}
	for i, text := range jobs {
		one := json.NewDecoder(bytes.NewReader(text))
		one.DisallowUnknownFields()
		var job PlannedJob
		if err := one.Decode(&job); err != nil {
			return err
		}
		job.Members = members[i]
		plan.Jobs = append(plan.Jobs, job)
	}
	if plan.Jobs == nil {
		plan.Jobs = []PlannedJob{}
	}
	plan.Excluded = excluded
	return nil
}

// object reads an object: the fields that are named by what reads each, and
// returns the others as an object. What differs only in the case of its letters
// would be read as the same field, so it is refused.
func object(d *json.Decoder, named map[string]func() error) (json.RawMessage, error) {
	if err := delimiter(d, '{'); err != nil {
		return nil, err
	}
	var rest bytes.Buffer
	rest.WriteByte('{')
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		key, _ := token.(string)
		if seen[strings.ToLower(key)] {
			return nil, fmt.Errorf("field %q stands there twice", key)
		}
		seen[strings.ToLower(key)] = true
		if read := named[key]; read != nil {
			if err := read(); err != nil {
				return nil, err
			}
			continue
		}
		if named[strings.ToLower(key)] != nil {
			return nil, fmt.Errorf("json: unknown field %q", key)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		name, err := json.Marshal(key)
		if err != nil {
			return nil, err
		}
		if rest.Len() > 1 {
			rest.WriteByte(',')
		}
		rest.Write(name)
		rest.WriteByte(':')
		rest.Write(value)
	}
	rest.WriteByte('}')
	return rest.Bytes(), delimiter(d, '}')
}

func array(d *json.Decoder, value func() error) error {
	if err := delimiter(d, '['); err != nil {
		return err
	}
	for d.More() {
		if err := value(); err != nil {
			return err
		}
	}
	return delimiter(d, ']')
}

func into[T any](d *json.Decoder, list *List[T]) error {
	return array(d, func() error {
		var v T
		err := d.Decode(&v)
		if err == nil {
			list.Add(v)
		}
		return err
	})
}

func delimiter(d *json.Decoder, want json.Delim) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	if token != want {
		return fmt.Errorf("%v stands where %v must", token, want)
	}
	return nil
}
