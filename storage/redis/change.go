package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"gatehouse.example/storage"
)

// once is a command that is sent at most once. The cluster client repeats commands after network
// errors whatever MaxRetries is; a command that writes must not be repeated.
type once struct{ *goredis.Cmd }

// NoRetry implements goredis.Cmder.
func (once) NoRetry() bool { return true }

// change is a command that changes something under one key.
type change struct {
	what, key   string
	cmd         *goredis.Cmd
	listed      []storage.Listing // entries to be added first
	forgettable bool
	answersOK   bool // cmd is no script: it answers OK when it has changed something
	// named are the replicas that have to confirm the change when not all servers follow: WAIT
	// might count one that begins to follow again in place of one that has just stopped.
	named []string
	// script makes cmd if the command depends on the server that it goes to.
	script func(place) *goredis.Cmd
}

// place describes the server that a change goes to.
type place struct {
	replicated bool // replicas have to confirm the change
	// lineage is that of the server, valid if known is set. Otherwise the script compares it on
	// the server.
	lineage storage.Lineage
	known   bool
}

// send sends a change once. Entries, the command and the wait for a replica are one round
// trip on one connection: WAIT counts what its own connection wrote. Only in a cluster
// entries are sent before, because they may live on other servers.
func (b *backend) send(ctx context.Context, c *change) error {
	if b.group != nil {
		return b.sendGroup(ctx, c)
	}
	cluster, ok := b.client.(*goredis.ClusterClient)
	if !ok {
		server := b.client.(*goredis.Client)
		c.at(place{replicated: !c.forgettable && b.standby.needed()})
		return b.sendTo(ctx, server, c, b.standby.confirmations(server, c))
	}
	for _, l := range c.listed {
		if err := b.IndexAdd(ctx, l.Index, l.Entry); err != nil {
			return err
		}
	}
	c.listed = nil
	c.at(place{replicated: !c.forgettable && b.standby.needed()})
	if c.forgettable || !b.standby.needed() {
		return writeError(c.what, b.process(ctx, once{c.cmd}))
	}
	return b.follow(ctx, cluster, c)
}

// at makes the command for a server.
func (c *change) at(p place) {
	if c.script != nil {
		c.cmd = c.script(p)
	}
}

// sendGroup sends a change to the trusted primary, and checks afterwards that this was the only
// one: the answer may be that of a server that had been replaced.
func (b *backend) sendGroup(ctx context.Context, c *change) error {
	v, err := b.group.primary(ctx)
	need := 0
	if err == nil && !c.forgettable {
		need, v, err = b.group.confirmations(ctx, v)
	}
	if err != nil {
		return writeError(c.what, err)
	}
	c.at(place{replicated: need > 0, lineage: storage.Lineage(v.Lineage), known: true})
	if need > 0 && need < v.Listed {
		c.named = v.Following
	}
	err = b.sendTo(ctx, v.client, c, need)
	if err != nil && !isReply(err) && !errors.Is(err, storage.ErrNotFound) { // that nothing is there is an answer too
		b.group.lookAgain()
		return err
	}
	if doubt := b.group.vouch(ctx, v); doubt != nil {
		return fmt.Errorf("storage/redis: %s: %w: %w", c.what, storage.ErrUncertain, doubt)
	}
	return err
}

// sendTo sends a change to one server, and waits until need replicas have confirmed it.
func (b *backend) sendTo(ctx context.Context, server *goredis.Client, c *change, need int, first ...goredis.Cmder) error {
	cmds := append(make([]goredis.Cmder, 0, len(first)+len(c.listed)+2), first...) // and a WAIT
	for _, l := range c.listed {
		cmds = append(cmds, once{indexAdd(ctx, l.Index, l.Entry)})
	}
	before := len(cmds)
	cmds = append(cmds, once{c.cmd})
	j := &job{server: server, cmds: cmds, need: need, named: c.named}
	if err := b.share(ctx, j); err != nil {
		return writeError(c.what, err)
	}
	if err := c.cmd.Err(); err != nil {
		return writeError(c.what, err)
	}
	for _, listed := range cmds[:before] {
		if err := listed.Err(); err != nil { // the item is there, its entry is not
			return fmt.Errorf("storage/redis: %s: %w: %w", c.what, storage.ErrUncertain, err)
		}
	}
	if _, lost := c.found(); lost {
		return nil
	}
	if err := j.confirmed.err(); err != nil {
		b.standby.lookAgain()
		return fmt.Errorf("storage/redis: %s: %w: %w", c.what, storage.ErrUncertain, err)
	}
	return nil
}

