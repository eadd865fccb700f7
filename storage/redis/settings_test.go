package redis

import (
	"strings"
	"testing"
)

// mustSay expects one sentence with each of these parts, in this order, and no others.
func mustSay(t *testing.T, sentences []string, parts ...string) {
	t.Helper()
	if len(sentences) != len(parts) {
		t.Fatalf("there are %d sentences, want %d: %q", len(sentences), len(parts), sentences)
	}
	for i, part := range parts {
		if !strings.Contains(sentences[i], part) {
			t.Errorf("sentence %d is %q, want %q in it", i, sentences[i], part)
		}
		if !strings.Contains(sentences[i], "; ") {
			t.Errorf("sentence %d names no next step: %q", i, sentences[i])
		}
	}
}

// TestSentinelAdvice: advice about sentinels. The maps are shortened from those of Redis 7.0.
func TestSentinelAdvice(t *testing.T) {
	t.Parallel()
	good := map[string]string{"down-after-milliseconds": "5000", "num-other-sentinels": "2", "quorum": "2"}
	for _, c := range []struct {
		name   string
		differ map[string]string
		ranks  []string // the priorities of replicas
		want   []string
	}{
		{"as recommended", nil, []string{"100", "100"}, nil},
		{"the bounds are good", map[string]string{"down-after-milliseconds": "30000"}, nil, nil},
		{"the lower bound is good", map[string]string{"down-after-milliseconds": "1000"}, nil, nil},
		{"too late", map[string]string{"down-after-milliseconds": "30001"}, nil, []string{"down-after-milliseconds is 30001"}},
		{"too early", map[string]string{"down-after-milliseconds": "999"}, nil, []string{"down-after-milliseconds is 999"}},
		{"one sentinel", map[string]string{"num-other-sentinels": "0", "quorum": "1"}, nil, []string{"there is 1 sentinel:"}},
		{"two sentinels", map[string]string{"num-other-sentinels": "1", "quorum": "2"}, nil, []string{"there are 2 sentinels:"}},
		{"four sentinels", map[string]string{"num-other-sentinels": "3", "quorum": "3"}, nil, []string{"there are 4 sentinels, an even number"}},
		{"half of four", map[string]string{"num-other-sentinels": "3", "quorum": "2"}, nil, []string{"there are 4 sentinels", "set it to 3"}},
		{"one of three", map[string]string{"quorum": "1"}, nil, []string{"quorum is 1 of 3 sentinels, less than a majority"}},
		{"four of three", map[string]string{"quorum": "4"}, nil, []string{"quorum is 4 of 3 sentinels: the primary is never replaced"}},
		{"one comes first", nil, []string{"100", "10", "100"}, []string{"replica-priority"}},
		{"one never comes", nil, []string{"100", "0", "100"}, nil},
		{"nothing is told", map[string]string{"down-after-milliseconds": "-", "num-other-sentinels": "-", "quorum": "-"}, nil, nil},
	} {
		primary := map[string]string{}
		for name, value := range good {
			if other, differs := c.differ[name]; differs {
				value = other
			}
			if value != "-" {
				primary[name] = value
			}
		}
		var replicas []map[string]string
		for _, rank := range c.ranks {
			replicas = append(replicas, map[string]string{"slave-priority": rank})
		}
		t.Run(c.name, func(t *testing.T) { mustSay(t, sentinelAdvice(primary, replicas), c.want...) })
	}
}

// TestServerAdvice: advice about settings of a server, some of which only matters where there are
// replicas.
func TestServerAdvice(t *testing.T) {
	t.Parallel()
	mustSay(t, settings{"repl-timeout": "20", "repl-ping-replica-period": "10"}.replicated())
	mustSay(t, settings{"repl-timeout": "60", "repl-ping-replica-period": "10"}.replicated(), "repl-timeout is 60 seconds")
	mustSay(t, settings{"repl-timeout": "10", "repl-ping-replica-period": "10"}.replicated(), "hang up whenever nothing is written")
	mustSay(t, settings{}.replicated())

	alone := settings{
		"cluster-node-timeout": "5000", "cluster-replica-validity-factor": "0", "cluster-allow-replica-migration": "yes",
		"cluster-migration-barrier": "1", "min-replicas-to-write": "0", "min-replicas-max-lag": "10",
	}
	mustSay(t, settings{}.clustered(2))
	mustSay(t, alone.clustered(0))
	mustSay(t, alone.clustered(1), "cluster-replica-validity-factor is 0", "min-replicas-to-write 1")
	mustSay(t, alone.clustered(2), "cluster-replica-validity-factor is 0", "cluster-allow-replica-migration is yes", "min-replicas-to-write 1")
	mustSay(t, settings{"cluster-node-timeout": "1000"}.clustered(0), "cluster-node-timeout is 1000")
	mustSay(t, settings{"cluster-node-timeout": "60000"}.clustered(0), "cluster-node-timeout is 60000")
	mustSay(t, settings{"cluster-allow-reads-when-down": "yes"}.clustered(0), "cluster-allow-reads-when-down is yes")
	mustSay(t, settings{"cluster-node-timeout": "5000", "min-replicas-to-write": "1", "min-replicas-max-lag": "4"}.clustered(1))
	mustSay(t, settings{"cluster-node-timeout": "5000", "min-replicas-to-write": "1", "min-replicas-max-lag": "5"}.clustered(1), "min-replicas-max-lag")
}
