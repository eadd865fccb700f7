//go:build e2e && clients

package doctor_test

import (
	"context"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// gemini signs in from a session of Gemini CLI, which starts with any key. The session offers the
// sign-in for the servers that it lists at /mcp auth: those that answered 401 when it connected.
func (d *driven) gemini(target string) (bool, string) {
	program := []string{"/usr/bin/env", "node", filepath.Join(d.folder, "gemini/node_modules/.bin/gemini")}
	d.write(filepath.Join(d.home, ".gemini", "settings.json"), `{"security":{"auth":{"selectedType":"gemini-api-key"},"folderTrust":{"enabled":false}},`+
		`"general":{"enableAutoUpdate":false},"privacy":{"usageStatisticsEnabled":false}}`)
	add := append(program, "mcp", "add", "--scope", "user", "--transport", "http", "notes", target)
	if out, err := d.command(d.t.Context(), add...).CombinedOutput(); err != nil {
		d.t.Fatalf("%v: %s", err, out)
	}
	var stop context.CancelFunc
	return d.arrives(func(ctx context.Context) *exec.Cmd {
		ctx, stop = context.WithCancel(ctx)
		return d.terminal(ctx, append(program, "--screen-reader")...)
	}, func(out *buffer, stdin io.Writer) {
		defer stop()
		s := &session{out: out, stdin: stdin}
		s.waits(20*time.Second, 0, "1 MCP server")
		if s.asks("/mcp auth", "Use /mcp auth <server-name>", "No MCP servers configured with OAuth", 3) &&
			s.asks("/mcp auth notes", "Do you want to continue?", "Failed to authenticate", 1) {
			s.types("\r")
			s.waits(20*time.Second, 0, "Failed to authenticate") // the page is opened meanwhile
		}
	})
}

// session is a program on a terminal that takes commands.
type session struct {
	out   *buffer
	stdin io.Writer
}

// types sends keys with a pause after each: a program that redraws its screen takes keys without
// a pause for pasted text.
func (s *session) types(keys ...string) {
	for _, key := range keys {
		_, _ = io.WriteString(s.stdin, key)
		time.Sleep(time.Second)
	}
}

// waits returns the text that is printed first after what was printed at from, "" if it takes
// longer than the patience.
func (s *session) waits(patience time.Duration, from int, texts ...string) string {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		for _, text := range texts {
			if strings.Contains(s.out.String()[from:], text) {
				return text
			}
		}
	}
	return ""
}

// asks types a command until it is answered: yes once, or no as often as it may be no while the
// session starts. A command that is typed before the session takes any is dropped by Escape.
func (s *session) asks(command, yes, no string, often int) bool {
	for refused, tries := 0, 0; refused < often && tries < 6; tries++ {
		from := len(s.out.String())
		s.types(command, "\r")
		switch s.waits(8*time.Second, from, yes, no) {
		case yes:
			return true
		case no:
			refused++
			time.Sleep(time.Second) // the rest of its text
		default:
			s.types("\x1b")
		}
	}
	return false
}
