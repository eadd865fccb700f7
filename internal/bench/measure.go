package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// point is one measurement: an operation on a server with a number of connections.
type point struct {
	Operation   string `json:"operation"`
	Server      string `json:"server"`
	Connections int    `json:"connections"`
	Processes   int    `json:"processes"`
	Grants      int    `json:"grants"`     // that were in the store beforehand
	Operations  int    `json:"operations"` // that were done and measured, all of them answered right
	// PerSecond depends on what else the machine does; processor time does less.
	PerSecond float64 `json:"per_second"`
	// ServerMicros and RedisMicros are processor time per operation, user and system together.
	ServerMicros float64 `json:"server_us"`
	RedisMicros  float64 `json:"redis_us"`
	P50Micros    float64 `json:"p50_us"`
	P99Micros    float64 `json:"p99_us"`
	// RoundTrips are how often Redis read from a connection, per operation. Concurrent operations
	// may share them.
	RoundTrips float64 `json:"round_trips"`
	Commands   float64 `json:"redis_commands"` // with those that scripts call
	// Allocations and Bytes are those of the server, as its metrics tell; -1 if it does not.
	Allocations float64 `json:"allocations"`
	Bytes       float64 `json:"bytes"`
	Resident    int64   `json:"resident_bytes"`   // of the server, afterwards
	RedisMemory int64   `json:"redis_used_bytes"` // afterwards
	// ToFloor is the processor time, Redis included, as a multiple of that of the floor program in
	// the same run; 0 if that was not measured.
	ToFloor float64 `json:"to_floor,omitempty"`
}

// micros is the processor time of an operation, Redis included.
func (p point) micros() float64 { return p.ServerMicros + p.RedisMicros }

// measure prepares the workers of one point, lets them warm up, and drives them for a time.
func (s *stand) measure(ctx context.Context, t *target, op operation, connections int) (point, error) {
	t.given, t.workers = 0, connections
	t.codes = max(2, s.codes/connections)
	workers, end, err := prepare(t, op, connections)
	defer end()
	if err == nil && op.name != "exchange" {
		_, err = drive(ctx, workers, s.duration/2)
	}
	if err != nil {
		return point{}, fmt.Errorf("%s at %s: %w", op.name, t.name, err)
	}
	before, err := s.usage(t, true)
	if err != nil {
		return point{}, err
	}
	began := time.Now()
	took, err := drive(ctx, workers, s.duration)
	elapsed := time.Since(began)
	if err != nil {
		return point{}, fmt.Errorf("%s at %s: %w", op.name, t.name, err)
	}
	after, err := s.usage(t, false)
	if err != nil {
		return point{}, err
	}
	p := after.since(before, float64(len(took)))
	p.Operation, p.Server, p.Connections, p.Processes, p.Grants = op.name, t.name, connections, len(t.processes), len(t.held)
	p.Operations, p.PerSecond = len(took), float64(len(took))/elapsed.Seconds()
	slices.Sort(took)
	p.P50Micros, p.P99Micros = micros(took[len(took)/2]), micros(took[len(took)*99/100])
	return p, nil
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// prepare makes a worker for each connection, all at once. End closes the connections.
func prepare(t *target, op operation, connections int) (workers []worker, end func(), err error) {
	workers = make([]worker, connections)
	wires := make([]*wire, connections)
	errs := make([]error, connections)
	for i := range wires {
		wires[i] = t.wireTo(i)
	}
	var group sync.WaitGroup
	var one sync.Mutex // of t.given
	for i := range workers {
		group.Go(func() {
			if op.name == "refresh" && len(t.held) > 0 {
				one.Lock()
				defer one.Unlock()
			}
			workers[i], errs[i] = op.prepare(t, wires[i])
		})
	}
	group.Wait()
	return workers, func() {
		for _, w := range wires {
			w.close()
		}
	}, cmp.Or(errs...)
}

// drive lets all workers go on until the time is over or nothing is left, and returns how long
// each operation took. An operation that is begun is finished.
func drive(ctx context.Context, workers []worker, d time.Duration) ([]time.Duration, error) {
	took := make([][]time.Duration, len(workers))
	errs := make([]error, len(workers))
	until := time.Now().Add(d)
	var group sync.WaitGroup
	for i, work := range workers {
		group.Go(func() { took[i], errs[i] = repeat(ctx, work, until) })
	}
	group.Wait()
	all := slices.Concat(took...)
	if err := cmp.Or(errs...); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("no operation was done")
	}
	return all, nil
}

