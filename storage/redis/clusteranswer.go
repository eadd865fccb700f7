package redis

import (
	"context"
	"maps"
	"net"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// ringAnswer is the answer of one server: the primaries with the replicas that are up, and its
// report about its own replicas.
type ringAnswer struct {
	primaries map[string]map[string]bool
	info      string // INFO replication, empty if it is denied
}

// askNode sends the command with which the client itself finds the servers: the addresses are the
// same, and it needs no further permission. A server that does not answer gives the zero
// ringAnswer.
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

// nodeAddr returns the address at which the client dials a server that another one, source,
// names: a loopback address is only valid on the machine of source.
func nodeAddr(addr, source string) string {
	host, port, err := net.SplitHostPort(addr)
	sourceHost, sourcePort, _ := net.SplitHostPort(source)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() && !isLoopback(sourceHost) {
		host = sourceHost
	}
	if port == "0" { // the server accepts TLS only, on the port of source
		port = sourcePort
	}
	return net.JoinHostPort(host, port)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback() || strings.EqualFold(host, "localhost")
}

// majority returns the servers that more than half of the primaries list as primaries. Only
// answers of servers that list themselves count. The number of primaries is the largest in any
// answer.
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
