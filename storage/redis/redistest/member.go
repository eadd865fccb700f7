package redistest

import (
	"context"
	"slices"
	"strconv"
	"strings"
)

// member is what one node of a cluster lists about another, or about itself.
type member struct {
	master    string // whose replica it is, "-" for a master
	epoch     int
	connected bool
	slots     []string // ranges
}

// view parses CLUSTER NODES. The result is by address.
func (s *Server) view(ctx context.Context) (map[string]member, error) {
	text, err := s.client.ClusterNodes(ctx).Result()
	if err != nil {
		return nil, err
	}
	members := map[string]member{}
	for line := range strings.Lines(text) {
		// id address@bus flags master ping-sent pong-received epoch link slot ...
		f := strings.Fields(line)
		if len(f) < 8 || strings.Contains(f[2], "handshake") {
			continue
		}
		addr, _, _ := strings.Cut(f[1], "@")
		m := member{master: f[3], connected: f[7] == "connected" && !strings.Contains(f[2], "fail")}
		m.epoch, _ = strconv.Atoi(f[6])
		for _, slots := range f[8:] {
			if !strings.HasPrefix(slots, "[") { // the others are moving
				m.slots = append(m.slots, slots)
			}
		}
		members[addr] = m
	}
	return members, nil
}

func (m member) has(slot int) bool {
	return slices.ContainsFunc(m.slots, func(s string) bool {
		first, last, several := strings.Cut(s, "-")
		low, _ := strconv.Atoi(first)
		high, _ := strconv.Atoi(last)
		if !several {
			high = low
		}
		return low <= slot && slot <= high
	})
}
