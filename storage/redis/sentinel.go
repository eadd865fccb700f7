package redis

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"gatehouse.example/storage/redis/internal/failover"
)

// sentinels are the sentinels of a group: those in the URL and those that these list.
type sentinels struct {
	name    string
	first   []string // the addresses in the URL
	connect func(addr string) *goredis.Client

	mu     sync.Mutex
	known  map[string]*goredis.Client
	silent map[string]time.Time // when one that does not answer last had the full time to
}

func newSentinels(name string, addrs []string, connect func(string) *goredis.Client) *sentinels {
	s := &sentinels{name: name, first: addrs, connect: connect, known: map[string]*goredis.Client{}, silent: map[string]time.Time{}}
	for _, addr := range addrs {
		s.known[addr] = connect(addr)
	}
	return s
}

// sentinelAnswer is the answer of one sentinel.
type sentinelAnswer struct {
	addr   string
	id     string
	report failover.Report
	peers  []string // the addresses of the other sentinels
	err    error

	// primary and replicas are the replies to SENTINEL MASTER and SENTINEL REPLICAS.
	primary  map[string]string
	replicas []map[string]string
}

// reports asks all sentinels at once; before is the primary of the last look. The error is nil if
// any sentinel answered.
func (s *sentinels) reports(ctx context.Context, before string) (reports []failover.Report, err error) {
	ids, there := map[string]bool{}, slices.Clone(s.first)
	now := time.Now()
	limit := func(addr string) time.Duration { return s.limit(addr, now) }
	for _, a := range s.ask(ctx, before, limit) {
		if a.err != nil {
			err = a.err
			continue
		}
		delete(s.silent, a.addr)
		there = append(append(there, a.addr), a.peers...)
		if !ids[a.id] { // it may have several addresses
			ids[a.id] = true
			reports = append(reports, a.report)
		}
	}
	if len(reports) > 0 {
		err = nil
		s.update(there)
	}
	return reports, err
}

// ask asks all sentinels at once, each with the time that limit returns for its address.
func (s *sentinels) ask(ctx context.Context, before string, limit func(addr string) time.Duration) []sentinelAnswer {
	known := s.clients()
	answers := make([]sentinelAnswer, len(known))
	var asking sync.WaitGroup
	for i, addr := range slices.Collect(maps.Keys(known)) {
		timeout := limit(addr)
		asking.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			answers[i] = s.askOne(ctx, known[addr], before)
			answers[i].addr = addr
		})
	}
	asking.Wait()
	return answers
}

// limit returns the time that a sentinel has to answer: askTime, and while it does not answer,
// that only once a second. The longer a look waits, the older the other answers are.
func (s *sentinels) limit(addr string, now time.Time) time.Duration {
	since, silent := s.silent[addr]
	if !silent || now.Sub(since) >= lookTime {
		s.silent[addr] = now
		return askTime
	}
	return askTime / 5
}

// clients returns the clients of the sentinels that are asked now, by address.
func (s *sentinels) clients() map[string]*goredis.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.known)
}

// mostSentinels bounds how many sentinels are asked.
const mostSentinels = 31

// update makes addrs the sentinels that are asked: those in the URL, those that answered and
// those that they listed. All others were replaced.
func (s *sentinels) update(addrs []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for addr, client := range s.known {
		if !slices.Contains(addrs, addr) {
			_ = client.Close()
			delete(s.known, addr)
			delete(s.silent, addr)
		}
	}
	for _, addr := range addrs {
		if s.known[addr] == nil && len(s.known) < mostSentinels {
			s.known[addr] = s.connect(addr)
		}
	}
}

// noRunID is the id of no sentinel. A sentinel is asked for its vote for it in term 0, in which
// it does not vote any more, so it answers with the last term in which it voted.
const noRunID = "0000000000000000000000000000000000000000"

