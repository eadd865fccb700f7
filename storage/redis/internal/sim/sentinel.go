package sim

import (
	"fmt"
	"slices"
	"time"
)

// sentinel is one Sentinel that watches one primary with its replicas. The rules and their
// names are those of sentinel.c of Redis 7.0; "primary" is its master, "replica" its slave.
type sentinel struct {
	*node
	runID string
	epoch uint64 // current_epoch

	primary  *instance
	replicas []*instance // by address
	others   []*instance // the other sentinels
	failover failover

	tilted   bool
	tiltTime time.Duration
	lastTick time.Duration
}

func newSentinel(w *World, i int) *sentinel {
	s := &sentinel{node: w.newNode(fmt.Sprintf("S%d", i+1), fmt.Sprintf("10.0.1.%d:26379", i+1))}
	for range 5 {
		s.runID += fmt.Sprintf("%08x", s.rnd.Uint32())
	}
	s.node.crashed = func() {}
	s.node.restarted = s.restart
	return s
}

// begin starts a sentinel that lists all servers and sentinels.
func (s *sentinel) begin() {
	s.primary = s.newInstance(kindPrimary, s.w.servers[0].node)
	for _, other := range s.w.servers[1:] {
		s.replicas = append(s.replicas, s.newInstance(kindReplica, other.node))
	}
	for _, other := range s.w.sentinels {
		if other != s {
			i := s.newInstance(kindSentinel, other.node)
			i.runID = other.runID
			s.others = append(s.others, i)
		}
	}
	s.lastTick = s.w.now
	s.tick()
}

// restart starts a sentinel with the contents of its configuration: the servers and sentinels,
// the epochs, and its last vote.
func (s *sentinel) restart() {
	was := s.primary
	s.primary = s.newInstance(kindPrimary, was.node)
	s.primary.configEpoch, s.primary.leaderEpoch = was.configEpoch, was.leaderEpoch
	for _, list := range [][]*instance{s.replicas, s.others} {
		for i, known := range list {
			list[i] = s.newInstance(known.kind, known.node)
			list[i].runID = known.runID
		}
	}
	if s.current() != was.node { // the interrupted failover had promoted it
		s.switchTo(s.current())
	}
	s.failover, s.tilted, s.lastTick = failover{}, false, s.w.now
	s.tick()
}

// tick is sentinelTimer. Its frequency changes all the time so that sentinels that began together
// do not stay together.
func (s *sentinel) tick() {
	delta := s.w.now - s.lastTick
	s.lastTick = s.w.now
	if delta > s.w.cfg.TiltAfter {
		s.tilted, s.tiltTime = true, s.w.now
		s.w.log("%s +tilt", s.name)
	}
	s.handle(s.primary)
	for _, i := range slices.Concat(s.replicas, s.others) {
		s.handle(i)
	}
	if s.failover.state == failoverUpdate {
		s.switchTo(s.failover.promoted.node)
	}
	s.after(time.Second/time.Duration(10+s.rnd.IntN(10))+time.Duration(s.rnd.Int64N(int64(time.Millisecond))), s.tick)
}

// handle is sentinelHandleRedisInstance.
func (s *sentinel) handle(i *instance) {
	s.reconnect(i)
	s.sendPeriodic(i)
	if s.tilted {
		if s.w.now-s.tiltTime < 30*s.w.cfg.PingPeriod {
			return
		}
		s.tilted = false
		s.w.log("%s -tilt", s.name)
	}
	s.checkSubjectivelyDown(i)
	if i != s.primary {
		return
	}
	s.checkObjectivelyDown()
	if s.startFailoverIfNeeded() {
		s.askOthers(true)
	}
	s.goOnWithFailover()
	s.askOthers(false)
}

// find returns the instance of a server.
func (s *sentinel) find(n *node) *instance {
	if s.primary.node == n {
		return s.primary
	}
	for _, i := range s.replicas {
		if i.node == n {
			return i
		}
	}
	return nil
}

// current returns the server that the sentinel names as the primary: the promoted one as soon as
// it is promoted.
func (s *sentinel) current() *node {
	if s.failover.inProgress && s.failover.promoted != nil && s.failover.state >= failoverReconfigure {
		return s.failover.promoted.node
	}
	return s.primary.node
}

// switchTo is sentinelResetMasterAndChangeAddress: the sentinel resets its state of the servers,
// and the old primary becomes one of the replicas.
func (s *sentinel) switchTo(n *node) {
	s.w.log("%s +switch-master %s %s epoch %d", s.name, s.primary.name, n.name, s.primary.configEpoch)
	var rest []*node
	for _, i := range append(s.replicas, s.primary) {
		if i.node != n {
			rest = append(rest, i.node)
		}
		i.hangUp()
	}
	was := s.primary
	s.primary = s.newInstance(kindPrimary, n)
	s.primary.configEpoch, s.primary.leaderEpoch = was.configEpoch, was.leaderEpoch
	s.primary.infoRefresh, s.primary.lastPublished = was.infoRefresh, was.lastPublished
	s.primary.link.lastReconnect = was.link.lastReconnect
	s.replicas = nil
	for _, n := range rest {
		s.replicas = append(s.replicas, s.newInstance(kindReplica, n))
	}
	s.failover = failover{}
}
