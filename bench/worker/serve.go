package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// Server answers for a worker over HTTP.
type Server struct {
	worker Worker
	errs   io.Writer // for the one at the console

	mu     sync.Mutex
	orphan *time.Timer // ends a run whose conductor is gone; nil without a run
}

// NewServer makes a server. What nobody else is told of goes to errs, as lines.
func NewServer(w Worker, errs io.Writer) *Server { return &Server{worker: w, errs: errs} }

// Serve answers until ctx ends, and then ends the run, if there is one.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * orphanedAfter}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	s.watch(false)
	err := s.worker.Stop(last)
	if closed := server.Shutdown(last); closed != nil {
		err = errors.Join(err, closed, server.Close())
	}
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

// Handler gives the paths.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	w := s.worker
	handle(s, mux, pathInit, func(ctx context.Context, setup Setup) (warningsBody, error) {
		warnings, err := w.Init(ctx, setup)
		s.watch(err == nil)
		return warningsBody{warnings}, err
	})
	handle(s, mux, pathTopics, quiet(w.CreateTopics))
	handle(s, mux, pathProducers, quiet(w.CreateProducers))
	handle(s, mux, pathConsumers, quiet(w.CreateConsumers))
	handle(s, mux, pathStart, quiet(w.StartLoad))
	handle(s, mux, pathRate, quiet(w.SetRate))
	for path, do := range map[string]func(context.Context) error{
		pathProbe: w.Probe, pathPause: w.PauseConsumers, pathResume: w.ResumeConsumers, pathReset: w.ResetLatencies,
		pathStopLoad: w.StopLoad,
	} {
		handle(s, mux, path, quiet(func(ctx context.Context, _ none) error { return do(ctx) }))
	}
	handle(s, mux, pathStop, quiet(func(ctx context.Context, _ none) error {
		s.watch(false)
		return w.Stop(context.WithoutCancel(ctx)) // bounded by itself
	}))
	s.handleStatistics(mux)
	return mux
}

// quiet fits a method whose answer says nothing.
func quiet[Request any](do func(context.Context, Request) error) func(context.Context, Request) (none, error) {
	return func(ctx context.Context, r Request) (none, error) { return none{}, do(ctx, r) }
}

func (s *Server) handleStatistics(mux *http.ServeMux) {
	handle(s, mux, pathCounters, func(ctx context.Context, _ none) (any, error) { return s.worker.Counters(ctx) })
	handle(s, mux, pathPeriod, func(ctx context.Context, _ none) (any, error) {
		p, err := s.worker.Period(ctx)
		if err != nil {
			return nil, err
		}
		return encodePeriod(p)
	})
	handle(s, mux, pathTotal, func(ctx context.Context, _ none) (any, error) {
		l, err := s.worker.Cumulative(ctx)
		if err != nil {
			return nil, err
		}
		return l.Encode()
	})
}

// handle reads a request, lets do answer it, and writes the answer or the error.
func handle[Request, Answer any](s *Server, mux *http.ServeMux, path string, do func(context.Context, Request) (Answer, error)) {
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		s.heard()
		content, err := io.ReadAll(http.MaxBytesReader(w, r.Body, largestBody))
		var request Request
		if err == nil {
			err = json.Unmarshal(content, &request)
		}
		if err != nil {
			respond(w, http.StatusBadRequest, failure{err.Error()})
			return
		}
		answer, err := do(r.Context(), request)
		if err != nil {
			respond(w, http.StatusInternalServerError, failure{err.Error()})
			return
		}
		respond(w, http.StatusOK, answer)
	})
}

func respond(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // if the other side is gone, the watch notices
}

// watch starts or ends the watch over a run.
func (s *Server) watch(running bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.orphan != nil {
		s.orphan.Stop()
		s.orphan = nil
	}
	if running {
		s.orphan = time.AfterFunc(orphanedAfter, s.abandon)
	}
}

// heard puts off the end of the run.
func (s *Server) heard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.orphan != nil {
		s.orphan.Reset(orphanedAfter)
	}
}

func (s *Server) abandon() {
	fmt.Fprintf(s.errs, "nothing heard for %v from who conducts the run, so it ends\n", orphanedAfter)
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := s.worker.Stop(ctx); err != nil {
		fmt.Fprintf(s.errs, "the run ended with errors: %v\n", err)
	}
}
