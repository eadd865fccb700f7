package redis

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"gatehouse.example/storage/redis/internal/failover"
)

// server asks a server about itself.
func (g *group) server(ctx context.Context, addr string) (failover.Server, error) {
	info := goredis.NewStringCmd(ctx, "info", "replication")
	mark := goredis.NewStringCmd(ctx, "get", termKey)
	together(ctx, g.at(addr), info, mark)
	if err := errors.Join(info.Err(), unlessNil(mark.Err())); err != nil {
		return failover.Server{}, err
	}
	branched, _ := strconv.ParseInt(infoField(info.Val(), "second_repl_offset"), 10, 64)
	follows := ""
	if host := infoField(info.Val(), "master_host"); host != "" {
		follows = net.JoinHostPort(host, infoField(info.Val(), "master_port"))
	}
	server := failover.Server{
		Primary: infoField(info.Val(), "role") == "master",
		Lineage: infoField(info.Val(), "master_replid"),
		Before:  infoField(info.Val(), "master_replid2"),
		Offset:  offsetOf(info.Val()), Branched: branched,
		Follows: follows, Linked: infoField(info.Val(), "master_link_status") == "up",
		Mark: failover.ParseMark(mark.Val()),
	}
	for line := range strings.Lines(info.Val()) {
		if replica, ok := replicaOf(line); ok {
			server.Replicas = append(server.Replicas, replica)
		}
	}
	return server, nil
}

func unlessNil(err error) error {
	if errors.Is(err, goredis.Nil) {
		return nil
	}
	return err
}

// replicaOf reads a line of INFO replication such as
// slave0:ip=192.0.2.1,port=6379,state=online,offset=1,lag=0.
func replicaOf(line string) (failover.Replica, bool) {
	name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
	digits, ok := strings.CutPrefix(name, "slave")
	if _, err := strconv.Atoi(digits); !ok || err != nil {
		return failover.Replica{}, false
	}
	fields := map[string]string{}
	for field := range strings.SplitSeq(value, ",") {
		key, value, _ := strings.Cut(field, "=")
		fields[key] = value
	}
	lag, err := strconv.Atoi(fields["lag"])
	offset, _ := strconv.ParseInt(fields["offset"], 10, 64)
	online := err == nil && fields["state"] == "online"
	return failover.Replica{Addr: net.JoinHostPort(fields["ip"], fields["port"]), Online: online, Lag: lag, Offset: offset}, true
}
