package sim

import "time"

// kind is the kind of an instance.
type kind int

const (
	kindPrimary kind = iota
	kindReplica
	kindSentinel
)

// instance is the state that a sentinel keeps of a server or another sentinel.
type instance struct {
	*node // the machine at its address
	s     *sentinel
	kind  kind
	runID string
	link  instanceLink

	subjectivelyDown, objectivelyDown bool
	downSince, objectivelySince       time.Duration // since when, or when last; 0 for never

	infoRefresh, lastPublished, lastHello time.Duration

	// From INFO.
	roleReported       string // "master" or "slave"
	roleTime           time.Duration
	masterLinkDownTime time.Duration
	masterLinkUp       bool
	masterAddr         string
	masterTime         time.Duration // slave_conf_change_time
	priority           int
	offset             int64

	// Of a primary and of other sentinels: its last vote.
	leader      string
	leaderEpoch uint64
	configEpoch uint64

	// Of other sentinels.
	reportsDown bool
	lastAnswer  time.Duration // last_master_down_reply_time

	// Of replicas in a failover.
	reconfigured   reconfigured
	reconfiguredAt time.Duration
}

// reconfigured is the progress of a replica in following a new primary.
type reconfigured int

const (
	reconfNone reconfigured = iota
	reconfSent
	reconfInProgress
	reconfDone
)

// newInstance is createSentinelRedisInstance.
func (s *sentinel) newInstance(k kind, n *node) *instance {
	now := s.w.now
	role := "slave"
	if k == kindPrimary {
		role = "master"
	}
	return &instance{
		node: n, s: s, kind: k, roleReported: role, roleTime: now, masterTime: now, priority: 100, lastHello: now, lastPublished: now,
		link: instanceLink{disconnected: true, activePing: now, lastAvailable: now, lastPong: now},
	}
}

// instanceLink is the connections of a sentinel to an instance: one for commands and, to a
// server, one for messages.
type instanceLink struct {
	disconnected  bool
	commands      *end
	messages      *end
	commandsSince time.Duration
	pending       int
	lastReconnect time.Duration
	lastActivity  time.Duration // on the connection for messages
	activePing    time.Duration // when the oldest unanswered ping was sent; 0 for none
	lastPing      time.Duration
	lastAvailable time.Duration // when a ping was answered without an error
	lastPong      time.Duration // when a ping was answered at all
}

// maxPending is SENTINEL_MAX_PENDING_COMMANDS.
const maxPending = 100

// minReconnect is SENTINEL_MIN_LINK_RECONNECT_PERIOD.
const minReconnect = 15 * time.Second

// reconnect is sentinelReconnectInstance. A connection counts as soon as it is requested.
func (s *sentinel) reconnect(i *instance) {
	l := &i.link
	if !l.disconnected || s.w.now-l.lastReconnect < s.w.cfg.PingPeriod {
		return
	}
	l.lastReconnect = s.w.now
	if l.commands == nil {
		l.commands = s.dial(i, &l.commands, forCommands)
		l.pending, l.commandsSince = 0, s.w.now
		s.ping(i)
	}
	if i.kind != kindSentinel && l.messages == nil {
		l.messages, l.lastActivity = s.dial(i, &l.messages, forMessages), s.w.now
		s.subscribe(i)
	}
	l.disconnected = false
}

func (s *sentinel) dial(i *instance, slot **end, label uint64) *end {
	own, _ := s.connect(i.node, label)
	own.onClose = func() {
		if *slot == own {
			*slot = nil
			i.link.disconnected = true
		}
	}
	return own
}

// hangUp closes both connections.
func (i *instance) hangUp() {
	i.close(&i.link.commands)
	i.close(&i.link.messages)
}

func (i *instance) close(slot **end) {
	if *slot != nil {
		(*slot).close()
		*slot = nil
		i.link.disconnected = true
	}
}

// ask runs do at an instance, and answered with its result on this sentinel.
func (i *instance) ask(do func(link *end) any, answered func(any)) bool {
	own := i.link.commands
	if own == nil || i.link.pending >= maxPending {
		return false
	}
	i.link.pending++
	theirs := own.peer
	own.send(func() {
		result := do(theirs)
		theirs.send(func() {
			i.link.pending--
			if answered != nil {
				answered(result)
			}
		})
	})
	return true
}

// nothing is for commands whose reply is ignored.
func nothing(do func(link *end)) func(*end) any {
	return func(link *end) any {
		do(link)
		return nil
	}
}

// slaveOf is sentinelSendSlaveOf: to is nil for a promotion.
func (i *instance) slaveOf(to *node) bool {
	addr, name := "", "no one"
	if to != nil {
		addr, name = to.addr, to.name
	}
	i.s.w.log("%s sends slaveof %s to %s", i.s.name, name, i.name)
	server := i.s.w.server(i.addr)
	return i.ask(nothing(func(link *end) { server.become(addr, link) }), nil)
}