// found returns what a script has found in place of what it should replace.
func (c *change) found() (value string, found bool) {
	value, found = c.cmd.Val().(string)
	return value, found && !c.answersOK
}

// together sends commands in one round trip. Each has its own outcome. If the server refuses the
// connection, for example because of a wrong password, that is the outcome of all: the client
// would leave the commands without an error.
func together(ctx context.Context, server goredis.UniversalClient, cmds ...goredis.Cmder) {
	pipe := server.Pipeline()
	_ = pipe.BatchProcess(ctx, cmds...) // only queued
	_, err := pipe.Exec(ctx)
	if err == nil || slices.ContainsFunc(cmds, func(cmd goredis.Cmder) bool { return cmd.Err() != nil }) {
		return
	}
	for _, cmd := range cmds {
		cmd.SetErr(certain(err))
	}
}

// redirects bounds how often a change follows a slot to another server.
const redirects = 4

// follow sends a change to the server that has its slot. The cluster client would follow slots
// too, but send WAIT to any server.
func (b *backend) follow(ctx context.Context, cluster *goredis.ClusterClient, c *change) error {
	server, err := cluster.MasterForKey(ctx, c.key)
	if err != nil {
		return fmt.Errorf("storage/redis: %s: %w", c.what, err)
	}
	var before []goredis.Cmder
	for range redirects {
		err = b.sendTo(ctx, server, c, b.standby.confirmations(server, c), before...)
		addr, ask := redirected(err)
		if addr == "" {
			return err
		}
		before = nil
		if ask {
			before = []goredis.Cmder{once{goredis.NewCmd(ctx, "asking")}}
		} else {
			cluster.ReloadState(ctx)
		}
		if server, err = primaryAt(ctx, cluster, addr); err != nil {
			// Nothing was written. When the change is sent again, it may find the new primary.
			return fmt.Errorf("storage/redis: %s: %w: %w", c.what, storage.ErrUncertain, err)
		}
	}
	return err
}

// redirected returns the server to which a reply redirects: for good (MOVED), or once (ASK).
func redirected(err error) (addr string, ask bool) {
	var reply goredis.Error
	if !errors.As(err, &reply) || !goredis.HasErrorPrefix(reply, "MOVED") && !goredis.HasErrorPrefix(reply, "ASK") {
		return "", false
	}
	fields := strings.Fields(reply.Error())
	return fields[len(fields)-1], fields[0] == "ASK"
}

// errNoSlot is the error about a server to which the first of its slots is still moving.
var errNoSlot = errors.New("none of the slots is its own yet")

// primaryAt returns the client of the primary at an address.
func primaryAt(ctx context.Context, cluster *goredis.ClusterClient, addr string) (*goredis.Client, error) {
	found := make(chan *goredis.Client, 1)
	err := cluster.ForEachMaster(ctx, func(_ context.Context, server *goredis.Client) error {
		if server.Options().Addr == addr {
			found <- server
		}
		return nil
	})
	select {
	case server := <-found:
		return server, nil
	default:
		return nil, fmt.Errorf("no primary is known at %s: %w", addr, cmp.Or(err, errNoSlot))
	}
}

// within returns a part of the time that ctx allows, so that time is left for the reply, and at
// least a millisecond: WAIT takes zero for no limit.
func within(ctx context.Context, at time.Duration) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		at = min(at, time.Until(deadline)*3/4)
	}
	return max(at, time.Millisecond)
}

func milliseconds(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }
