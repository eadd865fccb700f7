package redis

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"

	goredis "github.com/redis/go-redis/v9"
)

// settings are those of one server, by name. A setting that the server does not report is
// missing.
type settings map[string]string

// settingNames are the settings that decide what a failover does. Some are those of a
// cluster only.
var settingNames = []string{
	"repl-timeout", "repl-ping-replica-period", "min-replicas-to-write", "min-replicas-max-lag",
	"cluster-node-timeout", "cluster-replica-validity-factor", "cluster-allow-reads-when-down",
	"cluster-allow-replica-migration", "cluster-migration-barrier",
}

// settingsOf asks a server for its settings. A denied one is missing.
func settingsOf(ctx context.Context, server *goredis.Client) settings {
	cmds := make([]goredis.Cmder, len(settingNames))
	for i, name := range settingNames {
		cmds[i] = goredis.NewMapStringStringCmd(ctx, "config", "get", name)
	}
	together(ctx, server, cmds...)
	s := settings{}
	for i, name := range settingNames {
		if value, known := cmds[i].(*goredis.MapStringStringCmd).Val()[name]; known && cmds[i].Err() == nil {
			s[name] = value
		}
	}
	return s
}

// number returns the value of a setting, if the server reports it as a number.
func (s settings) number(name string) (n int, known bool) {
	n, err := strconv.Atoi(s[name])
	return n, err == nil
}

// outside reports whether a setting is known to be below low or above high.
func (s settings) outside(name string, low, high int) bool {
	n, known := s.number(name)
	return known && (n < low || n > high)
}

// The bounds between which there is no advice, in the unit of each setting.
const (
	maxReplTimeout = 20    // seconds
	minNodeTimeout = 4000  // milliseconds; more than vouchTime
	maxNodeTimeout = 30000 // milliseconds
	minDownAfter   = 1000  // milliseconds
	maxDownAfter   = 30000 // milliseconds
)

// replicated returns advice about a server that has replicas, or is one.
func (s settings) replicated() (sentences []string) {
	timeout, known := s.number("repl-timeout")
	period, knownPeriod := s.number("repl-ping-replica-period")
	switch {
	case known && timeout > maxReplTimeout:
		sentences = append(sentences, fmt.Sprintf("repl-timeout is %d seconds: after the network was away, writes may be refused for so long, until a replica has noticed that its link is dead; "+
			"set repl-timeout 10 and repl-ping-replica-period 2", timeout))
	case known && knownPeriod && timeout <= period:
		sentences = append(sentences, fmt.Sprintf("repl-timeout is %d seconds and repl-ping-replica-period %d: replicas hang up whenever nothing is written; "+
			"set repl-timeout 10 and repl-ping-replica-period 2", timeout, period))
	}
	return sentences
}

// clustered returns advice about a server of a cluster whose primaries have up to so many
// replicas.
func (s settings) clustered(replicas int) (sentences []string) {
	add := func(when bool, sentence string) {
		if when {
			sentences = append(sentences, sentence)
		}
	}
	timeout, barrier := s["cluster-node-timeout"], s["cluster-migration-barrier"]
	add(s.outside("cluster-node-timeout", minNodeTimeout, math.MaxInt), "cluster-node-timeout is "+timeout+": a process that is cut off together with an old primary may read outdated records for up to three seconds; "+
		"set cluster-node-timeout 5000")
	add(s.outside("cluster-node-timeout", 0, maxNodeTimeout), "cluster-node-timeout is "+timeout+": without its primary a part of the records is away for at least so many milliseconds; "+
		"set cluster-node-timeout 5000")
	add(s["cluster-allow-reads-when-down"] == "yes", "cluster-allow-reads-when-down is yes: a primary that was cut off goes on to answer from an old copy, which is refused here and nowhere else; "+
		"set cluster-allow-reads-when-down no")
	if replicas == 0 {
		return sentences
	}
	add(s["cluster-replica-validity-factor"] == "0", "cluster-replica-validity-factor is 0: a replica takes over however old its copy is, and what was acknowledged since is lost; "+
		"set cluster-replica-validity-factor 10")
	low, known := s.number("cluster-migration-barrier")
	add(s["cluster-allow-replica-migration"] == "yes" && known && replicas > low, "cluster-allow-replica-migration is yes, with cluster-migration-barrier "+barrier+": "+
		"a replica that moves to another primary may take its place before it has any of its records, and all of them are lost; set cluster-allow-replica-migration no")
	add(s.servesAlone(), "a primary whose replicas are away answers alone, and a replica that comes back just when that primary ends lacks what was acknowledged; "+
		"set min-replicas-to-write 1 and min-replicas-max-lag to fewer seconds than cluster-node-timeout, and such writes are refused (503)")
	return sentences
}

// servesAlone reports whether a primary is known to accept writes when the cluster has given up
// its replicas. Before that, a write that no replica has is not acknowledged.
func (s settings) servesAlone() bool {
	least, known := s.number("min-replicas-to-write")
	lag, knownLag := s.number("min-replicas-max-lag")
	timeout, knownTimeout := s.number("cluster-node-timeout")
	return known && least == 0 || known && knownLag && knownTimeout && lag*1000 >= timeout
}

// advise returns a sentence for each setting that weakens what is promised about failovers.
func (b *backend) advise(ctx context.Context) []string {
	var mu sync.Mutex
	var found []string
	note := func(sentences []string) {
		mu.Lock()
		defer mu.Unlock()
		found = append(found, sentences...)
	}
	switch cluster, ok := b.client.(*goredis.ClusterClient); {
	case ok:
		replicas := b.ring.mostReplicas()
		_ = cluster.ForEachShard(ctx, func(ctx context.Context, server *goredis.Client) error { // a server that does not answer adds nothing
			s := settingsOf(ctx, server)
			note(s.clustered(replicas))
			if replicas > 0 {
				note(s.replicated())
			}
			return nil
		})
	case b.group != nil:
		_ = b.each(ctx, func(ctx context.Context, server *goredis.Client) error {
			note(settingsOf(ctx, server).replicated())
			return nil
		})
		note(b.group.sentinels.advise(ctx))
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// mostReplicas returns the largest number of replicas of any primary.
func (r *ring) mostReplicas() (n int) {
	if last := r.last.Load(); last != nil {
		for _, confirm := range last.confirm {
			n = max(n, confirm)
		}
	}
	return n
}
