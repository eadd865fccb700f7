// Command bench measures what the operations of the authorization server cost, beside a floor
// program and, on request, other authorization servers, all in one run. See docs/performance.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	store, appendfsync  string
	connections         []int
	processes, grants   []int
	operations          []string
	duration            time.Duration
	rounds, codes       int
	people, clients     int
	binaries, peers     []string
	json, svg           string
	withoutFloor, unpin bool
}

// other are what is measured without connections.
const (
	startOperation = "start"
	guardOperation = "guard"
)

func parse(args []string, stderr io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.store, "store", "redis", "redis, file or memory: where the server under test keeps its state")
	flags.StringVar(&o.appendfsync, "appendfsync", "everysec", "always, everysec or no: when Redis writes to disk")
	flags.DurationVar(&o.duration, "for", 2*time.Second, "how long each point is measured, after half of that to warm up")
	flags.IntVar(&o.rounds, "rounds", 1, "how often everything is measured in turn; the report has the medians")
	flags.IntVar(&o.codes, "codes", 2000, "how many codes are issued beforehand for the operation exchange")
	flags.IntVar(&o.people, "people", 1000, "with -grants: over how many people the grants are spread")
	flags.IntVar(&o.clients, "clients", 1, "how many clients are registered beforehand; with -grants they share the grants")
	flags.StringVar(&o.json, "json", "", "write the figures to this file; - is standard output")
	flags.StringVar(&o.svg, "svg", "", "write a plot to this file")
	flags.BoolVar(&o.withoutFloor, "without-floor", false, "do not measure the floor program")
	flags.BoolVar(&o.unpin, "unpinned", false, "do not pin the servers to one core and the generator to another")
	operations := flags.String("operations", "all", "some of metadata,introspect,register,refresh,exchange,flow,guard,start")
	connections := flags.String("connections", "1,16,64", "numbers of connections")
	processes := flags.String("processes", "1", "numbers of processes of the server; several need Redis")
	grants := flags.String("grants", "0", "numbers of live grants in the store, rising; they need Redis")
	binaries := flags.String("authz", "", "binaries to measure in turn, instead of the one that is built from this source")
	peers := flags.String("peer", "", "other servers to measure too: fosite, oidc-provider")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	o.operations, o.binaries, o.peers = list(*operations), list(*binaries), list(*peers)
	for _, n := range []struct {
		name string
		text string
		to   *[]int
	}{{"connections", *connections, &o.connections}, {"processes", *processes, &o.processes}, {"grants", *grants, &o.grants}} {
		if *n.to, err = numbers(n.text); err != nil {
			return o, fmt.Errorf("-%s: %w", n.name, err)
		}
	}
	return o, o.mistake()
}

// mistake returns what is wrong with the options.
func (o *options) mistake() error {
	known := []string{guardOperation, startOperation}
	for _, op := range operations {
		known = append(known, op.name)
	}
	if slices.Equal(o.operations, []string{"all"}) {
		o.operations = known
	}
	for _, name := range o.operations {
		if !slices.Contains(known, name) {
			return fmt.Errorf("-operations: %q is none of %s", name, strings.Join(known, ", "))
		}
	}
	shared := slices.Max(o.processes) > 1 || slices.Max(o.grants) > 0
	switch {
	case !slices.Contains([]string{"redis", "file", "memory"}, o.store):
		return fmt.Errorf("-store: %q is none of redis, file, memory", o.store)
	case shared && o.store != "redis":
		return fmt.Errorf("-processes and -grants need -store redis")
	case slices.Min(o.processes) < 1 || slices.Min(o.connections) < 1 || o.rounds < 1 || o.people < 1 || o.clients < 1:
		return fmt.Errorf("-processes, -connections, -rounds, -people and -clients are 1 at least")
	}
	return nil
}

func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

func numbers(text string) (out []int, err error) {
	for _, part := range strings.Split(text, ",") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

// run does what the flags ask for.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	s, err := newStand(o)
	if err != nil {
		return err
	}
	defer s.close()
	r, err := s.everything(ctx, stderr)
	if err != nil {
		return err
	}
	return r.write(o, stdout)
}

