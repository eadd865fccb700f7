package authz

import (
	"context"
	"time"

	"gatehouse.example/internal/fair"
	"gatehouse.example/storage"
)

// counter returns the function that counts charges in a pool of the store, for all processes.
func counter(store *storage.Store, pool string) fair.Counter {
	return func(ctx context.Context, charges []fair.Charge) ([]time.Duration, bool, error) {
		counts := make([]storage.Count, len(charges))
		for i, c := range charges {
			need, spend := c.Times()
			counts[i] = storage.Count{Area: c.Area, Name: c.Key, Per: c.Limit.Per, Need: need, Spend: spend}
		}
		counted, err := store.Count(ctx, storage.Counting{Pool: pool, Counts: counts})
		return counted.Owed, counted.Done, err
	}
}
