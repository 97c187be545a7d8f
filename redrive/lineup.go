package redrive

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/dlqbridge/dlqbridge"
)

// lineup hands out a job's members in batches. On an ordered destination it keeps
// each group in order (members without a group have none): a batch holds one member of a group at most (SQS may
// refuse one entry of a request and take the next), the next one of a group
// waits for the last, and when one could not be sent the rest of its group is
// blocked. Other groups go on. Only one goroutine asks for batches.
type lineup struct {
	next func() (dlqbridge.Member, error, bool)
	stop func()
	// group finds the groups of members; nil where they have no order.
	group func(ctx context.Context, members []dlqbridge.Member) (map[string]string, error)
	// skip: one that could not be sent blocks nobody.
	skip  bool
	ended bool
	// left is how many members may still be handed out before the caller asks
	// for more; negative is all.
	left    int
	waiting []queued

	mu   sync.Mutex
	busy map[string]bool
	// out are the members handed out and not finished, with their group.
	out map[string]string
	// blocked is the record that could not be sent, by group.
	blocked map[string]string
	freed   chan struct{}
}

// queued is a member with its group.
type queued struct {
	dlqbridge.Member
	group string
}

// lineupWindow is how many members of a FIFO job are looked at at once, so that
// one long group does not hold up all others.
const lineupWindow = 500

func newLineup(members iter.Seq2[dlqbridge.Member, error], group func(context.Context, []dlqbridge.Member) (map[string]string, error)) *lineup {
	next, stop := iter.Pull2(members)
	return &lineup{
		next: next, stop: stop, group: group, left: -1,
		busy: map[string]bool{}, out: map[string]string{}, blocked: map[string]string{}, freed: make(chan struct{}),
	}
}

// batch returns the next at most n members and those blocked meanwhile; none of
// both is the end. It waits while only members of busy groups are left.
func (l *lineup) batch(ctx context.Context, n int) (out []queued, blocked []dlqbridge.Exclusion, err error) {
	for {
		if err := l.fill(ctx, n); err != nil {
			return nil, nil, err
		}
		l.mu.Lock()
		var rest []queued
		for _, q := range l.waiting {
			culprit, isBlocked := l.blocked[q.group]
			switch {
			case isBlocked && q.group != "":
				blocked = append(blocked, dlqbridge.Exclusion{ID: q.ID, Reason: dlqbridge.ExcludeOrderBlocked, Detail: "waits for " + culprit + " of its group"})
			case len(out) < n && (q.group == "" || !l.busy[q.group]):
				if l.group != nil && q.group != "" {
					l.busy[q.group] = true
					l.out[q.ID] = q.group
				}
				out = append(out, q)
			default:
				rest = append(rest, q)
			}
		}
		l.waiting = rest
		freed := l.freed
		l.mu.Unlock()
		if len(out) > 0 || len(blocked) > 0 || len(rest) == 0 {
			return out, blocked, nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// fill reads members until there are enough to choose from.
func (l *lineup) fill(ctx context.Context, n int) error {
	want := n
	if l.group != nil {
		want = lineupWindow
	}
	for !l.ended && l.left != 0 && len(l.waiting) < want {
		var read []dlqbridge.Member
		for len(read) < min(readChunk, want-len(l.waiting)) && l.left != 0 {
			m, err, ok := l.next()
			if !ok {
				l.ended = true
				break
			}
			if err != nil {
				return fmt.Errorf("read the job's members: %w", err)
			}
			read = append(read, m)
			if l.left > 0 {
				l.left--
			}
		}
		var groups map[string]string
		if l.group != nil && len(read) > 0 {
			var err error
			if groups, err = l.group(ctx, read); err != nil {
				return err
			}
		}
		for _, m := range read {
			l.waiting = append(l.waiting, queued{m, groups[m.ID]})
		}
	}
	return nil
}

// finished gives the group of a member free; one that failed blocks it. Only
// the first call for a member counts.
func (l *lineup) finished(id string, failed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	group, ok := l.out[id]
	if !ok {
		return
	}
	delete(l.out, id)
	delete(l.busy, group)
	if failed && !l.skip {
		l.blocked[group] = id
	}
	close(l.freed)
	l.freed = make(chan struct{})
}
