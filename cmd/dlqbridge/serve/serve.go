// Package serve is the process that works by itself: intake on all routes, the
// outcomes of redrives, records that are due to be judged again, the expiry of
// closed ones, and the doors for health and metrics.
//
// # Stopping
//
// In this order, each part bounded: not ready any more; no more letters are
// received, those in hand are finished; the loops end; the HTTP doors close.
// Whatever is not finished is safe: the letter comes again, the record is
// found again.
package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/check"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/config"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/prom"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/triage"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/wire"
	"github.com/dlqbridge/dlqbridge/enrich"
	"github.com/dlqbridge/dlqbridge/redrive"
)

// How often each loop has a round, and what bounds it.
const (
	// Outcomes: short against the shortest observation (10 m).
	observeEvery = 15 * time.Second
	// As fresh as a dashboard needs. A survey reads every open
	// record, so the next one waits at least surveyShare times as long as it
	// took: at most 2 % of the time is spent on it.
	surveyEvery = time.Minute
	surveyShare = 50
	sweepEvery  = 10 * time.Minute
	sweepLimit  = 1000
	// What ends a round that hangs; the next one starts anew.
	roundLimit = 5 * time.Minute
	// Intake of one route starts again after a failure, with doubling waits: a
	// queue that was deleted or a right that was taken must not stop the others.
	restartBase = time.Second
	restartMax  = time.Minute
	// How long an intake must go on to count as working again: what cannot work at all fails at its first receive.
	provenAfter = 5 * time.Second
	// How long the HTTP doors may take to close.
	closeWithin = 5 * time.Second
	// Bounds of what a slow client can hold.
	headerWithin = 5 * time.Second
	answerWithin = 30 * time.Second
	idleFor      = time.Minute
)

// Options are what the service is made of.
type Options struct {
	Bridge  *wire.Bridge
	Metrics *prom.Metrics
	Log     *slog.Logger
	Listen  string
	// Listening is told the address once the doors are open; nil is fine.
	Listening func(net.Addr)
}

// Server is the service. Run it once.
type Server struct {
	o       Options
	health  *health
	redrive *redrive.Controller
	mover   triage.Mover
}

// New makes a Server.
func New(o Options) *Server {
	b := o.Bridge
	return &Server{
		o: o, health: newHealth(b, o.Log), redrive: b.Controller(),
		mover: triage.Mover{Store: b.Store, Judge: b.JudgeCase, Now: b.Now},
	}
}

// Run works until ctx ends, and returns when everything has stopped. Queues
// and tables that are missing at the start are an error that names them.
func (s *Server) Run(ctx context.Context) error {
	b := s.o.Bridge
	if err := b.ResolveSources(ctx); err != nil {
		return err
	}
	intakes, err := s.openAll(ctx)
	if err != nil {
		return err
	}
	if err := b.Store.Ready(ctx); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.o.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", s.o.Listen, err)
	}
	doors := &http.Server{Handler: s.handler(), ReadHeaderTimeout: headerWithin, WriteTimeout: answerWithin, IdleTimeout: idleFor, ErrorLog: slog.NewLogLogger(s.o.Log.Handler(), slog.LevelWarn)}
	served := make(chan error, 1)
	go func() { served <- doors.Serve(listener) }()
	s.o.Log.LogAttrs(ctx, slog.LevelInfo, "serving", slog.String("address", listener.Addr().String()), slog.Int("routes", len(intakes)))
	if s.o.Listening != nil {
		s.o.Listening(listener.Addr())
	}

	work, workCtx := errgroup.WithContext(ctx)
	for i, r := range b.Config.Routes {
		work.Go(func() error { s.takeIn(workCtx, r, intakes[i]); return nil })
	}
	work.Go(func() error { s.warn(workCtx); return nil })
	work.Go(func() error { s.every(workCtx, "observe", fixed(observeEvery), s.observe); return nil })
	work.Go(func() error {
		s.every(workCtx, "survey", adaptive(surveyEvery, surveyShare, b.Now), s.survey)
		return nil
	})
	work.Go(func() error { s.every(workCtx, "sweep", fixed(sweepEvery), s.sweep); return nil })
	work.Go(func() error {
		select {
		case err := <-served: // the doors must stand as long as the work does
			return fmt.Errorf("serve on %s: %w", listener.Addr(), err)
		case <-workCtx.Done():
			return nil
		}
	})
	stopping := sync.OnceFunc(func() {
		s.health.stopping()
		s.o.Log.LogAttrs(context.WithoutCancel(ctx), slog.LevelInfo, "stopping")
	})
	unhook := context.AfterFunc(ctx, stopping)
	defer unhook()
	err = work.Wait()
	stopping() // what works may have seen the end before the hook did

	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
	defer cancel()
	if closeErr := doors.Shutdown(closing); closeErr != nil {
		closeErr = errors.Join(closeErr, doors.Close())
		err = errors.Join(err, fmt.Errorf("close the doors: %w", closeErr))
	}
	s.o.Log.LogAttrs(closing, slog.LevelInfo, "stopped")
	return err
}

// openAll opens every route's queues, so that a wrong name is found at once.
func (s *Server) openAll(ctx context.Context) ([]*enrich.Intake, error) {
	routes := s.o.Bridge.Config.Routes
	out := make([]*enrich.Intake, len(routes))
	opening, openCtx := errgroup.WithContext(ctx)
	for i, r := range routes {
		opening.Go(func() error {
			in, letters, err := s.o.Bridge.Intake(openCtx, r, watch{s.o.Metrics, s.health})
			if err != nil {
				return err
			}
			out[i] = in
			s.health.queue(r.Name, letters)
			return nil
		})
	}
	return out, opening.Wait()
}

