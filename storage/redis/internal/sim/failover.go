package sim

import (
	"cmp"
	"slices"
	"time"
)

// failover is a failover that a sentinel attempts.
type failover struct {
	inProgress       bool
	state            failoverState
	epoch            uint64
	started, changed time.Duration
	promoted         *instance
}

type failoverState int

const (
	failoverNone failoverState = iota
	failoverWaitStart
	failoverSelect
	failoverSendSlaveOfNoOne
	failoverWaitPromotion
	failoverReconfigure
	failoverUpdate
)

// The times of sentinel.c: SENTINEL_MAX_DESYNC, SENTINEL_ELECTION_TIMEOUT and
// SENTINEL_SLAVE_RECONF_TIMEOUT.
const (
	maxDesync     = time.Second
	electionTime  = 10 * time.Second
	reconfTimeout = 10 * time.Second
)

func (f *failover) step(s *sentinel, to failoverState) {
	f.state, f.changed = to, s.w.now
}

// vote is sentinelVoteLeader.
func (s *sentinel) vote(epoch uint64, candidate string) (leader string, leaderEpoch uint64) {
	s.epoch = max(s.epoch, epoch)
	p := s.primary
	if p.leaderEpoch < epoch && s.epoch <= epoch {
		p.leader, p.leaderEpoch = candidate, s.epoch
		s.w.log("%s +vote-for-leader %s %d", s.name, s.w.sentinelName(candidate), epoch)
		if candidate != s.runID {
			s.failover.started = s.w.now + s.desync()
		}
	}
	return p.leader, p.leaderEpoch
}

func (w *World) sentinelName(runID string) string {
	for _, s := range w.sentinels {
		if s.runID == runID {
			return s.name
		}
	}
	return "nobody"
}

func (s *sentinel) desync() time.Duration { return time.Duration(s.rnd.Int64N(int64(maxDesync))) }

// elected is sentinelGetLeader: it reports whether this sentinel leads in an epoch.
func (s *sentinel) elected(epoch uint64) bool {
	votes := map[string]int{}
	winner, most := "", 0
	count := func(leader string) {
		if votes[leader]++; votes[leader] > most {
			winner, most = leader, votes[leader]
		}
	}
	for _, other := range s.others {
		if other.leader != "" && other.leaderEpoch == s.epoch {
			count(other.leader)
		}
	}
	mine, at := s.vote(epoch, cmp.Or(winner, s.runID))
	if mine != "" && at == epoch {
		count(mine)
	}
	voters := len(s.others) + 1
	return winner == s.runID && most >= voters/2+1 && most >= s.w.cfg.Quorum
}

// startFailoverIfNeeded is sentinelStartFailoverIfNeeded.
func (s *sentinel) startFailoverIfNeeded() bool {
	f := &s.failover
	if !s.primary.objectivelyDown || f.inProgress || f.started != 0 && s.w.now-f.started < 2*s.w.cfg.FailoverTimeout {
		return false
	}
	s.startFailover()
	return true
}

func (s *sentinel) startFailover() {
	s.epoch++
	s.failover = failover{inProgress: true, epoch: s.epoch, started: s.w.now + s.desync()}
	s.failover.step(s, failoverWaitStart)
	s.w.log("%s +try-failover %s epoch %d", s.name, s.primary.name, s.epoch)
}

func (s *sentinel) abortFailover(why string) {
	s.w.log("%s -failover-abort-%s", s.name, why)
	s.failover = failover{started: s.failover.started, epoch: s.failover.epoch, changed: s.w.now}
}

// goOnWithFailover is sentinelFailoverStateMachine.
func (s *sentinel) goOnWithFailover() {
	f := &s.failover
	switch f.state {
	case failoverWaitStart:
		s.waitStart()
	case failoverSelect:
		if f.promoted = s.candidate(); f.promoted == nil {
			s.abortFailover("no-good-slave")
			return
		}
		s.w.log("%s +selected-slave %s", s.name, f.promoted.name)
		f.step(s, failoverSendSlaveOfNoOne)
	case failoverSendSlaveOfNoOne:
		if f.promoted.link.disconnected || !f.promoted.slaveOf(nil) {
			s.abortIfLate("slave-timeout")
			return
		}
		f.step(s, failoverWaitPromotion)
	case failoverWaitPromotion:
		s.abortIfLate("slave-timeout")
	case failoverReconfigure:
		s.reconfigureNext()
		s.detectEnd()
	}
}

func (s *sentinel) abortIfLate(why string) {
	if s.w.now-s.failover.changed > s.w.cfg.FailoverTimeout {
		s.abortFailover(why)
	}
}

func (s *sentinel) waitStart() {
	f := &s.failover
	switch {
	case s.elected(f.epoch):
		s.w.log("%s +elected-leader epoch %d", s.name, f.epoch)
		f.step(s, failoverSelect)
	case s.w.now-f.started > min(electionTime, s.w.cfg.FailoverTimeout):
		s.abortFailover("not-elected")
	}
}

// candidate is sentinelSelectSlave. A primary that has returned reports no offset, and no link
// that is down: it ranks with a replica that has no data.
func (s *sentinel) candidate() *instance {
	longest := 10 * s.w.cfg.DownAfter
	valid := 3 * s.w.cfg.InfoPeriod
	if s.primary.subjectivelyDown {
		longest += s.w.now - s.primary.downSince
		valid = 5 * s.w.cfg.PingPeriod
	}
	var good []*instance
	for _, i := range s.replicas {
		if i.subjectivelyDown || i.link.disconnected || i.priority == 0 ||
			s.w.now-i.link.lastAvailable > 5*s.w.cfg.PingPeriod ||
			s.w.now-i.infoRefresh > valid || i.masterLinkDownTime > longest {
			continue
		}
		good = append(good, i)
	}
	if len(good) == 0 {
		return nil
	}
	return slices.MinFunc(good, func(a, b *instance) int {
		return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(b.offset, a.offset), cmp.Compare(a.runID, b.runID))
	})
}

// reconfigureNext is sentinelFailoverReconfNextSlave.
func (s *sentinel) reconfigureNext() {
	busy := 0
	for _, i := range s.replicas {
		if i.reconfigured == reconfSent || i.reconfigured == reconfInProgress {
			busy++
		}
	}
	for _, i := range s.replicas {
		if busy >= s.w.cfg.ParallelSyncs {
			return
		}
		if i.reconfigured == reconfSent && s.w.now-i.reconfiguredAt > reconfTimeout {
			i.reconfigured = reconfNone
		}
		if i == s.failover.promoted || i.reconfigured != reconfNone || i.link.disconnected {
			continue
		}
		if i.slaveOf(s.failover.promoted.node) {
			i.reconfigured, i.reconfiguredAt = reconfSent, s.w.now
			busy++
		}
	}
}

// detectEnd is sentinelFailoverDetectEnd.
func (s *sentinel) detectEnd() {
	f := &s.failover
	if f.promoted.subjectivelyDown {
		return
	}
	late := s.w.now-f.changed > s.w.cfg.FailoverTimeout
	for _, i := range s.replicas {
		if i != f.promoted && i.reconfigured != reconfDone && !i.subjectivelyDown && !late {
			return
		}
	}
	for _, i := range s.replicas {
		if late && i != f.promoted && i.reconfigured == reconfNone && !i.link.disconnected {
			i.slaveOf(f.promoted.node)
		}
	}
	s.w.log("%s +failover-end", s.name)
	f.step(s, failoverUpdate)
}
