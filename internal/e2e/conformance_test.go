//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"gatehouse.example/storage/redis/redistest"
)

// conformance returns the command line of the protocol's conformance suite. The variables are set
// by scripts/test; without them the test fails, because a suite that did not run proves nothing.
func conformance(t *testing.T) []string {
	t.Helper()
	node, cli := os.Getenv("CONFORMANCE_NODE"), os.Getenv("CONFORMANCE_CLI")
	if node == "" || cli == "" {
		t.Fatal("CONFORMANCE_NODE and CONFORMANCE_CLI must name node 22 and the suite's index.js; scripts/test sets them")
	}
	return []string{node, cli}
}

var authorizeLine = regexp.MustCompile(`https?://\S+/authorize\?\S+`)

// Both scenarios of the official suite's authorization mode pass. The suite prints the
// address that a person opens; the test opens it, allows, and delivers the redirect.
func TestConformanceSuite(t *testing.T) {
	t.Parallel()
	authz := startAuthz(t, nil)
	port := strings.TrimPrefix(redistest.FreeAddress(t), "127.0.0.1:")
	registration := `{"redirect_uris":["http://127.0.0.1:` + port + `/callback"],"token_endpoint_auth_method":"none"}`
	resp, err := http.Post(authz.URL+"/register", "application/json", strings.NewReader(registration))
	if err != nil {
		t.Fatal(err)
	}
	_, client := readJSON(t, resp)
	results := t.TempDir()
	args := append(conformance(t), "authorization", "--url", authz.URL, "--client-id", client["client_id"].(string),
		"--resource", devResource, "-p", port, "-o", results)
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	output := answerPrompts(t, stdout)
	err = cmd.Wait()
	t.Log(output)
	if err != nil {
		t.Fatalf("the suite failed: %v", err)
	}
	for _, scenario := range []string{"authorization-server-metadata-endpoint", "authorization-code-grant"} {
		if !regexp.MustCompile(`✓ (authorization-server-)?` + scenario + `: \d+ passed, 0 failed`).MatchString(output) {
			t.Errorf("scenario %s did not pass", scenario)
		}
	}
	mustSucceed(t, results)
}

// mustSucceed reads the results of single checks, because the summary of the suite does not count
// warnings: every check must be a success or informational.
func mustSucceed(t *testing.T, results string) {
	t.Helper()
	successes := 0
	for _, c := range checksIn(t, results) {
		switch c.Status {
		case "SUCCESS":
			successes++
		case "INFO":
		default:
			t.Errorf("%s: %s (%s): %s", c.Status, c.Name, c.ID, c.ErrorMessage)
		}
	}
	if successes < 3 {
		t.Errorf("the suite wrote down %d successes", successes)
	}
}

// suiteCheck is the result of a single check of the suite.
type suiteCheck struct{ Scenario, ID, Name, Status, ErrorMessage string }

// timeOfRun ends the name of the folder with the results of a scenario.
var timeOfRun = regexp.MustCompile(`-\d{4}-\d\d-\d\dT[\d-]+Z$`)

// checksIn reads the results that the suite has written.
func checksIn(t *testing.T, results string) (all []suiteCheck) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(results, "*", "checks.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var checks []suiteCheck
		if err := json.Unmarshal(text, &checks); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, c := range checks {
			c.Scenario = timeOfRun.ReplaceAllString(filepath.Base(filepath.Dir(file)), "")
			all = append(all, c)
		}
	}
	return all
}

// answerPrompts reads the output of the suite and does what it asks of a person.
func answerPrompts(t *testing.T, stdout io.Reader) string {
	t.Helper()
	var said strings.Builder
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		said.WriteString(lines.Text() + "\n")
		address := authorizeLine.FindString(lines.Text())
		if address == "" {
			continue
		}
		deliver(t, allow(t, newBrowser(t), address).String())
	}
	return said.String()
}

// deliver sends the redirect to the suite, which prints the address to open before it listens for
// the answer.
func deliver(t *testing.T, redirect string) {
	t.Helper()
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	for deadline := time.Now().Add(patience); ; {
		resp, err := client.Get(redirect)
		switch {
		case err == nil:
			resp.Body.Close()
			return
		case !errors.Is(err, syscall.ECONNREFUSED) || time.Now().After(deadline):
			t.Fatal(err)
		}
		<-time.After(20 * time.Millisecond)
	}
}
