package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"gatehouse.example/cmd/authz/internal/metrics"
	"gatehouse.example/internal/quietlog"
)

// reloaded is what became of a reload. The admin listener answers with it as JSON.
type reloaded struct {
	// Done is false if there were mistakes. Then nothing has changed.
	Done bool `json:"done"`
	// Changed are the settings that have new values, in force from the next request on.
	Changed []change `json:"changed"`
	// Restart are the settings whose new values need a restart. The values before stay in use.
	Restart  []change `json:"restart"`
	Mistakes []string `json:"mistakes"`
	Warnings []string `json:"warnings"`
}

// MarshalJSON writes every list as one, also without elements, so that programs need not expect null.
func (r reloaded) MarshalJSON() ([]byte, error) {
	type plain reloaded
	r.Changed, r.Restart = append([]change{}, r.Changed...), append([]change{}, r.Restart...)
	r.Mistakes, r.Warnings = append([]string{}, r.Mistakes...), append([]string{}, r.Warnings...)
	return json.Marshal(plain(r))
}

// change is a setting with a new value. What names elements of a list, and never a value.
type change struct {
	Key  string `json:"key"`
	What string `json:"what,omitempty"`
}

func (c change) String() string {
	if c.What == "" {
		return c.Key
	}
	return c.Key + " (" + c.What + ")"
}

// refused is a reload that changed nothing.
func refused(err error) reloaded {
	var r reloaded
	for line := range strings.Lines(err.Error()) {
		r.Mistakes = append(r.Mistakes, strings.TrimPrefix(strings.TrimSpace(line), "authz: "))
	}
	return r
}

// errStopping is the mistake of a reload while the server stops.
var errStopping = errors.New("the server is stopping")

// reloadRest is the least time between two reloads, and reloadShare how much longer than a reload
// the rest after it is: whoever asks for reloads without end gets a tenth of a processor.
const (
	reloadRest  = time.Second
	reloadShare = 9
)

// reloader reads the settings again, one time after the other. All who ask while one reload runs
// share the next one.
type reloader struct {
	apply func(context.Context) reloaded
	log   *slog.Logger
	rest  time.Duration // reloadRest, unless a test says otherwise

	mu   sync.Mutex
	next *coming
	work sync.WaitGroup // reloads that have been promised
	over bool
	sums metrics.Reloads

	turn  sync.Mutex // held by the reload that runs
	ready time.Time  // when the next one may begin
	begun chan struct{}
	stop  context.Context // set when begun is closed
}

func newReloader(apply func(context.Context) reloaded, log *slog.Logger, rest time.Duration) *reloader {
	return &reloader{apply: apply, log: log, rest: rest, begun: make(chan struct{})}
}

// coming is a reload that has not begun.
type coming struct {
	done chan struct{} // closed when result is set
	reloaded
}

// reload reads the settings that there are now, and returns what became of it. It waits for its
// turn, but not for longer than ctx.
func (r *reloader) reload(ctx context.Context) reloaded {
	one := r.promise()
	select {
	case <-one.done:
		return one.reloaded
	case <-ctx.Done():
		return refused(ctx.Err())
	}
}

// promise returns the reload that will begin next.
func (r *reloader) promise() *coming {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.next
	switch {
	case r.over:
		one = &coming{done: make(chan struct{}), reloaded: refused(errStopping)}
		close(one.done)
	case one == nil:
		one = &coming{done: make(chan struct{})}
		r.next = one
		r.work.Go(func() { r.do(one) })
	}
	return one
}

// do does a reload in its turn.
func (r *reloader) do(one *coming) {
	defer close(one.done)
	<-r.begun
	r.turn.Lock()
	defer r.turn.Unlock()
	timer := time.NewTimer(time.Until(r.ready))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.stop.Done():
	}
	r.mu.Lock()
	r.next = nil // who asks from now on may have changed a file after it was read
	r.mu.Unlock()
	if r.stop.Err() != nil {
		one.reloaded = refused(errStopping)
		return
	}
	began := time.Now()
	one.reloaded = r.apply(r.stop)
	if r.rest > 0 {
		r.ready = time.Now().Add(max(r.rest, reloadShare*time.Since(began)))
	}
	r.tell(one.reloaded)
}

// figures returns what became of the reloads.
func (r *reloader) figures() metrics.Reloads {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sums
}

// count counts a result.
func (r *reloader) count(result reloaded) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sums.Failing = !result.Done
	if result.Done {
		r.sums.Done++
	} else {
		r.sums.Refused++
	}
}

// tell counts the result and writes it to the log.
func (r *reloader) tell(result reloaded) {
	r.count(result)
	ctx := quietlog.Always(context.Background())
	for _, warning := range result.Warnings {
		r.log.WarnContext(ctx, warning)
	}
	for _, mistake := range result.Mistakes {
		r.log.ErrorContext(ctx, "the settings cannot be reloaded, nothing has changed: "+mistake)
	}
	if result.Done {
		r.log.InfoContext(ctx, "the settings were reloaded", "changed", listOf(result.Changed), "need a restart", listOf(result.Restart))
	}
}

func listOf(changes []change) string {
	texts := make([]string, len(changes))
	for i, c := range changes {
		texts[i] = c.String()
	}
	return strings.Join(texts, ", ")
}

// run lets reloads begin, also at each of the signals, until ctx ends. None runs when it returns.
func (r *reloader) run(ctx context.Context, hangups <-chan os.Signal) error {
	r.stop = ctx
	close(r.begun)
	for {
		select {
		case <-hangups:
			go r.reload(ctx)
		case <-ctx.Done():
			r.mu.Lock()
			r.over = true
			r.mu.Unlock()
			r.work.Wait()
			return nil
		}
	}
}

// listen begins to take SIGHUP as a request to reload, until stop is called.
func (p *program) listen() (signals <-chan os.Signal, stop func()) {
	if p.hangups == nil {
		return nil, func() {}
	}
	return p.hangups()
}

// hangups returns the channel of SIGHUP, and a function that gives the signal its usual action back.
func hangups() (signals chan os.Signal, stop func()) {
	signals = make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	return signals, func() { signal.Stop(signals) }
}
