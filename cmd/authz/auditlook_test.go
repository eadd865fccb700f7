package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gatehouse.example/audit/trail"
)

// TestVerbsOfFilesEndAtASignal: also while a pipe that nobody writes to keeps them waiting. One
// that has followed a file ends as asked.
func TestVerbsOfFilesEndAtASignal(t *testing.T) {
	t.Parallel()
	for verb, status := range map[string]int{"audit search": 1, "audit verify": 1, "audit tail": 1, "audit tail -f": 0} {
		pipe := filepath.Join(t.TempDir(), "pipe")
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, signal := context.WithCancel(t.Context())
		reads := make(chan *os.File, 1)
		go func() {
			writer, _ := os.OpenFile(pipe, os.O_WRONLY, 0) // waits until the verb reads
			reads <- writer
			signal()
		}()
		ended := make(chan int, 1)
		var out lockedBuffer
		go func() { ended <- run(ctx, append(strings.Fields(verb), pipe), nil, strings.NewReader(""), &out, &out) }()
		var got int
		select {
		case got = <-ended:
		case <-time.After(deadline):
			t.Fatalf("%s does not end", verb)
		}
		if got != status || strings.Contains(out.String(), "signal") != (status == 1) {
			t.Errorf("%s ends with %d and says %q", verb, got, out.String())
		}
		_ = (<-reads).Close()
	}
	ended, signal := context.WithCancel(t.Context())
	signal()
	file := filepath.Join(t.TempDir(), "file")
	write(t, filepath.Dir(file), "file", "")
	for _, verb := range []string{"audit trace g1", "store verify"} {
		var out bytes.Buffer
		if status := run(ended, append(strings.Fields(verb), file), nil, strings.NewReader(""), &out, &out); status != exitRefused || !strings.Contains(out.String(), "signal") {
			t.Errorf("%s ends with %d and says %q", verb, status, out.String())
		}
	}
}

// TestNoTrail: the verbs that look into trails do not answer "no events" about a file that is none,
// and say when lines of a trail cannot be read. What can be read is printed.
func TestNoTrail(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tr, err := trail.Open(t.Context(), trail.Config{Path: filepath.Join(dir, "good"), Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = tr.Close(t.Context())
	}
	good, readErr := os.ReadFile(filepath.Join(dir, "good"))
	if err := errors.Join(err, readErr); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "text", "no trail\nat all\n")
	write(t, dir, "broken", string(good)+"{}\n")
	for _, test := range []struct{ verb, file, says, and string }{
		{"search", "text", "name another file", ""},
		{"tail", "text", "name another file", ""},
		{"trace nothing", "text", "name another file", ""},
		{"search", "broken", "verify the file", "chain by=server"},
		{"trace nothing", "broken", "verify the file", ""},
	} {
		var out bytes.Buffer
		args := append(strings.Fields("audit "+test.verb), filepath.Join(dir, test.file))
		if status := run(t.Context(), args, nil, strings.NewReader(""), &out, &out); status != exitRefused || !strings.Contains(out.String(), test.says) || !strings.Contains(out.String(), test.and) {
			t.Errorf("%s of a file that is %s ends with %d and says %q", test.verb, test.file, status, out.String())
		}
	}
}
