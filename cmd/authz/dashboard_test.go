package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// expressions returns what the panels of a dashboard ask Prometheus, also those within rows.
func expressions(panels []dashboardPanel) (all []string) {
	for _, panel := range panels {
		for _, target := range panel.Targets {
			all = append(all, target.Expr)
		}
		all = append(all, expressions(panel.Panels)...)
	}
	return all
}

type dashboardPanel struct {
	Targets []struct {
		Expr string `json:"expr"`
	} `json:"targets"`
	Panels []dashboardPanel `json:"panels"`
}

// Prometheus can read each expression of the dashboard, as a rule that records it. Grafana fills in its
// variables before it asks.
func TestDashboardExpressionsAreRead(t *testing.T) {
	tool := promtool(t)
	text, err := os.ReadFile(filepath.Join(forPrometheus, "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []dashboardPanel `json:"panels"`
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	all := expressions(dashboard.Panels)
	if len(all) < 40 || len(all) != strings.Count(string(text), `"expr":`) {
		t.Fatalf("%d expressions are found", len(all))
	}
	variables := strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*")
	var rules strings.Builder
	rules.WriteString("groups:\n- name: dashboard\n  rules:\n")
	for i, expr := range all {
		quoted, _ := json.Marshal(variables.Replace(expr)) // a string of JSON is one of YAML
		fmt.Fprintf(&rules, "  - record: panel:%d\n    expr: %s\n", i, quoted)
	}
	path := filepath.Join(t.TempDir(), "dashboard.yaml")
	if err := os.WriteFile(path, []byte(rules.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.CommandContext(t.Context(), tool, "check", "rules", path).CombinedOutput(); err != nil {
		t.Errorf("promtool check rules: %v\n%s", err, said)
	}
}
