//go:build e2e

package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestEveryOperationIsMeasured: every operation is done at ours and at the floor, each answer is
// right, and the report has its figures. Nothing is asserted about how long anything took.
func TestEveryOperationIsMeasured(t *testing.T) {
	folder := t.TempDir()
	figures, plot := filepath.Join(folder, "figures.json"), filepath.Join(folder, "plot.svg")
	err := run(t.Context(), []string{
		"-operations", "metadata,introspect,register,refresh,exchange,flow", "-unpinned", "-connections", "2", "-for", "20ms", "-codes", "4",
		"-processes", "1,2", "-grants", "0,8", "-people", "2", "-clients", "3", "-json", figures, "-svg", plot,
	}, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	r := readReport(t, figures)
	checkPoints(t, r)
	if len(r.GrantBytes) != 2 || r.GrantBytes[0].Grants != 8 || r.Machine.Redis == "" {
		t.Errorf("the report has %+v and Redis %q", r.GrantBytes, r.Machine.Redis)
	}
	checkDrawing(t, plot)
}

// TestStartGuardAndPeersAreMeasured: the report has the start of ours and of the floor, the benchmarks
// of the guard, and operations at servers of others: fosite, and oidc-provider where it is installed.
func TestStartGuardAndPeersAreMeasured(t *testing.T) {
	peers := "fosite"
	if folder := os.Getenv("TYPESCRIPT_SDK"); folder != "" { // scripts/test installs both in one folder
		peers += ",oidc-provider"
		t.Setenv("OIDC_PROVIDER", folder)
		t.Setenv("NODE", os.Getenv("CONFORMANCE_NODE"))
	}
	figures := filepath.Join(t.TempDir(), "figures.json")
	err := run(t.Context(), []string{
		"-operations", "start,guard,refresh", "-peer", peers, "-unpinned", "-connections", "2", "-for", "20ms", "-json", figures,
	}, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	r := readReport(t, figures)
	var started, asked []string
	for _, p := range r.Starts {
		started = append(started, p.Server)
		if p.Millis <= 0 || p.Resident <= 0 || p.Binary <= 0 {
			t.Errorf("%+v", p)
		}
	}
	for _, p := range r.Points {
		asked = append(asked, p.Server)
	}
	slices.Sort(asked)
	all := slices.Sorted(slices.Values(append(strings.Split(peers, ","), "gatehouse", floorName)))
	if !slices.Equal(started, []string{"gatehouse", floorName}) || !slices.Equal(slices.Compact(asked), all) {
		t.Errorf("%v were started, %v asked for a refresh; want %v", started, asked, all)
	}
	if len(r.Guard) != 2 {
		t.Errorf("benchmarks of the guard: %+v", r.Guard)
	}
}

func readReport(t *testing.T, file string) (r report) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// checkPoints requires a point for each operation, server, number of processes and of grants.
func checkPoints(t *testing.T, r report) {
	t.Helper()
	type kind struct {
		operation, server string
		processes, grants int
	}
	found := map[kind]int{}
	for _, p := range r.Points {
		found[kind{p.Operation, p.Server, p.Processes, p.Grants}]++
		if p.Operations < 1 || p.Connections != 2 {
			t.Errorf("%s at %s was done %d times over %d connections", p.Operation, p.Server, p.Operations, p.Connections)
		}
		if asks := p.Operation != "metadata"; asks && p.RoundTrips == 0 {
			t.Errorf("%s at %s did not ask Redis", p.Operation, p.Server)
		}
		if p.Server != floorName && p.Allocations < 0 {
			t.Errorf("%s at %s has no allocations", p.Operation, p.Server)
		}
	}
	for _, op := range operations {
		for _, processes := range []int{1, 2} {
			for _, grants := range []int{0, 8} {
				for _, server := range []string{"gatehouse", floorName} {
					if n := found[kind{op.name, server, processes, grants}]; n != 1 {
						t.Errorf("%d points for %s at %s with %d processes and %d grants", n, op.name, server, processes, grants)
					}
				}
			}
		}
	}
}

// checkDrawing requires a well-formed SVG.
func checkDrawing(t *testing.T, file string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	decoder := xml.NewDecoder(f)
	for first := true; ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if begin, ok := token.(xml.StartElement); ok && first {
			first = false
			if begin.Name.Space != "http://www.w3.org/2000/svg" || begin.Name.Local != "svg" {
				t.Errorf("the plot is %v", begin.Name)
			}
		}
	}
}
