package main

import (
	"context"
	"fmt"
)

const floorName = "floor"

// others starts the floor and the peers that were asked for.
func (s *stand) others(ctx context.Context, floor string) (targets []*target, err error) {
	if floor != "" {
		t, err := s.floor(ctx, floor)
		if err != nil {
			return nil, err
		}
		targets = append(targets, t)
	}
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

// floor starts the floor program on a database of its own.
func (s *stand) floor(ctx context.Context, binary string) (*target, error) {
	p, address, err := s.serveFloor(ctx, binary)
	if err != nil {
		return nil, err
	}
	t := &target{
		name: floorName, host: host, origin: issuer, metadata: "/.well-known/oauth-authorization-server",
		processes: []*process{p}, addresses: []string{address},
	}
	return t, t.enroll()
}

func (s *stand) serveFloor(ctx context.Context, binary string) (*process, string, error) {
	return s.listening(ctx, answering("/.well-known/oauth-authorization-server"), func(address string) (*process, error) {
		args := []string{"-listen", address}
		if s.redis != nil {
			args = append(args, "-redis", s.database(15))
		}
		return s.begin(nil, binary, args...)
	})
}
