package listener

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// ErrTerminated is the cause with which a context of [Signalled] ends at SIGTERM: somebody
// takes this process out of service, and balancers have to notice first.
var ErrTerminated = errors.New("listener: terminated")

// Signalled returns a context that ends at SIGTERM, with the cause [ErrTerminated], or at
// SIGINT. The second signal ends the process at once.
func Signalled(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		got := <-signals
		signal.Stop(signals) // the default action is back
		if got == syscall.SIGTERM {
			cancel(ErrTerminated)
		}
		cancel(nil)
	}()
	return ctx
}

// Grace is how long requests in flight may take to finish.
const Grace = 10 * time.Second

// Stop is how a server stops.
type Stop struct {
	// Drain is how long the listener stays open after SIGTERM, so that balancers notice that
	// the server is not ready; 0 for not at all.
	Drain time.Duration
	// Grace bounds how long requests in flight may take after that.
	Grace time.Duration
	// Notice is called first: from then on the server is not ready. It may be nil.
	Notice func()
	// EndStreams is called when half of the grace is over. It may be nil.
	EndStreams func()
	// after is time.After, for tests.
	after func(time.Duration) <-chan time.Time
}

// Stop ends the server, whose context has ended, in order: it is not ready; its answers close
// their connections; after SIGTERM the listener stays open for a while; then nobody new is
// let in; requests in flight finish; what takes too long is cut off.
func (s *Server) Stop(ended context.Context, how Stop) {
	s.stopping.Store(true)
	if how.Notice != nil {
		how.Notice()
	}
	if how.Drain > 0 && errors.Is(context.Cause(ended), ErrTerminated) {
		s.log.Info("stopping: not ready any more, and still answering", "for", how.Drain.String())
		<-how.wait(how.Drain)
	}
	s.log.Info("stopping: waiting for requests in flight", "at_most", how.Grace.String())
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ended), how.Grace)
	defer cancel()
	if how.EndStreams != nil {
		defer time.AfterFunc(how.Grace/2, how.EndStreams).Stop()
	}
	if err := s.http.Shutdown(ctx); err != nil {
		s.log.Warn("requests were cut off: they took too long to finish")
		_ = s.http.Close()
	}
}

func (how Stop) wait(d time.Duration) <-chan time.Time {
	if how.after != nil {
		return how.after(d)
	}
	return time.After(d)
}
