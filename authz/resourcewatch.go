package authz

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gatehouse.example/storage"
)

const (
	// resourceInterval is the interval at which Run looks for changed resources in the store.
	resourceInterval = 2 * time.Second
	// resourceAge is the age at which a request looks by itself, where Run does not run.
	resourceAge = 5 * time.Second
	// resourceReading is the interval at which all resources are read although the store says
	// that none has changed: a writer may have stopped before it could say so.
	resourceReading = time.Minute
)

// resourceWatch keeps the current resource set. While the store does not answer, the last set
// stays.
type resourceWatch struct {
	store      *storage.Store
	configured []Resource
	log        *slog.Logger
	now        func() time.Time
	// changed is told each set that was read, while mu is held; nil for nobody.
	changed func(context.Context, *resourceSet)

	current atomic.Pointer[resourceSet]
	looked  atomic.Int64 // when the store was asked last, in nanoseconds since 1970

	mu       sync.Mutex      // held while the store is read
	version  storage.Version // of the resources that were read last
	read     time.Time       // when they were read
	problems []ResourceProblem
	failing  bool
}

// watchResources reads the resources for the first time.
func watchResources(ctx context.Context, cfg Config) (*resourceWatch, error) {
	w := &resourceWatch{store: cfg.Store, configured: cfg.Resources, log: cfg.Logger, now: cfg.Now}
	w.looked.Store(w.now().UnixNano())
	return w, w.look(ctx)
}

// take returns the current set. A handler takes it once, at its start, and decides everything by
// it, so that no request is judged by two sets.
func (w *resourceWatch) take(ctx context.Context) *resourceSet {
	if w.old(resourceAge) {
		w.refresh(context.WithoutCancel(ctx), resourceAge)
	}
	return w.current.Load()
}

// old reports whether the store was asked longer ago than age, by a clock that may be set back.
func (w *resourceWatch) old(age time.Duration) bool {
	since := time.Duration(w.now().UnixNano() - w.looked.Load())
	return since >= age || since < 0
}

// watchResources looks for changes until ctx ends.
func (s *Server) watchResources(ctx context.Context) {
	ticker := time.NewTicker(resourceInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.latest.Load().resources.refresh(ctx, 0)
		case <-ctx.Done():
			return
		}
	}
}

// refresh looks for changes, unless another goroutine has done so meanwhile.
func (w *resourceWatch) refresh(ctx context.Context, age time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.old(age) {
		return
	}
	began := w.now()
	err := w.look(ctx)
	w.looked.Store(began.UnixNano()) // until now, requests that need a newer set wait for this one
	switch {
	case ctx.Err() != nil:
	case err != nil && !w.failing:
		w.log.WarnContext(ctx, "the resources in the store cannot be read; those that were read last stay", "error", err)
		w.failing = true
	case err == nil && w.failing:
		w.log.InfoContext(ctx, "the resources in the store can be read again")
		w.failing = false
	}
}

// look reads the resources if there may be a change: in the good case, one small record.
func (w *resourceWatch) look(ctx context.Context) error {
	version, err := w.store.ResourcesVersion(ctx)
	if err != nil {
		return err
	}
	now := w.now()
	if w.current.Load() != nil && version == w.version && now.Sub(w.read) < resourceReading && !now.Before(w.read) {
		return nil
	}
	stored, err := readResources(ctx, w.store)
	if err != nil {
		return err
	}
	set := newResourceSet(w.configured, stored)
	w.current.Store(set)
	w.version, w.read = version, now
	w.report(ctx, set.problems)
	if w.changed != nil {
		w.changed(ctx, set)
	}
	return nil
}

// report logs each problem once.
func (w *resourceWatch) report(ctx context.Context, problems []ResourceProblem) {
	for _, p := range problems {
		if !slices.Contains(w.problems, p) {
			w.log.WarnContext(ctx, "a resource in the store: "+p.Why, "resource", p.URI)
		}
	}
	w.problems = problems
}

// readResources reads the resources of a store, with the keys of patterns.
func readResources(ctx context.Context, store *storage.Store) ([]storedResource, error) {
	var list []storedResource
	for r, err := range store.Resources(ctx) {
		if err != nil && !errors.Is(err, storage.ErrRecord) {
			return nil, err
		}
		s := storedResource{Resource: r, unreadable: err}
		if err == nil {
			s.key, s.unreadable = store.OpenIntrospectionKey(r)
		}
		list = append(list, s)
	}
	return list, nil
}
