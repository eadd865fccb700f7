package redis

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// ring knows which servers of a cluster are primaries by the word of a majority of the
// primaries, and how many replicas must have what is written to each.
//
// A primary that was cut off from the others goes on until it notices that, for one and a
// half times cluster-node-timeout, and with cluster-allow-reads-when-down without an end.
// Meanwhile its replica may have taken over. So what a primary answers counts only while a
// majority calls it one: a majority must have given it up before anybody takes over.
type ring struct {
	client  *goredis.ClusterClient
	connect func(addr string) *goredis.Client
	first   []string // the addresses that are configured

	looking chan struct{} // holds one token: one look at a time
	servers map[string]*goredis.Client
	named   sync.Map // addresses that somebody ever named, to true

	last atomic.Pointer[ringView]
}

// ringView is what a look has found.
type ringView struct {
	began     time.Time
	primaries map[string]bool // those that a majority names
	confirm   replicas        // how many replicas must confirm a write, by primary
}

const (
	// vouchTime is how long after the beginning of a look its primaries are believed. It
	// is less than cluster-node-timeout should be, so that whoever does not reach the
	// majority stops before anybody can take over.
	vouchTime = 3 * time.Second
	// ringTime bounds a look: the primaries that are known, then everybody else, then
	// those of whom these told, then replicas that seem to be late.
	ringTime = 4 * commandTime
)

// openRing makes the ring of a cluster and its client, which then has every answer checked.
func openRing(t target, o Options) *ring {
	r := &ring{connect: dialers(t, o).server, first: t.addrs, looking: make(chan struct{}, 1), servers: map[string]*goredis.Client{}}
	settings := clientOptions(t, o).Cluster()
	settings.NewClient = func(node *goredis.Options) *goredis.Client {
		client := goredis.NewClient(node)
		client.AddHook(vouchHook{ring: r, addr: node.Addr})
		return client
	}
	r.client = goredis.NewClusterClient(settings)
	r.client.AddHook(dialHook{})
	return r
}

// close ends the connections of looks.
func (r *ring) close() {
	if r == nil {
		return
	}
	r.looking <- struct{}{}
	for _, server := range r.servers {
		_ = server.Close()
	}
}

var (
	errNoMajority = errors.New("a majority of the primaries of the cluster does not answer, or does not agree")
	errUnvouched  = errors.New("a majority of the primaries of the cluster does not call this server one")
)

// look asks the servers and returns how many replicas must confirm what each primary is
// told.
func (r *ring) look(ctx context.Context) (replicas, error) {
	select {
	case r.looking <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-r.looking }()
	return r.lookNow(ctx)
}

// lookNow is look for who holds the token.
func (r *ring) lookNow(ctx context.Context) (replicas, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ringTime)
	defer cancel()
	view := &ringView{began: time.Now()}
	answers := map[string]ringAnswer{}
	next := r.first
	if last := r.last.Load(); last != nil && len(last.primaries) > 0 {
		next = slices.Collect(maps.Keys(last.primaries))
	}
	for range 3 {
		r.askAll(ctx, next, answers)
		if view.primaries = majority(answers); len(view.primaries) > 0 {
			break
		}
		next = r.allAddresses()
	}
	defer r.last.Store(view)
	if len(view.primaries) == 0 {
		return nil, errNoMajority
	}
	view.confirm = r.confirmations(ctx, view.primaries, answers)
	r.closeRemoved(answers)
	return view.confirm, nil
}

// forget closes the connections to those who are no part of the cluster any more.
func (r *ring) closeRemoved(answers map[string]ringAnswer) {
	named := map[string]bool{}
	for _, a := range answers {
		for primary, replicas := range a.primaries {
			named[primary] = true
			maps.Copy(named, replicas)
		}
	}
	for addr, server := range r.servers {
		if !named[addr] {
			_ = server.Close()
			delete(r.servers, addr)
		}
	}
}

// everybody is each address that is configured or was ever named.
func (r *ring) allAddresses() []string {
	all := slices.Clone(r.first)
	r.named.Range(func(addr, _ any) bool {
		all = append(all, addr.(string))
		return true
	})
	return all
}

// askAll asks servers at the same time, each once in a look.
func (r *ring) askAll(ctx context.Context, addrs []string, answers map[string]ringAnswer) {
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, addr := range addrs {
		mu.Lock()
		_, asked := answers[addr]
		if !asked {
			answers[addr] = ringAnswer{}
		}
		mu.Unlock()
		if asked {
			continue
		}
		server := r.server(addr)
		asking.Go(func() {
			a := askNode(ctx, server)
			mu.Lock()
			defer mu.Unlock()
			answers[addr] = a
		})
	}
	asking.Wait()
	for _, a := range answers {
		for primary, followers := range a.primaries {
			r.named.Store(primary, true)
			for f := range followers {
				r.named.Store(f, true)
			}
		}
	}
}

func (r *ring) server(addr string) *goredis.Client {
	if r.servers[addr] == nil {
		r.servers[addr] = r.connect(addr)
	}
	return r.servers[addr]
}

// confirmations are how many replicas must have what is written to each primary: all that
// could take over. Of two sides of a cluster that is divided, the one with fewer primaries
// may have a replica too, and its word is worth nothing on the other side.
func (r *ring) confirmations(ctx context.Context, primaries map[string]bool, answers map[string]ringAnswer) replicas {
	needed := replicas{}
	for primary := range primaries {
		candidates := map[string]bool{}
		for addr, a := range answers {
			if a.primaries[addr] != nil { // otherwise it has no say
				maps.Copy(candidates, a.primaries[primary])
			}
		}
		_, prompt := following(answers[primary].info)
		needed[primary] = max(len(candidates), prompt)
		if answers[primary].info != "" && prompt < needed[primary] && len(candidates) > 1 {
			needed[primary] = max(r.able(ctx, candidates), 1)
		}
	}
	return needed
}

// able counts the replicas that could take over now, when some are late: one that does not
// answer us either hangs, and one that is being filled is nobody's choice while another one
// has more. One that answers and is late only was cut off from its primary.
func (r *ring) able(ctx context.Context, candidates map[string]bool) (n int) {
	answers := map[string]ringAnswer{}
	r.askAll(ctx, slices.Collect(maps.Keys(candidates)), answers)
	for _, a := range answers {
		if a.info != "" && infoField(a.info, "master_sync_in_progress") != "1" {
			n++
		}
	}
	return n
}
