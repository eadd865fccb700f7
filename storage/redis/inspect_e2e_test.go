//go:build e2e

package redis_test

import (
	"errors"
	"strings"
	"testing"

	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/redis/redistest"
)

// TestOpenInspects: Open reads how a real server keeps records.
func TestOpenInspects(t *testing.T) {
	cases := []struct {
		name    string
		args    []string
		refused bool
		warning string // a part of the only warning; "" for none
	}{
		{"durable", []string{"--appendonly", "yes", "--appendfsync", "always"}, false, ""},
		{"no append-only file", nil, false, "appendonly is off"},
		{"written once a second", []string{"--appendonly", "yes", "--appendfsync", "everysec"}, false, "appendfsync is everysec"},
		{"evicts the least recently used", []string{"--maxmemory-policy", "allkeys-lru"}, true, ""},
		{"evicts what expires", []string{"--maxmemory-policy", "volatile-ttl"}, true, ""},
		{"CONFIG is not there, durable", []string{"--rename-command", "CONFIG", "", "--appendonly", "yes"}, false, ""},
		{"CONFIG is not there, evicts", []string{"--rename-command", "CONFIG", "", "--maxmemory-policy", "allkeys-random"}, true, ""},
		{"nothing can be asked", []string{"--rename-command", "CONFIG", "", "--rename-command", "INFO", ""}, false, "does not report"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var warnings []string
			backend, err := redis.Open(t.Context(), redis.Options{
				URL: redistest.StartServer(t, c.args...), OnWarning: func(w string) { warnings = append(warnings, w) },
			})
			if errors.Is(err, redis.ErrEvicts) != c.refused || (err != nil) != c.refused {
				t.Fatalf("error %v, refused should be %v", err, c.refused)
			}
			if c.refused {
				return
			}
			defer backend.Close()
			if got := strings.Join(warnings, "|"); (c.warning == "") != (got == "") || !strings.Contains(got, c.warning) || len(warnings) > 1 {
				t.Errorf("warnings %q, want %q", got, c.warning)
			}
		})
	}
}
