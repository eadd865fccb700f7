package listener

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// ErrTerminated is the cause with which a context of [Signalled] ends at SIGTERM: the process is
// taken out of service, and load balancers have to notice first.
var ErrTerminated = errors.New("listener: terminated")

// Signalled returns a context that ends at SIGTERM, with the cause [ErrTerminated], or at SIGINT.
// A second signal ends the process at once.
func Signalled(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		got := <-signals
		signal.Stop(signals) // restores the default action
		if got == syscall.SIGTERM {
			cancel(ErrTerminated)
		}
		cancel(nil)
	}()
	return ctx
}

// Grace is the usual time for requests in flight to finish.
const Grace = 10 * time.Second

// Stop configures how a server stops.
type Stop struct {
	// Drain is the time for which the listener stays open after SIGTERM. Set it so that load
	// balancers notice that the server is not ready.
	Drain time.Duration
	// Grace bounds the time for requests in flight after that.
	Grace time.Duration
	// Notice, if set, is called first. Set it to report that the server is not ready.
	Notice func()
	// EndStreams, if set, is called after half of Grace. Set it to end long answers.
	EndStreams func()
	// after replaces time.After in tests.
	after func(time.Duration) <-chan time.Time
}

// Stop stops the server after its context, ended, has ended: it calls Notice; from then on
// answers close their connections; after SIGTERM the listener stays open for Drain; then no
// connections are accepted and requests in flight finish; those that take longer than Grace are
// cut off.
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
