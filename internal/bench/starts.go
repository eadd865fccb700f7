package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// startPoint is how a server starts, and what it takes when nobody asks it anything.
type startPoint struct {
	Server string `json:"server"`
	// Millis is the time from the start of the process to the first 200, ProcessorMillis what it
	// used until then; both are medians.
	Millis          float64 `json:"ms"`
	ProcessorMillis float64 `json:"processor_ms"`
	Resident        int64   `json:"idle_resident_bytes"` // a second after the first 200; the median
	Binary          int64   `json:"binary_bytes"`        // stripped
}

const startRounds = 5

// starts measures each of our binaries and the floor. The store has keys and a person already.
func (s *stand) starts(ctx context.Context, floor string) (out []startPoint, err error) {
	for i, binary := range s.binaries {
		const database = 14
		p, err := s.startsOf(ctx, binary, func() (*process, error) {
			p, _, _, err := s.serve(ctx, binary, database)
			return p, err
		}, func() error {
			if i > 0 {
				return nil
			}
			return s.addPerson(ctx, binary, database)
		})
		if err != nil {
			return nil, err
		}
		p.Server = "gatehouse"
		if len(s.binaries) > 1 {
			p.Server = fmt.Sprintf("gatehouse%d", i+1)
		}
		out = append(out, p)
	}
	if floor == "" {
		return out, nil
	}
	p, err := s.startsOf(ctx, floor, func() (*process, error) {
		p, _, err := s.serveFloor(ctx, floor)
		return p, err
	}, func() error { return nil })
	p.Server = floorName
	return append(out, p), err
}

// startsOf starts a server several times. After the first time, which makes keys and fills the file
// cache and is not counted, it calls settle.
func (s *stand) startsOf(ctx context.Context, binary string, serve func() (*process, error), settle func() error) (startPoint, error) {
	var took, used, resident []float64
	for n := range startRounds + 1 {
		began := time.Now()
		p, err := serve()
		if err != nil {
			return startPoint{}, err
		}
		elapsed := time.Since(began)
		spent, err := processorTime(p.cmd.Process.Pid)
		if err != nil {
			return startPoint{}, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(s.duration, time.Second)):
		}
		if n == 0 {
			err = settle()
		} else {
			took, used = append(took, elapsed.Seconds()*1e3), append(used, spent.Seconds()*1e3)
			resident = append(resident, float64(p.resident()))
		}
		p.stop()
		if err != nil {
			return startPoint{}, err
		}
	}
	file, err := os.Stat(binary)
	if err != nil {
		return startPoint{}, err
	}
	return startPoint{Millis: middle(took), ProcessorMillis: middle(used), Resident: int64(middle(resident)), Binary: file.Size()}, nil
}

func middle(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// guardPoint is one line of the benchmarks of the guard.
type guardPoint struct {
	Benchmark string `json:"benchmark"`
	Line      string `json:"line"`
}

// guardBenchmarks are those of a token that was seen before, and of one that was not.
const guardBenchmarks = "^BenchmarkVerify$/^cached$/^ES256$|^BenchmarkFirstSight$/^ES256$"

// guard runs the benchmarks of package middleware, in their own process.
func guard(ctx context.Context) (points []guardPoint, err error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", guardBenchmarks, "-benchmem", "gatehouse.example/middleware")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("go test: %w\n%s", err, out)
	}
	for lines := bufio.NewScanner(strings.NewReader(string(out))); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 2 && strings.HasPrefix(fields[0], "Benchmark") {
			points = append(points, guardPoint{Benchmark: fields[0], Line: strings.Join(fields, " ")})
		}
	}
	if len(points) == 0 {
		return nil, fmt.Errorf("no benchmark of the guard is %s", guardBenchmarks)
	}
	return points, nil
}
