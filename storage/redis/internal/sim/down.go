package sim

import "time"

// checkSubjectivelyDown is sentinelCheckSubjectivelyDown.
func (s *sentinel) checkSubjectivelyDown(i *instance) {
	l, now := &i.link, s.w.now
	var silent time.Duration
	switch {
	case l.activePing != 0:
		silent = now - l.activePing
	case l.disconnected:
		silent = now - l.lastAvailable
	}
	half := s.w.cfg.DownAfter / 2
	if l.commands != nil && now-l.commandsSince > minReconnect && l.activePing != 0 &&
		now-l.activePing > half && now-l.lastPong > half {
		i.close(&l.commands)
	}
	if l.messages != nil && now-l.lastActivity > 3*s.w.cfg.PublishPeriod {
		i.close(&l.messages)
	}
	wrongRole := i.kind == kindPrimary && i.roleReported == "slave" &&
		now-i.roleTime > s.w.cfg.DownAfter+2*s.w.cfg.InfoPeriod
	switch down := silent > s.w.cfg.DownAfter || wrongRole; {
	case down && !i.subjectivelyDown:
		i.subjectivelyDown, i.downSince = true, now
		s.w.log("%s +sdown %s", s.name, i.name)
	case !down && i.subjectivelyDown:
		i.subjectivelyDown = false
		s.w.log("%s -sdown %s", s.name, i.name)
	}
}

// checkObjectivelyDown is sentinelCheckObjectivelyDown.
func (s *sentinel) checkObjectivelyDown() {
	p := s.primary
	votes := 1
	for _, other := range s.others {
		if other.reportsDown {
			votes++
		}
	}
	switch down := p.subjectivelyDown && votes >= s.w.cfg.Quorum; {
	case down && !p.objectivelyDown:
		p.objectivelyDown, p.objectivelySince = true, s.w.now
		s.w.log("%s +odown %s", s.name, p.name)
	case !down:
		p.objectivelyDown = false
	}
}

// askOthers is sentinelAskMasterStateToOtherSentinels: in a failover it also asks for votes.
func (s *sentinel) askOthers(force bool) {
	for _, other := range s.others {
		since := s.w.now - other.lastAnswer
		if since > 5*s.w.cfg.AskPeriod {
			other.reportsDown, other.leader = false, ""
		}
		if !s.primary.subjectivelyDown || other.link.disconnected || !force && since < s.w.cfg.AskPeriod {
			continue
		}
		candidate := ""
		if s.failover.state > failoverNone {
			candidate = s.runID
		}
		peer, about, epoch := s.w.sentinelAt(other.node), s.primary.node, s.epoch
		other.ask(
			func(*end) any { return peer.isDown(about, epoch, candidate) },
			func(r any) { other.answered(r.(opinion)) },
		)
	}
}

// opinion is the answer to IS-MASTER-DOWN-BY-ADDR.
type opinion struct {
	down        bool
	leader      string // "" if no vote was asked for
	leaderEpoch uint64
}

func (s *sentinel) isDown(about *node, epoch uint64, candidate string) opinion {
	if s.primary.node != about {
		return opinion{}
	}
	o := opinion{down: !s.tilted && s.primary.subjectivelyDown}
	if candidate != "" {
		o.leader, o.leaderEpoch = s.vote(epoch, candidate)
	}
	return o
}

func (i *instance) answered(o opinion) {
	i.lastAnswer, i.reportsDown = i.s.w.now, o.down
	if o.leader != "" {
		i.leader, i.leaderEpoch = o.leader, o.leaderEpoch
	}
}

func (w *World) sentinelAt(n *node) *sentinel {
	for _, s := range w.sentinels {
		if s.node == n {
			return s
		}
	}
	return nil
}
