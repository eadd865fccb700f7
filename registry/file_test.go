package registry_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gatehouse.example/registry"
)

// clock is a clock that tests move.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

func (c *clock) advance(d time.Duration) { c.now = c.now.Add(d) }

// write replaces a file and gives it another modification time.
func write(t *testing.T, path, text string, at time.Time) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

func TestMetaFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meta.json")
	clock := &clock{now: time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)}
	logs := &bytes.Buffer{}
	config := registry.FileConfig{Path: path, Now: clock.Now, Logger: slog.New(slog.NewTextHandler(logs, nil))}
	if _, err := registry.OpenMetaFile(config, nil); err == nil {
		t.Error("a file that is not there is accepted")
	}
	write(t, path, `{"com.example.notes/mcp": {"stars": 4, "scan":"none"}, "com.example.notes/mcp@1.0.0":{"scan":  "clean"}}`, clock.Now())
	file, err := registry.OpenMetaFile(config, nil)
	if err != nil {
		t.Fatal(err)
	}
	says := func(version string) string {
		t.Helper()
		said, err := file.Enrich(ownItems(t, registry.OwnServer{URL: "https://notes.example.com/mcp", Version: version})[0])
		if err != nil {
			t.Error(err)
		}
		return string(said)
	}
	if got := says("1.0.0"); got != `{"scan":  "clean","stars": 4}` {
		t.Errorf("%s", got)
	}
	if got := says("2.0.0"); got != `{"stars": 4, "scan":"none"}` {
		t.Errorf("%s", got)
	}
	revision := file.Revision()

	clock.advance(10 * time.Second)
	if file.Revision() != revision {
		t.Error("another revision of the same file")
	}
	write(t, path, `{"com.example.notes/mcp":{"stars":5}}`, clock.Now())
	if says("2.0.0") == `{"stars":5}` {
		t.Error("the file is looked at more often than once a second")
	}
	clock.advance(time.Second)
	if got := says("2.0.0"); got != `{"stars":5}` || file.Revision() == revision {
		t.Errorf("%s", got)
	}
	revision = file.Revision()

	// A file that was written twice at once, with the same size, was read in between.
	write(t, path, `{"com.example.notes/mcp":{"stars":3}}`, clock.Now().Add(-time.Second))
	clock.advance(time.Second)
	if says("2.0.0") != `{"stars":3}` || file.Revision() == revision {
		t.Error("the second version of a file is not seen")
	}
	at := clock.Now()
	write(t, path, `{"com.example.notes/mcp":{"stars":2}}`, at)
	clock.advance(time.Second)
	says("2.0.0")
	write(t, path, `{"com.example.notes/mcp":{"stars":1}}`, at)
	clock.advance(time.Second)
	if says("2.0.0") != `{"stars":1}` {
		t.Error("the third version of a file is not seen")
	}
	revision = file.Revision()

	for _, broken := range []string{`{`, `[]`, `{"com.example.notes/mcp":5}`, `{"no name":{}}`, `{"com.example.notes/mcp@latest":{}}`, `{"com.example.notes/mcp":{},"com.example.notes/mcp":{}}`,
		`{"com.example.notes/mcp":{"a":"` + strings.Repeat("a", 40<<10) + `"}}`} {
		write(t, path, broken, clock.Now())
		for range 3 {
			clock.advance(5 * time.Second)
			if says("2.0.0") != `{"stars":1}` || file.Revision() != revision {
				t.Errorf("a file with %.50s counts", broken)
			}
		}
		if _, err := registry.OpenMetaFile(config, nil); err == nil {
			t.Errorf("%.50s is accepted", broken)
		}
	}
	if n := strings.Count(logs.String(), "cannot be used"); n != 7 {
		t.Errorf("it is logged %d times:\n%s", n, logs)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	clock.advance(time.Minute)
	if says("2.0.0") != `{"stars":1}` {
		t.Error("without a file nothing holds")
	}
	write(t, path, `{"com.example.notes/mcp":{"stars":9}}`, clock.Now())
	clock.advance(time.Minute)
	if says("2.0.0") != `{"stars":9}` {
		t.Error("the file that is there again is not read")
	}
	// Each time that a file is gone is logged once, also if the same file came back in between.
	at = clock.Now()
	for _, back := range []time.Time{at, at, at.Add(time.Second)} {
		logs.Reset()
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			clock.advance(time.Minute)
			says("2.0.0")
		}
		if n := strings.Count(logs.String(), "no such file"); n != 1 {
			t.Errorf("it is logged %d times that the file is gone:\n%s", n, logs)
		}
		write(t, path, `{"com.example.notes/mcp":{"stars":9}}`, back)
		for range 3 {
			clock.advance(time.Minute)
			if says("2.0.0") != `{"stars":9}` {
				t.Error("the file that came back does not count")
			}
		}
	}
}

func TestOwnFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "servers")
	clock := &clock{now: time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)}
	decode := func(data []byte) (servers []registry.OwnServer, err error) {
		for line := range strings.Lines(string(data)) {
			servers = append(servers, registry.OwnServer{URL: strings.TrimSpace(line)})
		}
		return servers, nil
	}
	open := func() (*registry.OwnFile, error) {
		return registry.OpenOwnFile(registry.FileConfig{Path: path, Now: clock.Now}, decode)
	}
	for _, broken := range []string{"notes\n", "https://notes.example.com/mcp\nhttps://notes.example.com/mcp\n"} {
		write(t, path, broken, clock.Now())
		if _, err := open(); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v", broken, err)
		}
	}
	write(t, path, "https://notes.example.com/mcp\n", clock.Now())
	file, err := open()
	if err != nil {
		t.Fatal(err)
	}
	names := func() string {
		var names []string
		for _, item := range file.Items() {
			names = append(names, item.Record.Name())
		}
		return fmt.Sprint(names)
	}
	if got := names(); got != "[com.example.notes/mcp]" {
		t.Error(got)
	}
	write(t, path, "https://files.example.com/mcp\n", clock.Now())
	clock.advance(time.Second)
	if got := names(); got != "[com.example.files/mcp]" {
		t.Error(got)
	}
}
