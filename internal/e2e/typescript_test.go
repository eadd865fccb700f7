//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// typescript returns node and the folder in which the official TypeScript SDK is
// installed. scripts/test sets the variables; a test that cannot run it fails.
func typescript(t *testing.T) (node, sdk string) {
	t.Helper()
	node, sdk = os.Getenv("CONFORMANCE_NODE"), os.Getenv("TYPESCRIPT_SDK")
	if node == "" || sdk == "" {
		t.Fatal("CONFORMANCE_NODE and TYPESCRIPT_SDK must name node 22 and the folder of the TypeScript SDK; scripts/test sets them")
	}
	return node, sdk
}

// The official TypeScript client, which most desktop clients are built on, does everything
// on its own: it finds and registers with the server, signs a person in, calls tools, and
// refreshes when a token is refused. What it is asked to open, the test opens.
func TestTypeScriptClientConnectsAndRefreshes(t *testing.T) {
	t.Parallel()
	node, sdk := typescript(t)
	for name, redirect := range map[string]string{
		"loopback":  "http://127.0.0.1:41999/callback",
		"localhost": "http://localhost:41999/callback",
		"web":       "https://client.example.com/callback",
		"app":       "cursor://anysphere.cursor-mcp/oauth/callback",
	} {
		t.Run(name, func(t *testing.T) {
			_, demo := startPair(t)
			ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, node, filepath.Join("testdata", "typescript.mjs"), demo.URL+"/mcp", redirect)
			cmd.Env = append(cleanEnvironment(), "TYPESCRIPT_SDK="+sdk)
			got := converse(t, cmd, func(page string) *url.URL { return allow(t, newBrowser(t), page) })
			want := []string{
				`{"connected":"notes:read notes:write","session":true}`,
				`{"tools":["add_note","list_notes","whoami"]}`,
				`{"added":{"count":1}}`,
				`{"listed":{"notes":["milk"]},"rotated":true}`,
				`{"grants":["authorization_code","refresh_token"]}`,
			}
			if !slices.Equal(got, want) {
				t.Errorf("the client reports\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// converse runs a client, answers the pages that it opens, and returns its other reports.
func converse(t *testing.T, cmd *exec.Cmd, answer func(page string) *url.URL) []string {
	t.Helper()
	var complaints lockedBuffer
	cmd.Stderr = &complaints
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	reports := answerPages(t, stdout, stdin, answer)
	if err := cmd.Wait(); err != nil {
		t.Errorf("the client: %v\n%s", err, complaints.String())
	}
	return reports
}

func answerPages(t *testing.T, said io.Reader, answers io.Writer, answer func(page string) *url.URL) []string {
	t.Helper()
	var reports []string
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		var prompt struct{ Open string }
		if err := json.Unmarshal(lines.Bytes(), &prompt); err != nil {
			t.Errorf("the client says %q: %v", lines.Text(), err)
		}
		if prompt.Open == "" {
			reports = append(reports, lines.Text())
			continue
		}
		if _, err := fmt.Fprintln(answers, answer(prompt.Open)); err != nil {
			t.Error(err)
		}
	}
	return reports
}
