package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
)

// report is what a run found; its JSON is the file that -json writes.
type report struct {
	Machine machine      `json:"machine"`
	Points  []point      `json:"points"`
	Starts  []startPoint `json:"starts,omitempty"`
	Guard   []guardPoint `json:"guard,omitempty"`
	// GrantBytes is what a live grant takes in Redis, by the growth of used_memory with -grants.
	GrantBytes []grantBytes `json:"grant_bytes,omitempty"`
}

// machine is where and how a run took place.
type machine struct {
	System      string `json:"system"`
	Processor   string `json:"processor"`
	Cores       int    `json:"cores"`
	Go          string `json:"go"`
	Redis       string `json:"redis,omitempty"`
	Commit      string `json:"commit,omitempty"`
	Store       string `json:"store"`
	Appendfsync string `json:"appendfsync,omitempty"`
	// Pinned means that servers and Redis had one core, and the generator another one.
	Pinned bool `json:"pinned"`
	Rounds int  `json:"rounds"`
}

func (s *stand) machine(ctx context.Context) machine {
	m := machine{
		System: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version(), Store: s.store, Rounds: s.rounds,
	}
	if s.store == "redis" {
		m.Appendfsync = s.appendfsync
	}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		_, rest, _ := strings.Cut(string(text), "model name\t: ")
		m.Processor, _, _ = strings.Cut(rest, "\n")
	}
	if out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output(); err == nil {
		m.Commit = strings.TrimSpace(string(out))
	}
	return m
}

// median is the point of several rounds whose processor time is in the middle.
func median(points []point) point {
	slices.SortFunc(points, func(a, b point) int { return cmp.Compare(a.micros(), b.micros()) })
	return points[len(points)/2]
}

// relate sets what each point is as a multiple of the floor, of those that were measured in turn.
func relate(points []point) {
	for i, p := range points {
		for _, f := range points {
			if f.Server == floorName && f.Operation == p.Operation && f.Connections == p.Connections && f.micros() > 0 {
				points[i].ToFloor = p.micros() / f.micros()
			}
		}
	}
}

// write writes the table, and the files that were asked for.
func (r *report) write(o options, stdout io.Writer) error {
	if o.json != "-" {
		if err := r.writeTable(stdout); err != nil {
			return err
		}
	}
	if o.json != "" {
		text, err := json.MarshalIndent(r, "", "\t")
		if err != nil {
			return err
		}
		if err := save(o.json, append(text, '\n'), stdout); err != nil {
			return err
		}
	}
	if o.svg != "" {
		return save(o.svg, r.plot(), stdout)
	}
	return nil
}

func save(file string, text []byte, stdout io.Writer) error {
	if file == "-" {
		_, err := stdout.Write(text)
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

// writeTable writes the figures for people. Times are in microseconds.
func (r *report) writeTable(out io.Writer) error {
	m := r.Machine
	pinned := "servers on one core, generator on another"
	if !m.Pinned {
		pinned = "NOT pinned: servers and generator share all cores, so operations per second mean little"
	}
	fmt.Fprintf(out, "%s, %d cores, %s, Redis %s, store %s, appendfsync %s, commit %s\n%s; medians of %d\n\n",
		m.Processor, m.Cores, m.Go, cmp.Or(m.Redis, "-"), m.Store, cmp.Or(m.Appendfsync, "-"), cmp.Or(m.Commit, "-"), pinned, m.Rounds)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	if len(r.Points) > 0 {
		fmt.Fprintln(w, "operation\tconns\tserver\tprocs\tgrants\tops/s\tus/op\tserver us\tredis us\tp50 us\tp99 us\ttrips\tallocs\tbytes\tRSS MB\tredis MB\t503s\tto floor\t")
	}
	for _, p := range r.Points {
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%d\t%.0f\t%.1f\t%.1f\t%.1f\t%.0f\t%.0f\t%.2f\t%s\t%s\t%.1f\t%.1f\t%d\t%s\t\n",
			p.Operation, p.Connections, p.Server, p.Processes, p.Grants, p.PerSecond, p.micros(), p.ServerMicros, p.RedisMicros, p.P50Micros, p.P99Micros,
			p.RoundTrips, told(p.Allocations), told(p.Bytes), megabytes(p.Resident), megabytes(p.RedisMemory), p.Unavailable, ratio(p.ToFloor))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, g := range r.GrantBytes {
		fmt.Fprintf(out, "%s, %d live grants of %d people: %.0f bytes of Redis for each\n", g.Server, g.Grants, g.People, g.Bytes)
	}
	for _, s := range r.Starts {
		fmt.Fprintf(out, "start of %s: %.1f ms to the first 200, %.1f ms of processor time; idle %.1f MB; binary %.1f MB\n",
			s.Server, s.Millis, s.ProcessorMillis, megabytes(s.Resident), megabytes(s.Binary))
	}
	for _, g := range r.Guard {
		fmt.Fprintf(out, "guard: %s\n", g.Line)
	}
	return nil
}

func told(n float64) string {
	if n < 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f", n)
}

func ratio(n float64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", n)
}

func megabytes(n int64) float64 { return float64(n) / 1e6 }
