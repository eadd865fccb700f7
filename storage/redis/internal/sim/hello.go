package sim

// hello is the message by which sentinels exchange their state.
type hello struct {
	from        string // run id
	epoch       uint64
	primary     *node
	configEpoch uint64
}

// publish is sentinelSendHello: through a server, or straight to another sentinel.
func (s *sentinel) publish(i *instance) {
	h := hello{s.runID, s.epoch, s.current(), s.primary.configEpoch}
	do := func() {
		if peer := s.w.sentinelAt(i.node); peer != nil {
			peer.receiveHello(h)
			return
		}
		s.w.server(i.addr).spread(h)
	}
	if i.ask(nothing(func(*end) { do() }), nil) {
		i.lastPublished = s.w.now
	}
}

// publishSoon is sentinelForceHelloUpdateForMaster.
func (s *sentinel) publishSoon() {
	s.primary.lastPublished = 0
	for _, list := range [][]*instance{s.replicas, s.others} {
		for _, i := range list {
			i.lastPublished = 0
		}
	}
}

// subscribe has a sentinel receive the messages that are published at a server.
func (s *sentinel) subscribe(i *instance) {
	own, server := i.link.messages, s.w.server(i.addr)
	theirs := own.peer
	own.send(func() {
		server.channel[theirs] = func(h hello) {
			if i.link.messages == own {
				i.link.lastActivity = s.w.now
				s.receiveHello(h)
			}
		}
	})
}

// spread passes a message on to the sentinels that subscribe.
func (s *server) spread(h hello) {
	for _, link := range s.open() {
		if receive := s.channel[link]; receive != nil {
			link.send(func() { receive(h) })
		}
	}
}

// receiveHello is sentinelProcessHelloMessage.
func (s *sentinel) receiveHello(h hello) {
	if h.from == s.runID {
		return
	}
	s.epoch = max(s.epoch, h.epoch)
	if s.primary.configEpoch < h.configEpoch {
		s.primary.configEpoch = h.configEpoch
		if s.primary.node != h.primary {
			s.w.log("%s +config-update-from %s", s.name, s.w.sentinelName(h.from))
			s.switchTo(h.primary)
		}
	}
	for _, other := range s.others {
		if other.runID == h.from {
			other.lastHello = s.w.now
		}
	}
}
