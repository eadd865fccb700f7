package redis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"gatehouse.example/storage"
	"gatehouse.example/storage/redis/internal/failover"
)

// group is the servers behind Sentinel, as one process sees them. It looks at them at short
// intervals and decides with package failover which one is primary.
//
// A read returns an answer only if the answering server was certainly the primary then: either
// the lease lasted when the reply arrived, or another look confirms it. A write is confirmed by
// as many replicas as the view requires.
type group struct {
	sentinels *sentinels
	connect   func(addr string) *goredis.Client
	measure   func(context.Context, eachPrimary) // measures the memory of the primaries
	warn      func(sentence string)

	watch failover.Watch // for look only
	asked time.Time      // when a server was last asked to follow another one, for look only
	room  time.Time      // when measure was last called, for look only

	now  atomic.Pointer[standing]
	wake chan struct{}
	stop context.CancelFunc
	end  sync.WaitGroup

	mu      sync.Mutex
	servers map[string]*goredis.Client
}

// standing is a view with the client of its primary and the look that it follows from.
type standing struct {
	failover.View
	client *goredis.Client
	begun  time.Time     // when the look began
	over   chan struct{} // closed when there is a newer one
	err    error         // why a server or the sentinels did not answer
}

// termKey is the key of the mark: the term to which the contents of a server belong.
const termKey = "gatehouse:reign"

// markScript replaces the mark KEYS[1] if it is ARGV[1], empty for none, by ARGV[2]. It answers
// with the mark that is there afterwards.
const markScript = `local mark = redis.call('GET', KEYS[1]) or ''
if mark ~= ARGV[1] then return mark end
redis.call('SET', KEYS[1], ARGV[2])
return ARGV[2]`

const (
	// restTime is the shortest time between two looks.
	restTime = 20 * time.Millisecond
	// askTime bounds each question of a look. Some questions follow from answers; each has the
	// full time.
	askTime = commandTime / 2
	// doubtTime is the time between two looks while no primary is certain.
	doubtTime = 200 * time.Millisecond
	// refillTime is the shortest time between two requests that a server follow another one.
	refillTime = time.Second
)

// openGroup looks once, and then goes on looking in the background until close.
func openGroup(ctx context.Context, d dial, measure func(context.Context, eachPrimary), warn func(string)) *group {
	g := &group{
		sentinels: newSentinels(d.name, d.sentinels, d.sentinel), connect: d.server, measure: measure, warn: warn,
		watch: failover.Watch{Patience: d.patience, Off: d.off},
		wake:  make(chan struct{}, 1), servers: map[string]*goredis.Client{},
	}
	g.now.Store(&standing{View: failover.View{Doubt: errors.New("the servers have not been asked yet")}, over: make(chan struct{})})
	g.look(ctx)
	ctx, g.stop = context.WithCancel(context.WithoutCancel(ctx))
	g.end.Go(func() { g.run(ctx) })
	return g
}

// await returns when a primary is trusted, or the reason why none is when ctx ends.
func (g *group) await(ctx context.Context) error {
	for {
		v := g.now.Load()
		if v.Doubt == nil {
			return nil
		}
		select {
		case <-v.over:
		case <-ctx.Done():
			return v.doubt()
		}
	}
}

func (g *group) run(ctx context.Context) {
	for {
		timer := time.NewTimer(g.pause())
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-g.wake:
			timer.Stop()
			rest(ctx, restTime)
		}
		g.look(ctx)
	}
}

// rest waits for a time, or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// pause returns the time until the next look. A lease lasts for about down-after, and several
// looks in that time should prolong it.
func (g *group) pause() time.Duration {
	v := g.now.Load()
	if v.Doubt != nil || !time.Now().Before(v.Until) {
		return doubtTime
	}
	return min(lookTime, max(v.DownAfter/5, doubtTime/2))
}

