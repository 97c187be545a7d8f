package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
)

// How a worker process learns what it is.
const (
	envRole  = "DLQBRIDGE_DEMO_ROLE"
	envQueue = "DLQBRIDGE_DEMO_QUEUE"
	// Set, envSubscription is read instead of the queue.
	envSubscription = "DLQBRIDGE_DEMO_SUBSCRIPTION"
	// Where a worker dead-letters a message itself.
	envDead    = "DLQBRIDGE_DEMO_DEAD"
	envOutside = "DLQBRIDGE_DEMO_OUTSIDE"
	envCalm    = "DLQBRIDGE_DEMO_CALM"
	envTurns   = "DLQBRIDGE_DEMO_TURNS"
)

// fleet keeps worker processes running and starts another where one has died,
// as an orchestrator would. They are real processes, so that a crash is one.
type fleet struct {
	size int
	env  []string
	// crashes counts the workers that died.
	crashes atomic.Int64
}

// work runs the fleet until done says that nothing is left, and stops it.
func (f *fleet) work(ctx context.Context, done func(context.Context) error, extra ...string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	failed := make(chan error, f.size)
	for range f.size {
		wg.Go(func() {
			for ctx.Err() == nil {
				switch crashed, err := f.worker(ctx, extra); {
				case crashed:
					f.crashes.Add(1)
				case err != nil && ctx.Err() == nil:
					failed <- err
					cancel()
					return
				}
			}
		})
	}
	err := done(ctx)
	cancel()
	wg.Wait()
	select {
	case workerErr := <-failed:
		return workerErr
	default:
		return err
	}
}

// worker runs one worker process to its end.
func (f *fleet) worker(ctx context.Context, extra []string) (crashed bool, err error) {
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	cmd := exec.Command(self) //nolint:gosec,noctx // our own program; it is ended by closing its input, so that it stops in order
	cmd.Env = append(append(os.Environ(), f.env...), append(extra, envRole+"=worker")...)
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	if err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, fmt.Errorf("start a worker: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = input.(io.Closer).Close() })
	defer stop()
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == crashCode {
		return true, nil
	}
	return false, err
}
