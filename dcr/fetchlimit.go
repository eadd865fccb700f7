package dcr

import (
	"context"
	"time"

	"gatehouse.example/internal/fair"
)

// The limits on fetches from addresses that requests choose. Failed fetches are limited by
// host, because requests must not make this server send many requests to another server.
// Since addresses can be invented, they are also limited by the network of the requester, and
// so are, at a higher rate, all fetches of addresses that are not cached.
var (
	failuresPerHost        = fair.Limit{Burst: 30, Per: time.Minute}
	hostFailuresPerNetwork = fair.Limit{Burst: 15, Per: time.Minute} // from one host, for one wide network
	failuresPerNetwork     = fair.Limit{Burst: 60, Per: 2 * time.Minute}
	newPerNetwork          = fair.Limit{Burst: 120, Per: time.Minute}
)

// fetchCost lists the buckets from which a fetch takes. The fetch returns to the refundable
// ones if it succeeds.
type fetchCost struct{ always, refundable []fair.Bucket }

func (f fetchCost) all() []fair.Bucket {
	return append(f.always[:len(f.always):len(f.always)], f.refundable...)
}

// fetchCostOf returns the cost of a fetch of address for the requester of ctx. An address in
// the cache (known) has a bucket of its own: other failed fetches from its host, or for the
// same network, do not keep it from being fetched again.
func fetchCostOf(ctx context.Context, address string, known bool) fetchCost {
	if known {
		return fetchCost{refundable: []fair.Bucket{{Key: "known " + address, Limit: failuresPerHost}}}
	}
	f := fetchCost{refundable: []fair.Bucket{{Key: "host " + hostOf(address), Limit: failuresPerHost}}}
	if from := fair.Requester(ctx); from.IsValid() {
		networks := fair.Networks(from)
		widest := networks[len(networks)-1]
		f.refundable = append(f.refundable, fair.Bucket{Key: "host " + hostOf(address) + " from " + widest, Limit: hostFailuresPerNetwork})
		f.refundable = append(f.refundable, fair.ByNetwork(from, "failed documents", failuresPerNetwork)...)
		f.always = fair.ByNetwork(from, "documents", newPerNetwork)
	}
	return f
}
