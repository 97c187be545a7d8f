package serve

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/wire"
)

const (
	// The bound of one look at tables and queues: an orchestrator's probe
	// waits a second or more.
	readyWithin = 2 * time.Second
	// How long an answer is used again, so that probes cost little.
	readyFor = 10 * time.Second
)

// health knows whether the service can do its work.
type health struct {
	bridge *wire.Bridge
	log    *slog.Logger

	mu      sync.Mutex
	stopped bool
	queues  map[string]dlqbridge.DeadLetters
	held    map[string]bool   // routes whose queue gives nothing
	failed  map[string]string // routes whose intake failed, with the reason
	asked   time.Time
	reasons map[string]string // of the last look
}

func newHealth(b *wire.Bridge, log *slog.Logger) *health {
	return &health{bridge: b, log: log, queues: map[string]dlqbridge.DeadLetters{}, held: map[string]bool{}, failed: map[string]string{}}
}

func (h *health) stopping() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
}

func (h *health) queue(route string, q dlqbridge.DeadLetters) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.queues[route] = q
}

func (h *health) stuck(route string, is bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held[route] = is
}

func (h *health) failing(route string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		delete(h.failed, route)
		return
	}
	h.failed[route] = errText(err)
}

// look asks tables and queues, at most every readyFor.
func (h *health) look(ctx context.Context) map[string]string {
	now := h.bridge.Now()
	h.mu.Lock()
	if h.reasons != nil && now.Sub(h.asked) < readyFor {
		defer h.mu.Unlock()
		return maps.Clone(h.reasons)
	}
	queues := maps.Clone(h.queues)
	h.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	reasons := map[string]string{}
	var mu sync.Mutex
	var all sync.WaitGroup
	ask := func(name string, do func() error) {
		all.Go(func() {
			if err := do(); err != nil {
				mu.Lock()
				defer mu.Unlock()
				reasons[name] = err.Error()
			}
		})
	}
	ask("tables", func() error { return h.bridge.Store.Ready(ctx) })
	for route, q := range queues {
		ask("queue of "+route, func() error { _, err := q.Depth(ctx); return err })
	}
	all.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked, h.reasons = now, reasons
	return maps.Clone(reasons)
}

// ready lists why the service is not ready; empty is ready.
func (h *health) ready(ctx context.Context) map[string]string {
	h.mu.Lock()
	stopped := h.stopped
	h.mu.Unlock()
	if stopped {
		return map[string]string{"service": "stopping"}
	}
	reasons := h.look(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	for route, is := range h.held {
		if is {
			reasons["intake of "+route] = "the queue shows messages and gives none"
		}
	}
	for route, why := range h.failed {
		reasons["intake of "+route] = why
	}
	return reasons
}

// handler is the three doors.
func (s *Server) handler() http.Handler {
	doors := http.NewServeMux()
	doors.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, map[string]any{"alive": true}) })
	doors.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		reasons := s.health.ready(r.Context())
		// What an error says may name tables and queues, which the log may know
		// and everybody who reaches the port need not.
		status, parts := http.StatusOK, slices.Sorted(maps.Keys(reasons))
		if len(reasons) > 0 {
			status = http.StatusServiceUnavailable
			for _, part := range parts {
				s.o.Log.LogAttrs(r.Context(), slog.LevelWarn, "not ready", slog.String("part", part), slog.String("reason", reasons[part]))
			}
		}
		if parts == nil {
			parts = []string{}
		}
		answer(w, status, map[string]any{"ready": len(reasons) == 0, "failing": parts})
	})
	doors.Handle("GET /metrics", s.o.Metrics.Handler())
	return doors
}

func answer(w http.ResponseWriter, status int, document any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(document) // a prober that went away needs no word
}
