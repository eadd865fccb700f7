package dcr

import (
	"context"
	"time"

	"gatehouse.example/internal/fair"
)

// What may be read of what strangers name. A host is asked in vain so many times at once,
// and then once every two seconds: strangers must not send us to somebody else's server
// again and again. Names cost nothing, so who asks pays as well, by network: for what was in
// vain, and less for everything that was not known before.
var (
	vainPerHost    = fair.Limit{Burst: 30, Per: time.Minute}
	vainFromOne    = fair.Limit{Burst: 15, Per: time.Minute} // of a host's, by one wide network
	vainPerNetwork = fair.Limit{Burst: 60, Per: 2 * time.Minute}
	newPerNetwork  = fair.Limit{Burst: 120, Per: time.Minute}
)

// fetchCost is what reading an address costs: always, and what is returned when it was not in
// vain.
type fetchCost struct{ always, inVain []fair.Bucket }

func (f fetchCost) all() []fair.Bucket {
	return append(f.always[:len(f.always):len(f.always)], f.inVain...)
}

// fetchCostOf is what it costs the requester of ctx to have an address read. One that was good
// before has an account of its own: what others ask in vain of its host, or from the same
// network, does not keep it from being read again.
func fetchCostOf(ctx context.Context, address string, known bool) fetchCost {
	if known {
		return fetchCost{inVain: []fair.Bucket{{Key: "known " + address, Limit: vainPerHost}}}
	}
	f := fetchCost{inVain: []fair.Bucket{{Key: "host " + hostOf(address), Limit: vainPerHost}}}
	if from := fair.Requester(ctx); from.IsValid() {
		networks := fair.Networks(from)
		widest := networks[len(networks)-1]
		f.inVain = append(f.inVain, fair.Bucket{Key: "host " + hostOf(address) + " from " + widest, Limit: vainFromOne})
		f.inVain = append(f.inVain, fair.ByNetwork(from, "documents in vain", vainPerNetwork)...)
		f.always = fair.ByNetwork(from, "documents", newPerNetwork)
	}
	return f
}
