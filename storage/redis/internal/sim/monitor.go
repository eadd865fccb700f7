package sim

import "time"

// sendPeriodic is sentinelSendPeriodicCommands.
func (s *sentinel) sendPeriodic(i *instance) {
	l, now := &i.link, s.w.now
	if l.disconnected {
		return
	}
	if i.kind != kindSentinel && (i.infoRefresh == 0 || now-i.infoRefresh > s.infoPeriod(i)) {
		server := s.w.server(i.addr)
		i.ask(func(*end) any { return server.report() }, func(r any) { s.refreshInfo(i, r.(report)) })
	}
	period := min(s.w.cfg.DownAfter, s.w.cfg.PingPeriod)
	if now-l.lastPong > period && now-l.lastPing > period/2 {
		s.ping(i)
	}
	if now-i.lastPublished > s.w.cfg.PublishPeriod {
		s.publish(i)
	}
}

// infoPeriod returns the interval of INFO: short while a failover could need it.
func (s *sentinel) infoPeriod(i *instance) time.Duration {
	if i.kind == kindReplica && (s.primary.objectivelyDown || s.failover.inProgress || i.masterLinkDownTime != 0) {
		return time.Second
	}
	return s.w.cfg.InfoPeriod
}

// ping is sentinelSendPing.
func (s *sentinel) ping(i *instance) {
	if !i.ask(func(*end) any { return nil }, func(any) {
		i.link.lastAvailable, i.link.lastPong, i.link.activePing = s.w.now, s.w.now, 0
	}) {
		return
	}
	i.link.lastPing = s.w.now
	if i.link.activePing == 0 {
		i.link.activePing = s.w.now
	}
}

// report is the part of INFO that a sentinel reads.
type report struct {
	role, runID, primary string
	linkUp               bool
	downSeconds, offset  int64
	followers            []string // addresses
}

func (s *server) report() report {
	r := report{role: "master", runID: s.runID}
	if s.following != nil {
		r.role, r.primary, r.offset = "slave", s.following.primary, s.reported()
		if r.linkUp = s.following.state == linkUp; !r.linkUp {
			r.downSeconds = s.downSeconds()
		}
	}
	for _, f := range s.followers {
		r.followers = append(r.followers, f.addr)
	}
	return r
}

// refreshInfo is sentinelRefreshInstanceInfo.
func (s *sentinel) refreshInfo(i *instance, r report) {
	i.infoRefresh, i.runID = s.w.now, r.runID
	i.masterLinkDownTime = time.Duration(r.downSeconds) * time.Second
	if i.kind == kindPrimary {
		s.discover(r.followers)
	}
	if r.role == "slave" {
		i.masterLinkUp, i.offset = r.linkUp, r.offset
		if r.primary != i.masterAddr {
			i.masterAddr, i.masterTime = r.primary, s.w.now
		}
	}
	if r.role != i.roleReported {
		i.roleReported, i.roleTime = r.role, s.w.now
		if r.role == "slave" {
			i.masterTime = s.w.now
		}
	}
	if !s.tilted && i.kind == kindReplica {
		s.act(i)
	}
}

func (s *sentinel) discover(addrs []string) {
	for _, addr := range addrs {
		if n := s.w.addrs[addr]; s.find(n) == nil {
			s.replicas = append(s.replicas, s.newInstance(kindReplica, n))
		}
	}
}

// act reacts to the report of a replica.
func (s *sentinel) act(i *instance) {
	f := &s.failover
	wait := 4 * s.w.cfg.PublishPeriod
	switch {
	case i.roleReported == "master" && f.promoted == i && f.inProgress && f.state == failoverWaitPromotion:
		s.primary.configEpoch = f.epoch
		f.step(s, failoverReconfigure)
		s.publishSoon()
	case i.roleReported == "master":
		if f.promoted != i && s.primarySane() && i.noDownFor(wait) && s.w.now-i.roleTime > wait {
			s.w.log("%s +convert-to-slave %s", s.name, i.name)
			i.slaveOf(s.primary.node)
		}
	case i.masterAddr != s.primary.addr:
		wait = s.w.cfg.FailoverTimeout
		if s.primarySane() && i.noDownFor(wait) && s.w.now-i.masterTime > wait {
			s.w.log("%s +fix-slave-config %s", s.name, i.name)
			i.slaveOf(s.primary.node)
		}
	}
	if i.roleReported == "slave" {
		i.reconfiguring()
	}
}

// reconfiguring records the progress of a replica that should follow the promoted one.
func (i *instance) reconfiguring() {
	promoted := i.s.failover.promoted
	if i.reconfigured == reconfSent && promoted != nil && i.masterAddr == promoted.addr {
		i.reconfigured = reconfInProgress
	}
	if i.reconfigured == reconfInProgress && i.masterLinkUp {
		i.reconfigured = reconfDone
	}
}

// primarySane is sentinelMasterLooksSane.
func (s *sentinel) primarySane() bool {
	p := s.primary
	return p.roleReported == "master" && !p.subjectivelyDown && !p.objectivelyDown &&
		s.w.now-p.infoRefresh < 2*s.w.cfg.InfoPeriod
}

// noDownFor is sentinelRedisInstanceNoDownFor.
func (i *instance) noDownFor(d time.Duration) bool {
	recent := max(i.downSince, i.objectivelySince)
	return recent == 0 || i.s.w.now-recent > d
}
