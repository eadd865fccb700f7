//go:build e2e

package faults

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/storage/redis/redistest"
)

// prometheus is the program of that name; scripts/alerts finds it.
var prometheus = flag.String("faults.prometheus", "", "the Prometheus server that evaluates the alert rules")

// firingTime bounds the time in which every alert fires.
const firingTime = 4 * time.Minute

// rulesFile has the alert rules for users.
const rulesFile = "../../docs/examples/prometheus/alerts.yaml"

// alarm is an alert about one process.
type alarm struct{ alert, instance string }

// fault is what a test does to one process, and the alerts that must follow. Others may follow.
type fault struct {
	instance string
	alerts   []string
	others   []string
	early    bool                      // the process starts with it
	heavy    bool                      // it takes all processors
	cause    func(ctx context.Context) // returns when ctx ends, or before
}

// watch is a Prometheus that watches processes by the rules for users. Only the times for which a
// rule waits are shorter.
type watch struct {
	t       *testing.T
	api     string
	targets []string
}

// target returns an address for the admin listener of a process that is watched.
func (w *watch) target() string {
	w.t.Helper()
	address := redistest.FreeAddress(w.t)
	w.targets = append(w.targets, address)
	return address
}

// run runs a program until the test ends.
func (w *watch) run(binary string, environment []string, args ...string) *os.Process {
	w.t.Helper()
	output := &tail{}
	cmd := exec.Command(binary, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = environment, output, output
	endWithParent(cmd)
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if w.t.Failed() {
			w.t.Logf("%s, the end of its output:\n%s", strings.Join(args, " "), output)
		}
	})
	return cmd.Process
}

// begin starts Prometheus, and returns when it has seen every process.
func (w *watch) begin() {
	w.t.Helper()
	dir := w.t.TempDir()
	rules, err := os.ReadFile(rulesFile)
	if err != nil {
		w.t.Fatal(err)
	}
	shorter := regexp.MustCompile(`(?m)^( +for:) .*$`).ReplaceAll(rules, []byte("$1 4s"))
	config := fmt.Sprintf(`global: {scrape_interval: 2s, scrape_timeout: 2s, evaluation_interval: 2s}
rule_files: [rules.yaml]
scrape_configs:
  - job_name: gatehouse
    static_configs: [{targets: [%s]}]
`, strings.Join(w.targets, ", "))
	for name, text := range map[string][]byte{"rules.yaml": shorter, "prometheus.yaml": []byte(config)} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	address := redistest.FreeAddress(w.t)
	w.api = "http://" + address + "/api/v1/"
	w.run(*prometheus, os.Environ(), "--config.file="+dir+"/prometheus.yaml", "--storage.tsdb.path="+dir+"/data", "--web.listen-address="+address)
	eventually(w.t, firingTime, func() error {
		if up := w.seen(); len(up) != len(w.targets) {
			return fmt.Errorf("Prometheus sees %d of %d processes: %v", len(up), len(w.targets), up)
		}
		return nil
	})
}

// ask asks Prometheus, and decodes its answer.
func (w *watch) ask(path string, into any) {
	resp, err := http.Get(w.api + path)
	if err != nil {
		return // it has just begun
	}
	defer resp.Body.Close()
	_ = json.NewDecoder(resp.Body).Decode(into)
}

// seen returns the processes that answer Prometheus.
func (w *watch) seen() (up []string) {
	var answer struct {
		Data struct {
			ActiveTargets []struct {
				Health string
				Labels map[string]string
			}
		}
	}
	w.ask("targets", &answer)
	for _, target := range answer.Data.ActiveTargets {
		if target.Health == "up" {
			up = append(up, target.Labels["instance"])
		}
	}
	return up
}

// firing returns the alerts that fire now.
func (w *watch) firing() map[alarm]bool {
	var answer struct {
		Data struct {
			Alerts []struct {
				State  string
				Labels map[string]string
			}
		}
	}
	w.ask("alerts", &answer)
	all := map[alarm]bool{}
	for _, a := range answer.Data.Alerts {
		if a.State == "firing" {
			all[alarm{a.Labels["alertname"], a.Labels["instance"]}] = true
		}
	}
	return all
}

// TestEachAlertFiresByItsFault runs servers, gateways and a registry under a real Prometheus with
// the rules for users, and causes the fault of each alert. Each fires for the process that has the
// fault. None fires before, and none for a process that has other faults or none.
func TestEachAlertFiresByItsFault(t *testing.T) {
	if *prometheus == "" {
		t.Skip("scripts/alerts runs this, with Prometheus")
	}
	w := &watch{t: t}
	faults := w.faults()
	mustCoverTheRules(t, faults)
	w.begin()
	time.Sleep(10 * time.Second) // five evaluations without a fault
	for a := range w.firing() {
		if !slices.ContainsFunc(faults, func(f fault) bool { return f.early && f.instance == a.instance }) {
			t.Errorf("%s fires for %s before its fault", a.alert, a.instance)
		}
	}
	heavy := func(f fault) bool { return f.heavy }
	// What takes all processors comes alone: it would make the stores of others slow.
	w.cause(faults, heavy)
	w.cause(faults, func(f fault) bool { return !heavy(f) })
}

// cause causes the chosen faults, and returns when each alert has fired.
func (w *watch) cause(faults []fault, chosen func(fault) bool) {
	w.t.Helper()
	ctx, end := context.WithCancel(w.t.Context())
	var causing sync.WaitGroup
	defer causing.Wait()
	defer end()
	wanted := map[alarm]bool{}
	for _, f := range faults {
		if !chosen(f) {
			continue
		}
		causing.Go(func() { f.cause(ctx) })
		for _, name := range f.alerts {
			wanted[alarm{name, f.instance}] = true
		}
	}
	began, fired := time.Now(), map[alarm]bool{}
	eventually(w.t, firingTime, func() error {
		for a := range w.firing() {
			if !fired[a] {
				fired[a] = true
				w.judge(faults, a, time.Since(began).Round(time.Second))
			}
		}
		var missing []error
		for a := range wanted {
			if !fired[a] {
				missing = append(missing, fmt.Errorf("%s does not fire", a.alert))
			}
		}
		return errors.Join(missing...)
	})
}

// judge reports an alert that fires, and whether it follows from the fault of its process.
func (w *watch) judge(faults []fault, a alarm, after time.Duration) {
	w.t.Helper()
	i := slices.IndexFunc(faults, func(f fault) bool { return f.instance == a.instance })
	switch {
	case i < 0:
		w.t.Errorf("%s fires for %s, which is no process", a.alert, a.instance)
	case !slices.Contains(slices.Concat(faults[i].alerts, faults[i].others), a.alert):
		w.t.Errorf("%s fires after %s for the process with the fault of %q, where nothing is the matter with that", a.alert, after, faults[i].alerts)
	default:
		w.t.Logf("%s fires %s after its fault", a.alert, after)
	}
}

// mustCoverTheRules compares the alerts of the faults with those of the rules.
func mustCoverTheRules(t *testing.T, faults []fault) {
	t.Helper()
	rules, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	var named, caused []string
	for _, found := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(rules), -1) {
		named = append(named, found[1])
	}
	for _, f := range faults {
		caused = append(caused, f.alerts...)
	}
	slices.Sort(named)
	slices.Sort(caused)
	if !slices.Equal(named, caused) {
		t.Fatalf("the rules have %q, the faults cause %q", named, caused)
	}
}

// again does something several times in a second until ctx ends.
func again(ctx context.Context, do func()) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do()
		}
	}
}
