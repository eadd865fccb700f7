package redis

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps: the driver stands on storage and on the two Redis libraries, so that every
// rule about records stays in storage and every driver needs only that. Its servers for
// tests are looked behind, and their network broken.
func TestDeps(t *testing.T) {
	deptest.Check(t, ".", deptest.Rule{Allowed: []string{
		"gatehouse.example/storage", "gatehouse.example/storage/redis/internal/failover", "github.com/redis/go-redis/v9/...", "github.com/alicebob/miniredis/v2/...",
	}})
	deptest.Check(t, "redistest", deptest.Rule{ForTests: true, Allowed: []string{
		"github.com/redis/go-redis/v9/...", "github.com/Shopify/toxiproxy/v2/...", "github.com/rs/zerolog",
	}})
	deptest.Check(t, "internal/sim", deptest.Rule{Allowed: []string{"github.com/redis/go-redis/v9"}})
}
