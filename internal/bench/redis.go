package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// redis is a real Redis server of this run.
type redis struct {
	*process
	address string
}

// startRedis starts redis-server with an append-only file. It is never rewritten, because a rewrite
// would take the core from some points and not from others.
func (s *stand) startRedis(ctx context.Context) error {
	ready := func(address string) error {
		_, err := (&redis{address: address}).info()
		return err
	}
	p, address, err := s.listening(ctx, ready, func(address string) (*process, error) {
		_, port, _ := net.SplitHostPort(address)
		return s.begin(nil, "redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", s.folder, "--save", "",
			"--appendonly", "yes", "--appendfsync", s.appendfsync, "--auto-aof-rewrite-percentage", "0")
	})
	s.redis = &redis{process: p, address: address}
	return err
}

// redisInfo is what Redis counts, since its start or now.
type redisInfo struct {
	version string
	// reads counts how often Redis read from a connection: what arrives together, such as a
	// pipeline, is one. So the difference is the number of round trips.
	reads    int64
	commands int64
	memory   int64 // used_memory, bytes
}

// info asks Redis for its counts. The question itself is one read and one command.
func (r *redis) info() (redisInfo, error) {
	conn, err := net.DialTimeout("tcp", r.address, answerTime)
	if err != nil {
		return redisInfo{}, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(answerTime))
	if _, err := io.WriteString(conn, "INFO\r\n"); err != nil {
		return redisInfo{}, err
	}
	reader := bufio.NewReader(conn)
	line, err := reader.ReadString('\n')
	if err != nil {
		return redisInfo{}, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "$")))
	if err != nil {
		return redisInfo{}, fmt.Errorf("redis: %q", line)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(reader, text); err != nil {
		return redisInfo{}, err
	}
	return parseInfo(string(text)), nil
}

func parseInfo(text string) (i redisInfo) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		n, _ := strconv.ParseInt(value, 10, 64)
		switch name {
		case "redis_version":
			i.version = value
		case "total_reads_processed":
			i.reads = n
		case "total_commands_processed":
			i.commands = n
		case "used_memory":
			i.memory = n
		}
	}
	return i
}
