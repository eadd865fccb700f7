package main

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
)

const floorName = "floor"

// others starts the peers that were asked for.
func (s *stand) others(ctx context.Context) (targets []*target, err error) {
	for _, name := range s.peers {
		begin, ok := peers[name]
		if !ok {
			return nil, fmt.Errorf("-peer: %q is not known", name)
		}
		t, err := begin(s, ctx)
		if err != nil {
			return nil, err
		}
		targets = append(targets, t)
	}
	return targets, nil
}

// floors starts the floor program, with as many processes as ours, on a database of its own. Without a
// binary there is none.
func (s *stand) floors(ctx context.Context, binary string, processes int) ([]*target, error) {
	if binary == "" {
		return nil, nil
	}
	t := &target{name: floorName, host: host, origin: issuer, metadata: "/.well-known/oauth-authorization-server"}
	for range processes {
		p, address, err := s.serveFloor(ctx, binary)
		if err != nil {
			return nil, err
		}
		t.processes, t.addresses = append(t.processes, p), append(t.addresses, address)
	}
	return []*target{t}, t.enroll()
}

func (s *stand) serveFloor(ctx context.Context, binary string) (*process, string, error) {
	return s.listening(ctx, answering("/.well-known/oauth-authorization-server"), func(address string) (*process, error) {
		return s.begin(nil, binary, append(s.floorStore(), "-listen", address)...)
	})
}

// floorStore are the arguments that say where the floor keeps its state.
func (s *stand) floorStore() []string {
	if s.redis == nil {
		return nil
	}
	return []string{"-redis", s.database(15)}
}

// preloadFloors brings floors to a number of grants, as [stand.preload] does with ours. They share a
// database.
func (s *stand) preloadFloors(ctx context.Context, floors []*target, binary string, grants int) error {
	if len(floors) == 0 || grants == 0 {
		return nil
	}
	cmd := exec.CommandContext(ctx, binary, append(s.floorStore(), "-fill", strconv.Itoa(grants))...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("storing grants of the floor: %w\n%s", err, out)
	}
	for _, t := range floors {
		t.held = make([]heldGrant, grants)
		for i := range t.held {
			t.held[i].token = fmt.Sprintf("n%d.first", i)
		}
	}
	return nil
}
