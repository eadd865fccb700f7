//go:build e2e && clients

package doctor_test

import (
	"context"
	"encoding/json"
	"net/url"
	"path/filepath"
	"regexp"
	"time"
)

// vscode signs in from the page of a VS Code that runs as a server (code-server). Its client of this
// protocol is that of the program on the desktop, and runs on the server too.
func (d *driven) vscode(target string) (bool, string) {
	settings, _ := json.Marshal(map[string]any{"security.workspace.trust.enabled": false, "workbench.startupEditor": "none", "workbench.secondarySideBar.defaultVisibility": "hidden"})
	d.write(filepath.Join(d.root, "user", "User", "settings.json"), string(settings))
	servers, _ := json.Marshal(map[string]any{"servers": map[string]any{"notes": map[string]string{"type": "http", "url": target}}})
	d.write(filepath.Join(d.root, "work", ".vscode", "mcp.json"), string(servers))
	ctx, cancel := context.WithTimeout(d.t.Context(), 4*slow)
	defer cancel()
	server := d.command(ctx, "/usr/bin/env", "node", filepath.Join(d.folder, "code-server/node_modules/code-server/lib/vscode/out/server-main.js"),
		"--host", "127.0.0.1", "--port", "0", "--without-connection-token", "--accept-server-license-terms",
		"--user-data-dir", filepath.Join(d.root, "user"), "--server-data-dir", filepath.Join(d.root, "data"))
	out := &buffer{}
	server.Stdout, server.Stderr = out, out
	if err := server.Start(); err != nil {
		d.t.Fatal(err)
	}
	done := startWaiting(server)
	defer func() { cancel(); <-done }()
	page := chromiumPage(d.t)
	page.open(waitFor(d, out, `Web UI available at (http://localhost:\d+)`) + "/?folder=" + url.QueryEscape(filepath.Join(d.root, "work")))
	page.waits(".monaco-workbench .part.statusbar")
	page.picks(">MCP: List Servers", "MCP: List Servers")
	page.picks("notes", "notes")
	page.picks("Start", "Start Server")
	return page.outcome()
}

// waitFor returns the group of an expression when a program has printed it.
func waitFor(d *driven, out *buffer, expression string) string {
	d.t.Helper()
	for end := time.Now().Add(slow); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if m := regexp.MustCompile(expression).FindStringSubmatch(out.String()); m != nil {
			return m[1]
		}
	}
	d.t.Fatalf("it never prints %s:\n%s", expression, out)
	return ""
}