// warn says once at the start what `dlqbridge check` would say about the
// routes, such as a retention that leaves no time: a service is often all that
// somebody looks at.
func (s *Server) warn(ctx context.Context) {
	for _, r := range s.o.Bridge.Config.Routes {
		for _, f := range check.Route(ctx, s.o.Bridge, r) {
			if f.Level != check.LevelOK && ctx.Err() == nil {
				s.o.Log.LogAttrs(ctx, slog.LevelWarn, "check", slog.String("route", f.Route), slog.String("subject", f.Subject), slog.String("finding", f.Text), slog.String("hint", f.Hint))
			}
		}
	}
}

// watch tells metrics and health what intake tells.
type watch struct {
	metrics *prom.Metrics
	health  *health
}

// Observe implements enrich.Observer.
func (w watch) Observe(e enrich.Event) {
	w.metrics.Observe(e)
	//exhaustive:ignore
	switch e.Kind {
	case enrich.EventStuck:
		w.health.stuck(e.Route, true)
	case enrich.EventMoving:
		w.health.stuck(e.Route, false)
	default:
	}
}

// takeIn keeps the intake of one route going. It returns when ctx has ended
// and the letters in hand are finished.
func (s *Server) takeIn(ctx context.Context, r config.Route, in *enrich.Intake) {
	pause := restartBase
	for {
		began := s.o.Bridge.Now()
		proven := time.AfterFunc(provenAfter, func() { s.health.failing(r.Name, nil) })
		err := in.Run(ctx)
		proven.Stop()
		if ctx.Err() != nil {
			return
		}
		if s.o.Bridge.Now().Sub(began) > restartMax {
			pause = restartBase // it had worked
		}
		s.o.Metrics.LoopFailed("intake")
		s.health.failing(r.Name, err)
		s.o.Log.LogAttrs(ctx, slog.LevelError, "intake of a route failed, it starts again", slog.String("route", r.Name), slog.Duration("in", pause), slog.String("error", errText(err)))
		if !wait(ctx, pause) {
			return
		}
		pause = min(2*pause, restartMax)
	}
}

func errText(err error) string {
	if err == nil {
		return "it ended by itself"
	}
	return err.Error()
}

// every has a round, waits, and has the next one, until ctx ends. A round that
// fails is logged once until one succeeds.
func (s *Server) every(ctx context.Context, name string, pause func(round func()) time.Duration, round func(context.Context) error) {
	failing := false
	for {
		next := pause(func() {
			bounded, cancel := context.WithTimeout(ctx, roundLimit)
			defer cancel()
			err := round(bounded)
			switch {
			case ctx.Err() != nil:
			case err != nil:
				s.o.Metrics.LoopFailed(name)
				if !failing {
					s.o.Log.LogAttrs(ctx, slog.LevelWarn, "a round of work failed", slog.String("loop", name), slog.String("error", err.Error()))
				}
				failing = true
			default:
				failing = false
			}
		})
		if !wait(ctx, next) {
			return
		}
	}
}

func fixed(d time.Duration) func(func()) time.Duration {
	return func(round func()) time.Duration { round(); return d }
}

// adaptive waits at least share times as long as the round took.
func adaptive(least time.Duration, share int, now func() time.Time) func(func()) time.Duration {
	return func(round func()) time.Duration {
		began := now()
		round()
		return max(least, time.Duration(share)*now().Sub(began))
	}
}

// wait waits for d; false if ctx ended before.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// observe settles the outcomes of redrives.
func (s *Server) observe(ctx context.Context) error {
	_, confirmErr := s.o.Bridge.Confirm(ctx, s.redrive, "", s.o.Metrics.Confirmed)
	seen, err := s.redrive.Observe(ctx, redrive.ObserveRequest{})
	s.o.Metrics.Observed(seen)
	return errors.Join(confirmErr, err)
}

// rechecksAtOnce bounds the records judged anew at the same time.
const rechecksAtOnce = 8

// survey counts open records for the metrics, and judges those anew that are
// due to be.
func (s *Server) survey(ctx context.Context) error {
	b := s.o.Bridge
	names := make([]string, len(b.Config.Routes))
	for i, r := range b.Config.Routes {
		names[i] = r.Name
	}
	mutes, err := b.Store.ListMutes(ctx)
	if err != nil {
		return err
	}
	found := prom.NewSurvey(names, mutes)
	now := b.Now()
	var mu sync.Mutex
	var errs []error
	slots := make(chan struct{}, rechecksAtOnce)
	var all sync.WaitGroup
	defer all.Wait()
	for l, err := range b.Store.List(ctx, dlqbridge.Filter{Now: now}) {
		if err != nil {
			return fmt.Errorf("survey open records: %w", err)
		}
		found.Add(l.Control, now)
		if at := l.Control.RecheckAt; at.IsZero() || at.After(now) {
			continue
		}
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			moved, err := s.mover.Recheck(ctx, l.Control.ID)
			if moved || err != nil {
				s.o.Metrics.Rechecked(err)
			}
			if err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	s.o.Metrics.Survey(found, now)
	return errors.Join(errs...)
}

// sweep starts the clocks of closed records.
func (s *Server) sweep(ctx context.Context) error {
	n, err := s.o.Bridge.Store.Sweep(ctx, sweepLimit)
	s.o.Metrics.Swept(n)
	return err
}
