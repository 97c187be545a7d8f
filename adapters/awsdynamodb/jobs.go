package awsdynamodb

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/dlqbridge/dlqbridge"
)

// membersPerItem members take some 50 KB, well below an item's limit, and keep
// a job of 100,000 records at 100 items. So many of those items are written
// together while the selection is read, some 1 MB: no more of it stands in memory.
const (
	membersPerItem = 1000
	itemsAtOnce    = maxBatchWrites
)

// attrID is the id on a job's entry in the list.
const attrID = "id"

// CreateJob implements dlqbridge.Jobs. Creating the very same job again is
// fine: the first answer may have been lost. If the process dies before the
// job item is written, there is no job: members and list entry are read by
// nobody.
func (s *Store) CreateJob(ctx context.Context, j dlqbridge.Job, members iter.Seq2[dlqbridge.Member, error]) error {
	if err := s.createJob(ctx, j, members); err != nil {
		return fmt.Errorf("create job %s: %w", j.ID, err)
	}
	return nil
}

func (s *Store) createJob(ctx context.Context, j dlqbridge.Job, members iter.Seq2[dlqbridge.Member, error]) error {
	if j.ID == "" || j.Version < 1 {
		return fmt.Errorf("%w: it needs an id and a version from 1", dlqbridge.ErrInvalid)
	}
	it, err := jobItem(j)
	if err != nil {
		return err
	}
	// The selection of a job that exists is frozen, so look before members are written.
	there, err := s.get(ctx, jobKey(j.ID))
	if err != nil {
		return err
	}
	if there != nil {
		return s.sameJob(there, it)
	}
	entry := key{jobsPK, keyTime(j.Created) + "#" + keyPart(j.ID)}.attributes()
	entry[attrID] = text(j.ID)
	pages := pages{store: s, job: j.ID, writes: []write{newWrite(s.records, entry)}}
	for m, err := range members {
		if err == nil {
			err = pages.add(ctx, m)
		}
		if err != nil {
			return err
		}
	}
	if err := pages.end(ctx); err != nil {
		return err
	}
	err = s.putIf(ctx, it, s.absent())
	if refused, ok := errors.AsType[*refusedError](err); ok {
		return s.sameJob(refused.existing, it)
	}
	return err
}

// pages writes members as they come.
type pages struct {
	store  *Store
	job    string
	page   []dlqbridge.Member
	count  int
	writes []write
}

func (p *pages) add(ctx context.Context, m dlqbridge.Member) error {
	if p.page = append(p.page, m); len(p.page) < membersPerItem {
		return nil
	}
	if err := p.turn(); err != nil || len(p.writes) < itemsAtOnce {
		return err
	}
	return p.put(ctx)
}

// turn makes an item of a full page.
func (p *pages) turn() error {
	it, err := docItem(memberKey(p.job, p.count), p.page)
	if err != nil {
		return fmt.Errorf("%w: encode members: %w", dlqbridge.ErrInvalid, err)
	}
	p.writes = append(p.writes, newWrite(p.store.records, it))
	p.page, p.count = nil, p.count+1
	return nil
}

func (p *pages) put(ctx context.Context) error {
	err := errors.Join(p.store.putAll(ctx, p.writes)...)
	p.writes = nil
	return err
}

func (p *pages) end(ctx context.Context) error {
	if len(p.page) > 0 {
		if err := p.turn(); err != nil {
			return err
		}
	}
	return p.put(ctx)
}

func (s *Store) sameJob(there, it item) error {
	if textOf(there, attrDoc) == textOf(it, attrDoc) {
		return nil
	}
	return s.explain(keyOf(it), dlqbridge.ErrExists, "there is a job of this id")
}

func jobItem(j dlqbridge.Job) (item, error) {
	j.Created, j.Ended = bounded(j.Created).UTC(), bounded(j.Ended).UTC()
	it, err := docItem(jobKey(j.ID), j)
	if err != nil {
		return nil, fmt.Errorf("%w: encode it: %w", dlqbridge.ErrInvalid, err)
	}
	it[attrVersion] = number(int64(j.Version))
	it[attrToken] = text(newToken())
	return it, nil
}

