package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"gatehouse.example/storage/redis/internal/failover"
)

// recover has servers follow each other as they should. If the primary lacks acknowledged writes
// that another server still has, it is filled from that server. A former primary is made to
// follow soon, because without it there may be no replica that confirms writes. The sentinels are
// not involved: a failover that several processes force at once may leave them divided for good.
func (g *group) recover(ctx context.Context, look failover.Look, step failover.Step) {
	if step.Refill != "" && time.Since(g.asked) >= refillTime {
		g.asked = time.Now()
		g.report("a server was promoted that lacks acknowledged writes: it is filled anew from the one that has them")
		if err := g.refill(ctx, look, step); err != nil {
			g.report(fmt.Sprintf("the primary could not be filled anew: %v", err))
		}
	}
	if len(step.Apart) > 0 && time.Since(g.asked) >= refillTime {
		g.asked = time.Now()
		_ = g.ask(ctx, look.Servers, step.Apart...)
		if addr, mark := g.watch.Returned(look); addr != "" {
			_ = follow(ctx, g.at(addr), mark, step.View.Primary) // if it fails, the sentinels have it follow
		}
	}
	if step.Finish {
		_ = g.at(step.View.Primary).Do(ctx, "replicaof", "no", "one").Err() // if it fails, the next look repeats it
	}
}

// errMarked is the error when another process has trusted and marked the server meanwhile.
var errMarked = errors.New("its mark has changed")

// refill has a refused primary filled from the server that has more. If that one was told to
// follow another server, it becomes a primary first: otherwise it would be filled itself, and
// lose what it has more.
func (g *group) refill(ctx context.Context, look failover.Look, step failover.Step) error {
	if source := look.Servers[step.Refill]; !source.Primary {
		if err := follow(ctx, g.at(step.Refill), source.Mark, noOne); err != nil {
			return err
		}
	}
	return follow(ctx, g.at(step.View.Primary), step.From, step.Refill)
}

// noOne is the address that a server follows to become a primary (REPLICAOF NO ONE).
const noOne = "no:one"

// follow has a server follow the one at an address, provided that it still has a mark. A server
// that is filled has another mark, and a process that trusts a server gives it another one first.
func follow(ctx context.Context, server *goredis.Client, mark failover.Mark, addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	return server.Watch(ctx, func(tx *goredis.Tx) error {
		is, err := tx.Get(ctx, termKey).Result()
		if unlessNil(err) != nil {
			return err
		}
		if is != mark.String() {
			return errMarked
		}
		// MULTI has its reply first: without it, REPLICAOF would be carried out on no condition.
		if err := tx.Do(ctx, "multi").Err(); err != nil {
			return err
		}
		queued := tx.Do(ctx, "replicaof", host, port).Err()
		switch done := tx.Do(ctx, "exec").Err(); {
		case queued != nil:
			return queued
		case errors.Is(done, goredis.Nil):
			return errMarked
		default:
			return done
		}
	}, termKey)
}
