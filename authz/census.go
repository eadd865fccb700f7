package authz

import (
	"context"
	"sync/atomic"
	"time"

	"gatehouse.example/storage"
)

// census counts the grants on record for metrics, by the lists of people, a few at a time. There is no
// list of all grants: it would be one more entry for each, and most end by their time, when no
// request could take it out. So a scrape gets what the last whole round counted.
type census struct {
	store   *storage.Store
	counted atomic.Int64 // in the last whole round, and 1 more: 0 before its end
}

// censusPause is between two steps of a round, and censusStep the people of one: 1200 people in a
// minute, whatever the number of grants.
const (
	censusPause = 5 * time.Second
	censusStep  = 100
)

// run counts until ctx ends. A step that fails is done again.
func (c *census) run(ctx context.Context) {
	sum, after := 0, ""
	for {
		n, next, err := c.store.ListedGrants(ctx, after, censusStep)
		if err == nil {
			sum, after = sum+n, next
		}
		if err == nil && next == "" {
			c.counted.Store(int64(sum) + 1)
			sum = 0
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(censusPause):
		}
	}
}

// GrantsCounted returns how many grants are in the lists of people, and whether they have been counted.
// That takes a round of [Server.Run], which counts 1200 people in a minute if [Config].Observe is set.
// Grants that have ended count until their lists are tidied.
func (s *Server) GrantsCounted() (n int, counted bool) {
	known := s.census.counted.Load()
	return int(max(known-1, 0)), known > 0
}
