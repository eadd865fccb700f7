package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"gatehouse.example/middleware/middlewaretest"
)

// forPrometheus is the folder with the rules and the dashboard.
const forPrometheus = "../../docs/examples/prometheus"

// alertRules are the alerts of the file.
func alertRules(t *testing.T) (rules []struct{ Alert, Expr string }) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(forPrometheus, "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil || len(file.Groups) != 1 || len(file.Groups[0].Rules) == 0 {
		t.Fatalf("%d groups, %v", len(file.Groups), err)
	}
	return file.Groups[0].Rules
}

// scrape returns what a process shows to Prometheus at an address.
func scrape(t *testing.T, addr string) string {
	t.Helper()
	status, text := get(t, http.DefaultClient, "http://"+addr+"/metrics")
	if status != http.StatusOK {
		t.Fatalf("/metrics: %d %s", status, text)
	}
	return text
}

// adminAddress returns an address on which nothing listens now.
func adminAddress(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(nil)
	defer server.Close()
	return server.Listener.Addr().String()
}

// everything returns what a server, a gateway and a registry with all that is measured show.
func everything(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	writeCertificate(t, dir)
	server := start(t, nil, "--dev", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--tls-cert", dir+"/cert.pem", "--tls-key", dir+"/key.pem", "--audit", dir+"/audit.jsonl")
	atGateway, atRegistry := adminAddress(t), adminAddress(t)
	startGateway(t, deadline, nil, "--issuer", middlewaretest.NewIssuer(t).URL(), "--upstream", echo(t), "--admin-listen", atGateway)
	startRegistry(t, nil, "--admin-listen", atRegistry)
	return scrape(t, server.shown("admin on")) + scrape(t, atGateway) + scrape(t, atRegistry)
}

var metricName = regexp.MustCompile(`\b(?:gatehouse|go|process)_[a-z_]*[a-z]\b`)

// Every metric that the rules, the dashboard and the documentation name is there.
func TestMetricsThatAreNamedExist(t *testing.T) {
	shown := everything(t)
	for _, path := range []string{forPrometheus + "/alerts.yaml", forPrometheus + "/alerts_test.yaml", forPrometheus + "/dashboard.json", "../../docs/operations.md", "../../docs/registry.md"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		names := metricName.FindAllString(string(text), -1)
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			family := strings.TrimSuffix(name, "_bucket")
			if !strings.Contains(shown, "# TYPE "+family+" ") {
				t.Errorf("%s names %s, which no process has", path, name)
			}
		}
	}
}

// Every metric of ours stands in the documentation.
func TestMetricsAreDocumented(t *testing.T) {
	var pages string
	for _, page := range []string{"operations.md", "registry.md"} {
		text, err := os.ReadFile("../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		pages += string(text)
	}
	for _, line := range regexp.MustCompile(`(?m)^# TYPE (gatehouse_\w+)`).FindAllStringSubmatch(everything(t), -1) {
		if short := regexp.MustCompile(`^gatehouse_[a-z]+`).ReplaceAllString(line[1], ""); !strings.Contains(pages, line[1]) && !strings.Contains(pages, "`"+short+"`") {
			t.Errorf("%s is not in the documentation", line[1])
		}
	}
}

// Every alert has a section for whoever is called, and a test in which it fires.
func TestAlertsHaveARunbook(t *testing.T) {
	operations, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile(filepath.Join(forPrometheus, "alerts_test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	rules := alertRules(t)
	for _, rule := range rules {
		if !strings.Contains(string(operations), "# "+rule.Alert+"\n") {
			t.Errorf("%s has no section in docs/operations.md", rule.Alert)
		}
		if !strings.Contains(string(tests), "alertname: "+rule.Alert+"\n        exp_alerts:\n          - ") {
			t.Errorf("%s fires in no test", rule.Alert)
		}
	}
	if sections := strings.Count(string(operations), "# Gatehouse"); sections != len(rules) {
		t.Errorf("%d sections for %d alerts", sections, len(rules))
	}
}

// promtool returns the program that checks rules. scripts/test installs it and sets PROMTOOL.
func promtool(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("PROMTOOL"); path != "" {
		return path
	}
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not here: alert rules are not evaluated; scripts/test installs it")
	}
	return path
}

// Prometheus accepts the rules, and each alert is silent before its fault and fires after it.
func TestAlertsFire(t *testing.T) {
	tool := promtool(t)
	for _, args := range [][]string{{"check", "rules", "alerts.yaml"}, {"test", "rules", "alerts_test.yaml"}} {
		command := exec.CommandContext(t.Context(), tool, args...)
		command.Dir = forPrometheus
		if said, err := command.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, said)
		}
	}
}

// Prometheus can read what the processes show, and its linter has nothing to say.
func TestMetricsAreWellFormed(t *testing.T) {
	tool := promtool(t)
	dir := t.TempDir()
	writeCertificate(t, dir)
	server := start(t, nil, "--dev", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--tls-cert", dir+"/cert.pem", "--tls-key", dir+"/key.pem")
	command := exec.CommandContext(t.Context(), tool, "check", "metrics")
	command.Stdin = strings.NewReader(scrape(t, server.shown("admin on")))
	if said, err := command.CombinedOutput(); err != nil {
		t.Errorf("promtool check metrics: %v\n%s", err, said)
	}
}