// askOne asks one sentinel. Its last vote is asked for with the primary of the last look, so for
// a new primary it comes with the next look.
func (s *sentinels) askOne(ctx context.Context, client *goredis.Client, before string) sentinelAnswer {
	id := goredis.NewStringCmd(ctx, "sentinel", "myid")
	primary := goredis.NewMapStringStringCmd(ctx, "sentinel", "master", s.name)
	addr := goredis.NewStringSliceCmd(ctx, "sentinel", "get-master-addr-by-name", s.name)
	replicas := goredis.NewMapStringStringSliceCmd(ctx, "sentinel", "replicas", s.name)
	others := goredis.NewMapStringStringSliceCmd(ctx, "sentinel", "sentinels", s.name)
	cmds := []goredis.Cmder{id, primary, addr, replicas, others}
	host, port, _ := net.SplitHostPort(before)
	vote := goredis.NewSliceCmd(ctx, "sentinel", "is-master-down-by-addr", host, port, "0", noRunID)
	if before != "" {
		cmds = append(cmds, vote)
	}
	together(ctx, client, cmds...)
	if err := errors.Join(id.Err(), primary.Err(), addr.Err(), replicas.Err(), others.Err()); err != nil {
		return sentinelAnswer{err: err}
	}
	a := sentinelAnswer{id: id.Val(), primary: primary.Val(), replicas: replicas.Val()}
	a.report = reportOf(a.primary, addr.Val(), a.replicas, others.Val())
	if answer := vote.Val(); a.report.Primary == before && len(answer) == 3 {
		voted, ok := answer[2].(int64)
		a.report.VoteKnown, a.report.Voted = ok && voted >= 0, uint64(voted)
	}
	for _, o := range others.Val() {
		a.peers = append(a.peers, net.JoinHostPort(o["ip"], o["port"]))
	}
	return a
}

// reportOf converts the replies to SENTINEL MASTER, GET-MASTER-ADDR-BY-NAME, REPLICAS and
// SENTINELS.
func reportOf(primary map[string]string, addr []string, replicas, others []map[string]string) failover.Report {
	r := failover.Report{
		Epoch:     number(primary, "config-epoch"),
		Down:      unreached(primary),
		Silence:   duration(primary, "last-ping-sent"),
		DownAfter: duration(primary, "down-after-milliseconds"),
		Quorum:    int(number(primary, "quorum")),
		Sentinels: int(number(primary, "num-other-sentinels")) + 1,
	}
	if len(addr) == 2 {
		r.Primary = net.JoinHostPort(addr[0], addr[1])
	}
	// While the sentinel makes the other replicas follow the promoted one, SENTINEL MASTER still
	// has the old primary, but GET-MASTER-ADDR-BY-NAME already the new one.
	r.Failing = flagged(primary, "failover_in_progress") && r.Primary == net.JoinHostPort(primary["ip"], primary["port"])
	for _, o := range others {
		if unreached(o) {
			r.Missing++
		}
	}
	for _, o := range replicas {
		r.Others = append(r.Others, failover.Other{
			Addr: net.JoinHostPort(o["ip"], o["port"]), Down: unreached(o), DownFor: duration(o, "s-down-time"),
			Barred: o["slave-priority"] == "0" && o["role-reported"] == "slave",
		})
	}
	return r
}

// unreached reports whether a sentinel does not reach a server or another sentinel.
func unreached(about map[string]string) bool {
	return flagged(about, "s_down") || flagged(about, "o_down")
}

func flagged(about map[string]string, flag string) bool {
	return slices.Contains(strings.Split(about["flags"], ","), flag)
}

func number(about map[string]string, field string) uint64 {
	n, err := strconv.ParseInt(about[field], 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return uint64(n)
}

func duration(about map[string]string, field string) time.Duration {
	return time.Duration(min(number(about, field), uint64(time.Hour/time.Millisecond))) * time.Millisecond
}

func (s *sentinels) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, client := range s.known {
		_ = client.Close()
	}
}
