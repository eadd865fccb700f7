package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// waitTime is how long replicas may take to confirm a write. It is less than commandTime, so that
// the reply to the write arrives before the command times out.
const waitTime = 500 * time.Millisecond

// confirmation waits, behind a write on its connection, until replicas have it. A nil one does
// not wait.
type confirmation struct {
	need int
	wait *goredis.Cmd
	// named are replicas that have to be among them. WAIT does not report which replicas it
	// counted, so the primary is asked for offsets: before the wait for its own, which is that of
	// the write or later, and after it for those of the replicas.
	named         []string
	before, after *goredis.StringCmd
}

func newConfirmation(ctx context.Context, need int, named []string) *confirmation {
	if need == 0 {
		return nil
	}
	c := &confirmation{need: need, named: named, wait: goredis.NewCmd(ctx, "wait", strconv.Itoa(need), milliseconds(within(ctx, waitTime)))}
	if len(named) > 0 {
		c.before, c.after = goredis.NewStringCmd(ctx, "info", "replication"), goredis.NewStringCmd(ctx, "info", "replication")
	}
	return c
}

func (c *confirmation) commands() []goredis.Cmder {
	switch {
	case c == nil:
		return nil
	case c.before == nil:
		return []goredis.Cmder{once{c.wait}}
	}
	return []goredis.Cmder{c.before, once{c.wait}, c.after}
}

// err returns which replicas have not confirmed the write, nil if all have.
func (c *confirmation) err() error {
	if c == nil {
		return nil
	}
	if replicas, err := c.wait.Int(); err != nil || replicas < c.need {
		return fmt.Errorf("%d of %d replicas have confirmed it: %v", replicas, c.need, err)
	}
	if c.before == nil {
		return nil
	}
	if err := errors.Join(c.before.Err(), c.after.Err()); err != nil {
		return err
	}
	reached := map[string]int64{}
	for line := range strings.Lines(c.after.Val()) {
		if replica, ok := replicaOf(line); ok {
			reached[replica.Addr] = replica.Offset
		}
	}
	for _, addr := range c.named {
		if reached[addr] < offsetOf(c.before.Val()) {
			return fmt.Errorf("%s has not confirmed it", addr)
		}
	}
	return nil
}

// offsetOf returns the offset of a primary from its INFO.
func offsetOf(info string) int64 {
	offset, _ := strconv.ParseInt(infoField(info, "master_repl_offset"), 10, 64)
	return offset
}