// everything builds, starts and measures.
func (s *stand) everything(ctx context.Context, progress io.Writer) (*report, error) {
	floor, err := s.programs(ctx)
	if err != nil {
		return nil, err
	}
	r := &report{Machine: s.machine(ctx)}
	if slices.Contains(s.operations, guardOperation) { // before anything is pinned
		if r.Guard, err = guard(ctx); err != nil {
			return nil, err
		}
	}
	if err := s.pin(r); err != nil {
		return nil, err
	}
	if s.store == "redis" {
		if err := s.startRedis(ctx); err != nil {
			return nil, err
		}
		info, err := s.redis.info()
		if err != nil {
			return nil, err
		}
		r.Machine.Redis = info.version
	}
	if slices.Contains(s.operations, startOperation) {
		if r.Starts, err = s.starts(ctx, floor); err != nil {
			return nil, err
		}
	}
	return r, s.points(ctx, r, floor, progress)
}

// programs builds the server, unless binaries are given, and the floor.
func (s *stand) programs(ctx context.Context) (floor string, err error) {
	if len(s.binaries) == 0 {
		binary, err := s.build(ctx, "cmd/authz")
		if err != nil {
			return "", err
		}
		s.binaries = []string{binary}
	}
	if s.withoutFloor {
		return "", nil
	}
	return s.build(ctx, "internal/bench/floor")
}

// pin divides the machine between servers and generator, where the system lets it.
func (s *stand) pin(r *report) error {
	if s.unpin {
		return nil
	}
	servers, generator, ok := cores()
	if !ok {
		return nil
	}
	s.core, r.Machine.Pinned = servers, true
	return pinSelf(generator)
}

// points measures each operation with each number of connections on all servers in turn, so that
// a change of the machine meets all of them.
func (s *stand) points(ctx context.Context, r *report, floor string, progress io.Writer) error {
	chosen := slices.DeleteFunc(slices.Clone(operations), func(op operation) bool { return !slices.Contains(s.operations, op.name) })
	if len(chosen) == 0 {
		return nil
	}
	others, err := s.others(ctx)
	if err != nil {
		return err
	}
	for n, processes := range s.processes {
		ours, err := s.ours(ctx, n, processes)
		if err != nil {
			return err
		}
		floors, err := s.floors(ctx, floor, processes)
		if err != nil {
			return err
		}
		for _, grants := range s.grants {
			if err := s.preload(ctx, r, ours, n, grants); err != nil {
				return err
			}
			if err := s.preloadFloors(ctx, floors, floor, grants); err != nil {
				return err
			}
			if err := s.table(ctx, r, slices.Concat(ours, floors, others), chosen, progress); err != nil {
				return err
			}
		}
	}
	return nil
}

// table measures all points of one set of servers, as often as there are rounds.
func (s *stand) table(ctx context.Context, r *report, targets []*target, chosen []operation, progress io.Writer) error {
	from := len(r.Points)
	for _, op := range chosen {
		for _, connections := range s.connections {
			rounds := make([][]point, len(targets))
			for range s.rounds {
				for i, t := range targets {
					if strings.Contains(t.lacks, op.name) {
						continue
					}
					p, err := s.measure(ctx, t, op, connections)
					if err != nil {
						return err
					}
					rounds[i] = append(rounds[i], p)
					fmt.Fprintf(progress, "%s %d %s: %.1f us\n", op.name, connections, t.name, p.micros())
				}
			}
			for _, points := range rounds {
				if len(points) > 0 {
					r.Points = append(r.Points, median(points))
				}
			}
		}
	}
	relate(r.Points[from:])
	return nil
}

// ours starts our servers, each with a database of its own.
func (s *stand) ours(ctx context.Context, n, processes int) (targets []*target, err error) {
	for i, binary := range s.binaries {
		name := "gatehouse"
		if len(s.binaries) > 1 {
			name = fmt.Sprintf("gatehouse%d", i+1)
		}
		t, err := s.server(ctx, name, binary, n*len(s.binaries)+i, processes)
		if err != nil {
			return nil, err
		}
		targets = append(targets, t)
	}
	return targets, nil
}
