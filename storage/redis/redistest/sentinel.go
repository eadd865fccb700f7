package redistest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// StartSentinel starts a sentinel that watches the server at a redis:// URL under name,
// and returns its redis+sentinel:// URL. Its own vote is enough for a failover.
func StartSentinel(t testing.TB, name, server string) (url string) {
	t.Helper()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(server, "redis://"))
	if err != nil {
		t.Fatalf("redistest: %q is not redis://host:port", server)
	}
	s := launch(t, func(s *Server) []string {
		config := filepath.Join(s.dir, "sentinel.conf")
		text := fmt.Sprintf("sentinel monitor %s %s %s 1\n", name, host, port)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatalf("redistest: %v", err)
		}
		return []string{config, "--sentinel"}
	})
	return "redis+sentinel://" + s.Addr + "/" + name
}