// MoveJob implements dlqbridge.Jobs.
func (s *Store) MoveJob(ctx context.Context, j dlqbridge.Job) error {
	it, err := jobItem(j)
	if err == nil {
		err = s.putIf(ctx, it, s.atVersion(j.Version-1))
	}
	if refused, ok := errors.AsType[*refusedError](err); ok {
		err = s.explain(jobKey(j.ID), dlqbridge.ErrConflict, fmt.Sprintf("it is at version %d, not %d", numberOf(refused.existing, attrVersion), j.Version-1))
	}
	if err != nil {
		return fmt.Errorf("move job %s: %w", j.ID, err)
	}
	return nil
}

// Job implements dlqbridge.Jobs.
func (s *Store) Job(ctx context.Context, id string) (dlqbridge.Job, error) {
	it, err := s.get(ctx, jobKey(id))
	if err == nil && it == nil {
		err = s.explain(jobKey(id), dlqbridge.ErrNotFound, "there is no such job")
	}
	if err != nil {
		return dlqbridge.Job{}, fmt.Errorf("read job %s: %w", id, err)
	}
	var j dlqbridge.Job
	if err := decodeDoc(it, &j); err != nil {
		return dlqbridge.Job{}, fmt.Errorf("read job %s: %w", id, err)
	}
	return j, nil
}

// ListJobs implements dlqbridge.Jobs.
func (s *Store) ListJobs(ctx context.Context, limit int) ([]dlqbridge.Job, error) {
	in := partition(s.records, jobsPK, "")
	in.ScanIndexForward = aws.Bool(false)
	var jobs []dlqbridge.Job
	var keys []key
	var failed error
	flush := func() bool {
		found, err := s.getAll(ctx, keys)
		if err != nil {
			failed = err
			return false
		}
		for _, k := range keys {
			it := found[k]
			if it == nil {
				continue // its creator died before the job was there
			}
			var j dlqbridge.Job
			if failed = decodeDoc(it, &j); failed != nil {
				return false
			}
			jobs = append(jobs, j)
		}
		keys = keys[:0]
		return limit <= 0 || len(jobs) < limit
	}
	err := s.query(ctx, in, func(it item) bool {
		keys = append(keys, jobKey(textOf(it, attrID)))
		enough := len(keys) == maxBatchReads || limit > 0 && len(jobs)+len(keys) >= limit
		return !enough || flush()
	})
	if err == nil && failed == nil {
		flush()
	}
	if err = errors.Join(err, failed); err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	if limit > 0 && len(jobs) > limit {
		jobs = jobs[:limit]
	}
	return jobs, nil
}

// Members implements dlqbridge.Jobs.
func (s *Store) Members(ctx context.Context, job string, from int) iter.Seq2[dlqbridge.Member, error] {
	from = max(from, 0)
	return func(yield func(dlqbridge.Member, error) bool) {
		first := memberKey(job, from/membersPerItem)
		last := memberKey(job, maxMemberItems)
		in := partition(s.records, first.pk, "")
		in.KeyConditionExpression = aws.String("#pk = :pk AND #sk BETWEEN :first AND :last")
		in.ExpressionAttributeNames["#sk"] = attrSK
		in.ExpressionAttributeValues[":first"], in.ExpressionAttributeValues[":last"] = text(first.sk), text(last.sk)
		skip := from % membersPerItem
		var failed error
		stopped := false
		err := s.query(ctx, in, func(it item) bool {
			var part []dlqbridge.Member
			if failed = decodeDoc(it, &part); failed != nil {
				return false
			}
			for _, m := range part[min(skip, len(part)):] {
				if !yield(m, nil) {
					stopped = true
					return false
				}
			}
			skip = 0
			return true
		})
		if err = errors.Join(err, failed); err != nil && !stopped {
			yield(dlqbridge.Member{}, fmt.Errorf("read members of job %s: %w", job, err))
		}
	}
}

// maxMemberItems is the highest number that memberKey's six digits hold.
const maxMemberItems = 999_999