// repeat does an operation once at least.
func repeat(ctx context.Context, work worker, until time.Time) (took []time.Duration, err error) {
	for begin := time.Now(); ctx.Err() == nil; {
		if err := work(); errors.Is(err, errEmpty) {
			return took, nil
		} else if err != nil {
			return nil, err
		}
		now := time.Now()
		took = append(took, now.Sub(begin))
		if begin = now; now.After(until) {
			return took, nil
		}
	}
	return nil, ctx.Err()
}

// usage is what a server and Redis have used so far.
type usage struct {
	server, redis         time.Duration
	reads, commands       int64
	mallocs, bytes        float64
	resident, redisMemory int64
	metered               bool
}

// usage reads all counters. Those that cost something are read outside of what is measured; what
// reading the metrics costs in allocations is measured by reading twice before, and taken off.
func (s *stand) usage(t *target, before bool) (u usage, err error) {
	if before {
		if err := u.readMetrics(t, true); err != nil {
			return u, err
		}
	}
	if err := s.readRedis(&u, before); err != nil {
		return u, err
	}
	for _, p := range t.processes {
		spent, err := processorTime(p.cmd.Process.Pid)
		if err != nil {
			return u, err
		}
		u.server += spent
		u.resident += p.resident()
	}
	if !before {
		err = u.readMetrics(t, false)
	}
	return u, err
}

func (s *stand) readRedis(u *usage, before bool) (err error) {
	if s.redis == nil {
		return nil
	}
	if !before { // the question costs processor time, so the clock is read first
		if u.redis, err = processorTime(s.redis.cmd.Process.Pid); err != nil {
			return err
		}
	}
	info, err := s.redis.info()
	if err != nil {
		return err
	}
	u.reads, u.commands, u.redisMemory = info.reads, info.commands, info.memory
	if before {
		u.redis, err = processorTime(s.redis.cmd.Process.Pid)
	}
	return err
}

// readMetrics reads the allocations of all processes of a server, if it has metrics.
func (u *usage) readMetrics(t *target, twice bool) error {
	for _, address := range t.metrics {
		mallocs, bytes, err := allocations(address)
		if err != nil {
			return err
		}
		u.metered, u.mallocs, u.bytes = true, u.mallocs+mallocs, u.bytes+bytes
		if !twice {
			continue
		}
		againMallocs, againBytes, err := allocations(address)
		if err != nil {
			return err
		}
		u.mallocs += 2 * (againMallocs - mallocs)
		u.bytes += 2 * (againBytes - bytes)
	}
	return nil
}

func allocations(address string) (mallocs, bytes float64, err error) {
	w := newWire(address, "localhost")
	defer w.close()
	a, err := w.get("/metrics")
	if err := check(a, err, 200, "go_memstats_mallocs_total"); err != nil {
		return 0, 0, err
	}
	return sample(a.body, "\ngo_memstats_mallocs_total "), sample(a.body, "\ngo_memstats_alloc_bytes_total "), nil
}

func sample(text []byte, name string) float64 {
	_, rest, _ := strings.Cut(string(text), name)
	line, _, _ := strings.Cut(rest, "\n")
	n, _ := strconv.ParseFloat(line, 64)
	return n
}

// since returns what was used per operation since an earlier usage.
func (u usage) since(before usage, operations float64) point {
	p := point{
		ServerMicros: micros(u.server-before.server) / operations, RedisMicros: micros(u.redis-before.redis) / operations,
		Allocations: -1, Bytes: -1, Resident: u.resident, RedisMemory: u.redisMemory,
	}
	if u.redisMemory > 0 {
		p.RoundTrips = max(0, float64(u.reads-before.reads-1)/operations)
		p.Commands = max(0, float64(u.commands-before.commands-1)/operations)
	}
	if u.metered {
		p.Allocations, p.Bytes = max(0, u.mallocs-before.mallocs)/operations, max(0, u.bytes-before.bytes)/operations
	}
	return p
}
