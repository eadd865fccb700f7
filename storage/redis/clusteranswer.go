package redis

import (
	"context"
	"maps"
	"net"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// ringAnswer is what one server says: the primaries with the replicas that are up, and
// what it says about its own replicas.
type ringAnswer struct {
	primaries map[string]map[string]bool
	info      string // INFO replication, empty if that is denied
}

// askNode asks with the command with which the client itself finds the servers: the
// addresses are the same ones, and it takes no further right. No answer is the zero one.
func askNode(ctx context.Context, server *goredis.Client) (a ringAnswer) {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	slots := goredis.NewClusterSlotsCmd(ctx, "cluster", "slots")
	info := goredis.NewStringCmd(ctx, "info", "replication")
	together(ctx, server, slots, info)
	if slots.Err() != nil {
		return a
	}
	a = ringAnswer{primaries: map[string]map[string]bool{}, info: info.Val()}
	for _, s := range slots.Val() { // the primary, then those of its replicas that are up
		primary := ""
		for i, node := range s.Nodes {
			addr := nodeAddr(node.Addr, server.Options().Addr)
			switch {
			case i > 0:
				a.primaries[primary][addr] = true
			case a.primaries[addr] == nil:
				a.primaries[addr] = map[string]bool{}
				fallthrough
			default:
				primary = addr
			}
		}
	}
	return a
}

// nodeAddr is the address at which the client dials a server that another one names: on the
// machine of that one, if the name is good on that machine only.
func nodeAddr(addr, source string) string {
	host, port, err := net.SplitHostPort(addr)
	sourceHost, sourcePort, _ := net.SplitHostPort(source)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() && !isLoopback(sourceHost) {
		host = sourceHost
	}
	if port == "0" { // it is reached over TLS only
		port = sourcePort
	}
	return net.JoinHostPort(host, port)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback() || strings.EqualFold(host, "localhost")
}

// majority are those whom more than half of the primaries call primaries. The word of a
// server counts that calls itself one, and the largest number of primaries that one of them
// knows is what half is taken of.
func majority(answers map[string]ringAnswer) map[string]bool {
	votes, most := map[string]int{}, 0
	for addr, a := range answers {
		if a.primaries[addr] == nil {
			continue
		}
		most = max(most, len(a.primaries))
		for primary := range a.primaries {
			votes[primary]++
		}
	}
	maps.DeleteFunc(votes, func(_ string, n int) bool { return 2*n <= most })
	named := map[string]bool{}
	for primary := range votes {
		named[primary] = true
	}
	return named
}
