package settings

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// written is a file that somebody writes when the first bytes have been read.
type written struct {
	*os.File
	write func()
}

// Read implements fs.File.
func (w *written) Read(to []byte) (int, error) {
	n, err := w.File.Read(to[:min(len(to), 4)])
	if w.write != nil {
		w.write()
		w.write = nil
	}
	return n, err
}

var _ fs.File = (*written)(nil)

// TestAFileThatIsWrittenMeanwhileIsAnError: also when it is as long as before.
func TestAFileThatIsWrittenMeanwhileIsAnError(t *testing.T) {
	for what, text := range map[string]string{"longer": "0123456789", "shorter": "01", "as long": "76543210"} {
		name := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(name, []byte("01234567"), 0o600); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := openNow(name)
		if err != nil {
			t.Fatal(err)
		}
		data, err := readSteady(&written{f, func() {
			err := os.WriteFile(name, []byte(text), 0o600)
			if err == nil {
				err = os.Chtimes(name, info.ModTime().Add(1), info.ModTime().Add(1)) // clocks of file systems may be coarse
			}
			if err != nil {
				t.Error(err)
			}
		}}, name, 100)
		if err == nil || !strings.Contains(err.Error(), "was written while it was read") {
			t.Errorf("%s: %q, %v", what, data, err)
		}
		f.Close()
		if again, err := ReadAtMost(name, 100); err != nil || string(again) != text {
			t.Errorf("%s: %q, %v", what, again, err)
		}
	}
}

// TestPipes: a pipe is read to its end, as in a shell authz serve --config <(…).
func TestPipes(t *testing.T) {
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	text := bytes.Repeat([]byte("x"), 1<<17)
	go func() {
		_, _ = to.Write(text)
		_ = to.Close()
	}()
	name := filepath.Join("/dev/fd", fmt.Sprint(from.Fd()))
	if data, err := ReadAtMost(name, 1<<20); err != nil || !bytes.Equal(data, text) {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	if data, err := ReadAtMost(name, 1<<20); err == nil || !strings.Contains(err.Error(), "nobody writes") {
		t.Errorf("a second time: %d bytes, %v", len(data), err)
	}
}