// look asks the servers once and publishes the view that follows.
func (g *group) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 4*askTime)
	defer cancel()
	look, err := g.around(ctx)
	step := g.watch.Update(look)
	if step.Mark != (failover.Mark{}) {
		step.View = g.watch.Marked(g.mark(ctx, step))
	}
	g.publish(step.View, look.Begun, err)
	g.recover(ctx, look, step)
	if step.View.Doubt == nil && time.Since(g.room) >= lookTime {
		g.room = time.Now()
		primary := g.at(step.View.Primary)
		g.measure(ctx, func(ctx context.Context, look func(context.Context, *goredis.Client) error) error {
			return look(ctx, primary)
		})
	}
}

func (g *group) report(sentence string) {
	if g.warn != nil {
		g.warn(sentence)
	}
}

// around asks the sentinels, and at the same time the primary of the last look, which in most
// cases is the one that they name.
func (g *group) around(ctx context.Context) (failover.Look, error) {
	look := failover.Look{Begun: time.Now(), Servers: map[string]failover.Server{}}
	var silent []error
	var asking sync.WaitGroup
	before := g.now.Load().Primary
	if before != "" {
		asking.Go(func() { silent = append(silent, g.ask(ctx, look.Servers, before)) })
	}
	reports, err := g.sentinels.reports(ctx, before)
	asking.Wait()
	look.Reports = reports
	term, named := look.Named()
	if named && term.Primary != before {
		silent = append(silent, g.ask(ctx, look.Servers, term.Primary))
	}
	if g.watch.NeedsOthers(look) {
		silent = append(silent, g.ask(ctx, look.Servers, look.Others(term.Primary)...))
	}
	return look, errors.Join(append(silent, err)...)
}

// ask asks servers about themselves, all at once. The error is from one that did not answer.
func (g *group) ask(ctx context.Context, answers map[string]failover.Server, addrs ...string) (silent error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, addr := range addrs {
		asking.Go(func() {
			server, err := g.server(ctx, addr)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				silent = fmt.Errorf("%s: %w", addr, err)
				return
			}
			answers[addr] = server
		})
	}
	asking.Wait()
	return silent
}

// at returns the client of a server.
func (g *group) at(addr string) *goredis.Client {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.servers[addr] == nil {
		g.servers[addr] = g.connect(addr)
	}
	return g.servers[addr]
}

// mark writes the mark of a step.
func (g *group) mark(ctx context.Context, step failover.Step) error {
	cmd := goredis.NewCmd(ctx, "eval", markScript, "1", termKey, step.From.String(), step.Mark.String())
	if err := g.at(step.View.Primary).Process(ctx, once{cmd}); err != nil {
		return err
	}
	if is, _ := cmd.Val().(string); is != step.Mark.String() {
		return errors.New("another process has written another mark")
	}
	return nil
}

// publish replaces the view that counts.
func (g *group) publish(v failover.View, begun time.Time, err error) {
	before := g.now.Load()
	next := &standing{View: v, begun: begun, over: make(chan struct{}), err: err}
	if v.Primary != "" {
		next.client = g.at(v.Primary)
	}
	if v.Lost && !before.Lost {
		g.report("the primary lacks acknowledged writes, and no server is left that has them: revocations, consents and registrations may be lost")
	}
	g.now.Store(next)
	close(before.over)
}

// after waits for a look that began at that time or later.
func (g *group) after(ctx context.Context, begun time.Time) *standing {
	for {
		v := g.now.Load()
		if !v.begun.Before(begun) {
			return v
		}
		g.lookAgain()
		select {
		case <-v.over:
		case <-ctx.Done():
			return v
		}
	}
}

// lookAgain asks for a look without delay.
func (g *group) lookAgain() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// lineage returns the lineage of the primary.
func (g *group) lineage(ctx context.Context) (storage.Lineage, error) {
	v, err := g.primary(ctx)
	if err != nil {
		return "", err
	}
	return storage.Lineage(v.Lineage), nil
}

func (g *group) close() error {
	g.stop()
	g.end.Wait()
	g.sentinels.close()
	g.mu.Lock()
	defer g.mu.Unlock()
	var errs []error
	for _, client := range g.servers {
		errs = append(errs, client.Close())
	}
	return errors.Join(errs...)
}
