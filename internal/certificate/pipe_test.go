//go:build unix

package certificate

import (
	"os"
	"syscall"
	"testing"
)

// TestPipesAreReadOnce: a look at a pipe does not wait for somebody to write to it, and the pair stays.
func TestPipesAreReadOnce(t *testing.T) {
	for _, part := range []string{"certificate", "key"} {
		t.Run(part, func(t *testing.T) {
			f := open(t, issue(t, 1, year))
			path := map[string]string{"certificate": f.cert, "key": f.key}[part]
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
			if got := f.look(3); got != 1 || f.lines.Len() > 0 {
				t.Errorf("certificate %d, log %s", got, &f.lines)
			}
		})
	}
}
