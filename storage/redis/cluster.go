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

// ring decides which servers of a cluster are primaries, by a majority of the primaries, and how
// many replicas must have what is written to each.
//
// A primary that was cut off from the others goes on until it notices that, for one and a half
// times cluster-node-timeout, and with cluster-allow-reads-when-down for ever. Meanwhile its
// replica may have taken over. So the answer of a primary counts only while a majority lists it
// as one: a majority must have given it up before another server takes over.
type ring struct {
	client  *goredis.ClusterClient
	connect func(addr string) *goredis.Client
	first   []string // the addresses that are configured

	looking chan struct{} // holds one token, for one look at a time
	servers map[string]*goredis.Client
	named   sync.Map // addresses that any answer has named, to true

	last atomic.Pointer[ringView]
}

// ringView is the result of a look.
type ringView struct {
	began     time.Time
	primaries map[string]bool // those that a majority lists
	confirm   replicas        // how many replicas must confirm a write, by primary
}

const (
	// vouchTime is how long after the beginning of a look its primaries are trusted. It is less
	// than cluster-node-timeout should be, so that a process that does not reach the majority
	// stops before another server can take over.
	vouchTime = 3 * time.Second
	// ringTime bounds a look: the primaries of the last look, then all known addresses, then
	// those that these named, then replicas that seem to be late.
	ringTime = 4 * commandTime
)

// openRing makes the ring of a cluster and its client, whose answers are all checked.
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

// close closes the connections of looks.
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
	errUnvouched  = errors.New("a majority of the primaries of the cluster does not list this server as one")
)

// look asks the servers and returns how many replicas must confirm a write to each primary.
func (r *ring) look(ctx context.Context) (replicas, error) {
	select {
	case r.looking <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-r.looking }()
	return r.lookNow(ctx)
}

// lookNow is look for a caller that holds the token.
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

// closeRemoved closes the connections to servers that have left the cluster.
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

// allAddresses returns each address that is configured or that any answer has named.
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

// confirmations returns how many replicas must have a write to each primary: all that could take
// over. In a cluster that is divided, the side with fewer primaries may have replicas too, but
// their answers do not count on the other side.
func (r *ring) confirmations(ctx context.Context, primaries map[string]bool, answers map[string]ringAnswer) replicas {
	needed := replicas{}
	for primary := range primaries {
		candidates := map[string]bool{}
		for addr, a := range answers {
			if a.primaries[addr] != nil { // otherwise it is not a primary, and its list does not count
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

// able counts the replicas that could take over now, when some are late. A replica that does not
// answer this process hangs too, and one that is being filled is not promoted while another one
// has more. A replica that answers and is late was only cut off from its primary.
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
