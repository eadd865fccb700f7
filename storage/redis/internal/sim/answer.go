package sim

import (
	"cmp"
	"net"
	"strconv"
	"strings"
	"time"
)

// serve answers commands of a process.
func (s *sentinel) serve(link *end, commands [][]string, reply func([]any)) {
	replies := make([]any, len(commands))
	for i, args := range commands {
		replies[i] = s.command(args)
	}
	link.send(func() { reply(replies) })
}

const errNoMaster = replyError("ERR No such master with that name")

func (s *sentinel) command(args []string) any {
	switch name := strings.ToLower(args[0]); {
	case name == "ping":
		return "PONG"
	case name == "info":
		return "# Server\r\nredis_version:7.0.15\r\nredis_mode:sentinel\r\nrun_id:" + s.runID + "\r\n"
	case name != "sentinel" || len(args) < 2:
		return replyError("ERR unknown command '" + args[0] + "'")
	case strings.EqualFold(args[1], "myid"):
		return s.runID
	case strings.EqualFold(args[1], "is-master-down-by-addr") && len(args) == 6:
		return s.voteOn(args[2:])
	case len(args) != 3 || args[2] != s.w.cfg.Name:
		if strings.EqualFold(args[1], "get-master-addr-by-name") {
			return nil
		}
		return errNoMaster
	}
	return s.about(strings.ToLower(args[1]))
}

// voteOn answers IS-MASTER-DOWN-BY-ADDR from a process. With a new epoch and a candidate it is a
// vote, as from a sentinel.
func (s *sentinel) voteOn(args []string) any {
	about := s.primary
	epoch, err := strconv.ParseUint(args[2], 10, 64)
	if err != nil || about.addr != net.JoinHostPort(args[0], args[1]) {
		return []any{int64(0), "*", int64(0)}
	}
	down := int64(0)
	if about.subjectivelyDown && !s.tilted {
		down = 1
	}
	leader, leaderEpoch := s.vote(epoch, args[3])
	return []any{down, cmp.Or(leader, "*"), int64(leaderEpoch)}
}

// about answers a question about the primary.
func (s *sentinel) about(what string) any {
	switch what {
	case "get-master-addr-by-name":
		host, port, _ := net.SplitHostPort(s.current().addr)
		return []any{host, port}
	case "master":
		return s.describe(s.primary)
	case "replicas", "slaves":
		return s.describeAll(s.replicas)
	case "sentinels":
		return s.describeAll(s.others)
	}
	return replyError("ERR unknown subcommand '" + what + "'")
}

func (s *sentinel) describeAll(all []*instance) any {
	list := make([]any, len(all))
	for i, each := range all {
		list[i] = s.describe(each)
	}
	return list
}

// describe is addReplySentinelRedisInstance: names and values in turn.
func (s *sentinel) describe(i *instance) any {
	list := make([]string, 0, 48)
	add := func(name string, value any) { list = append(list, name, text(value)) }
	host, port, _ := net.SplitHostPort(i.addr)
	add("name", s.nameOf(i))
	add("ip", host)
	add("port", port)
	add("runid", i.runID)
	add("flags", s.flags(i))
	add("link-pending-commands", i.link.pending)
	add("link-refcount", 1)
	if i.kind == kindPrimary && s.failover.inProgress {
		add("failover-state", failoverNames[s.failover.state])
	}
	s.describeTimes(i, add)
	s.describeKind(i, add)
	return list
}

func (s *sentinel) nameOf(i *instance) string {
	switch i.kind {
	case kindPrimary:
		return s.w.cfg.Name
	case kindSentinel:
		return i.runID
	}
	return i.addr
}

func (s *sentinel) describeTimes(i *instance, add func(string, any)) {
	since := func(t time.Duration) int64 { return (s.w.now - t).Milliseconds() }
	if i.link.activePing != 0 {
		add("last-ping-sent", since(i.link.activePing))
	} else {
		add("last-ping-sent", 0)
	}
	add("last-ok-ping-reply", since(i.link.lastAvailable))
	add("last-ping-reply", since(i.link.lastPong))
	if i.subjectivelyDown {
		add("s-down-time", since(i.downSince))
	}
	if i.objectivelyDown {
		add("o-down-time", since(i.objectivelySince))
	}
	add("down-after-milliseconds", s.w.cfg.DownAfter.Milliseconds())
	if i.kind != kindSentinel {
		add("info-refresh", since(i.infoRefresh))
		add("role-reported", i.roleReported)
		add("role-reported-time", since(i.roleTime))
	}
}

func (s *sentinel) describeKind(i *instance, add func(string, any)) {
	switch i.kind {
	case kindPrimary:
		add("config-epoch", i.configEpoch)
		add("num-slaves", len(s.replicas))
		add("num-other-sentinels", len(s.others))
		add("quorum", s.w.cfg.Quorum)
		add("failover-timeout", s.w.cfg.FailoverTimeout.Milliseconds())
		add("parallel-syncs", s.w.cfg.ParallelSyncs)
	case kindReplica:
		status, host, port := "err", "?", "0"
		if i.masterLinkUp {
			status = "ok"
		}
		if i.masterAddr != "" {
			host, port, _ = net.SplitHostPort(i.masterAddr)
		}
		add("master-link-down-time", i.masterLinkDownTime.Milliseconds())
		add("master-link-status", status)
		add("master-host", host)
		add("master-port", port)
		add("slave-priority", i.priority)
		add("slave-repl-offset", i.offset)
		add("replica-announced", 1)
	case kindSentinel:
		leader := i.leader
		if leader == "" {
			leader = "?"
		}
		add("last-hello-message", (s.w.now - i.lastHello).Milliseconds())
		add("voted-leader", leader)
		add("voted-leader-epoch", i.leaderEpoch)
	}
}

// failoverNames are the names of failover states in SENTINEL MASTER.
var failoverNames = map[failoverState]string{
	failoverNone: "none", failoverWaitStart: "wait_start", failoverSelect: "select_slave",
	failoverSendSlaveOfNoOne: "send_slaveof_noone", failoverWaitPromotion: "wait_promotion",
	failoverReconfigure: "reconf_slaves", failoverUpdate: "update_config",
}

// flags returns the flags of an instance in Sentinel's notation.
func (s *sentinel) flags(i *instance) string {
	f := &s.failover
	var names []string
	for _, flag := range []struct {
		name string
		set  bool
	}{
		{"s_down", i.subjectivelyDown},
		{"o_down", i.objectivelyDown},
		{"master", i.kind == kindPrimary},
		{"slave", i.kind == kindReplica},
		{"sentinel", i.kind == kindSentinel},
		{"disconnected", i.link.disconnected},
		{"master_down", i.reportsDown},
		{"failover_in_progress", i.kind == kindPrimary && f.inProgress},
		{"promoted", f.promoted == i},
		{"reconf_sent", i.reconfigured == reconfSent},
		{"reconf_inprog", i.reconfigured == reconfInProgress},
		{"reconf_done", i.reconfigured == reconfDone},
	} {
		if flag.set {
			names = append(names, flag.name)
		}
	}
	return strings.Join(names, ",")
}
