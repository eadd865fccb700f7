package sim

import (
	"fmt"
	"net"
	"strings"
)

// info returns the answer to INFO replication.
func (s *server) info() string {
	b := &strings.Builder{}
	line := func(format string, args ...any) { fmt.Fprintf(b, format+"\r\n", args...) }
	line("# Replication")
	if s.following == nil {
		line("role:master")
	} else {
		s.infoFollowing(line)
	}
	line("connected_slaves:%d", len(s.followers))
	for i, f := range s.followers {
		host, port, _ := net.SplitHostPort(f.addr)
		lag := 0
		if f.state == stateOnline {
			lag = int(s.w.now.Seconds()) - int(f.ackTime.Seconds())
		}
		line("slave%d:ip=%s,port=%s,state=%s,offset=%d,lag=%d", i, host, port, f.state, f.acked, lag)
	}
	line("master_failover_state:no-failover")
	line("master_replid:%s", s.replID)
	line("master_replid2:%s", s.replID2)
	line("master_repl_offset:%d", s.offset)
	line("second_repl_offset:%d", s.secondOffset)
	if s.log == nil {
		line("repl_backlog_active:0\r\nrepl_backlog_size:1048576\r\nrepl_backlog_first_byte_offset:0\r\nrepl_backlog_histlen:0")
	} else {
		line("repl_backlog_active:1\r\nrepl_backlog_size:1048576\r\nrepl_backlog_first_byte_offset:%d\r\nrepl_backlog_histlen:%d",
			s.log.first+1, s.offset-s.log.first)
	}
	return b.String()
}

func (s *server) infoFollowing(line func(string, ...any)) {
	f := s.following
	host, port, _ := net.SplitHostPort(f.primary)
	status, io, syncing := "down", int64(-1), 0
	switch f.state {
	case linkUp:
		status, io = "up", int64((s.w.now - f.lastHeard).Seconds())
	case linkFilling:
		syncing = 1
	}
	line("role:slave\r\nmaster_host:%s\r\nmaster_port:%s\r\nmaster_link_status:%s", host, port, status)
	line("master_last_io_seconds_ago:%d\r\nmaster_sync_in_progress:%d", io, syncing)
	line("slave_read_repl_offset:%d\r\nslave_repl_offset:%d", s.reported(), s.reported())
	if f.state == linkFilling {
		line("master_sync_total_bytes:0\r\nmaster_sync_read_bytes:0\r\nmaster_sync_left_bytes:0\r\nmaster_sync_perc:-0.00\r\nmaster_sync_last_io_seconds_ago:0")
	}
	if f.state != linkUp {
		line("master_link_down_since_seconds:%d", s.downSeconds())
	}
	line("slave_priority:100\r\nslave_read_only:1\r\nreplica_announced:1")
}

// downSeconds returns how long the link to the primary has been down, -1 if it never was up.
func (s *server) downSeconds() int64 {
	if s.following.since == 0 {
		return -1
	}
	return int64(s.w.now.Seconds()) - int64(s.following.since.Seconds())
}
