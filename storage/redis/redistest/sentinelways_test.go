//go:build e2e

package redistest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"gatehouse.example/storage/redis/redistest"
)

// TestDivideSentinels: a primary and one sentinel are cut off from two sentinels and a replica.
// The majority promotes the replica, which the cut-off ones do not learn until they are united.
func TestDivideSentinels(t *testing.T) {
	t.Parallel()
	d := redistest.StartDivisibleSentinels(t, redistest.Config{Persistent: true}, 1, downAfter)
	old, next := d.Name(d.Primary), d.Name(d.Replicas[0])
	if got := named(t, d.Nodes[0]); got != old {
		t.Fatalf("a sentinel names %s, want %s", got, old)
	}
	d.Divide([]*redistest.Server{d.Primary, d.Nodes[0]})
	if got := d.WaitPrimary(old); got != next {
		t.Fatalf("the majority names %s, want %s", got, next)
	}
	if err := d.Primary.Client().Set(t.Context(), "said", "here", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if has, err := d.Replicas[0].Client().Exists(t.Context(), "said").Result(); has != 0 || err != nil {
		t.Errorf("the other side has what was said on this one: %d, %v", has, err)
	}
	time.Sleep(2 * downAfter) // long enough for the promotion to become known, if it could
	if got := named(t, d.Nodes[0]); got != old {
		t.Errorf("the sentinel that is cut off names %s, want %s", got, old)
	}
	d.Unite()
	d.Settle(1)
	for _, s := range d.Nodes {
		if got := named(t, s); got != next {
			t.Errorf("united, a sentinel names %s, want %s", got, next)
		}
	}
	if !slices.Contains(strings.Split(d.URL(), "/"), redistest.PrimaryName) {
		t.Errorf("the URL %s does not have the name", d.URL())
	}
}

// named returns the address that a sentinel names.
func named(t *testing.T, s *redistest.Server) string {
	t.Helper()
	pair := goredis.NewStringSliceCmd(t.Context(), "sentinel", "get-master-addr-by-name", redistest.PrimaryName)
	if err := s.Client().Process(t.Context(), pair); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s:%s", pair.Val()[0], pair.Val()[1])
}
