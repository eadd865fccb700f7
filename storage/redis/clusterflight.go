package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"

	goredis "github.com/redis/go-redis/v9"
)

// processCluster sends a command to the server that has the slot of its key, together with others to
// that server. The cluster client takes over what that server refuses or, if it may be repeated, does
// not answer: it follows slots and finds the primary that is there now.
func (b *backend) processCluster(ctx context.Context, cluster *goredis.ClusterClient, cmd goredis.Cmder) error {
	if server := serverOf(ctx, cluster, cmd); server != nil {
		if err := b.share(ctx, &job{server: server, cmds: []goredis.Cmder{cmd}}); err != nil {
			return err
		}
		if err := cmd.Err(); ctx.Err() != nil || !elsewhere(cmd, err) {
			return err
		}
	}
	if err := b.begin(ctx); err != nil {
		return err
	}
	return cluster.Process(ctx, cmd)
}

// serverOf returns the primary of the key of a command, nil if there is no key or no primary.
func serverOf(ctx context.Context, cluster *goredis.ClusterClient, cmd goredis.Cmder) *goredis.Client {
	at := 1
	switch name := cmd.Name(); {
	case name == "eval" || name == "evalsha":
		at = 3
	case name == "scan" || !slices.Contains(aboutKeys, name):
		return nil
	}
	server, err := cluster.MasterForKey(ctx, fmt.Sprint(cmd.Args()[at]))
	if err != nil {
		return nil
	}
	return server
}

// refusals are what a server says that does not have a slot, or does not have it now. The command had
// no effect.
var refusals = []string{"MOVED", "ASK", "READONLY", "TRYAGAIN", "CLUSTERDOWN", "LOADING"}

// elsewhere reports whether a command may be sent again, to another server.
func elsewhere(cmd goredis.Cmder, err error) bool {
	switch {
	case err == nil || errors.Is(err, errUnvouched):
		return false
	case isReply(err):
		return slices.ContainsFunc(refusals, func(said string) bool { return goredis.HasErrorPrefix(err, said) })
	default:
		return !cmd.NoRetry() || errors.Is(err, goredis.ErrClosed) // that client sends nothing any more
	}
}
