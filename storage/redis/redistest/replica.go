package redistest

import (
	"context"
	"fmt"
	"net"
	"strings"
)

// Replicate makes the running server a replica of another and returns when the link
// between them is up.
//
// With another address in through, the replica is pinned to it: sentinels may promote it, but
// their command to replicate from elsewhere is refused, because otherwise they would soon make it
// bypass a proxy. The next Replicate removes the pin.
func (s *Server) Replicate(of *Server, through string) {
	s.t.Helper()
	if through == "" {
		s.replicate(of.Addr, false)
		return
	}
	s.replicate(through, true)
}

func (s *Server) replicate(upstream string, pinned bool) {
	s.t.Helper()
	_, port, _ := net.SplitHostPort(upstream)
	// SLAVEOF is the spelling that sentinels use. SLAVEOF NO ONE is a promotion.
	rules := []string{"+slaveof"}
	if pinned {
		rules = []string{"-slaveof", "+slaveof|no"}
	}
	ctx := context.Background()
	err := s.client.Do(ctx, "replicaof", host, port).Err()
	if err == nil {
		err = s.client.ACLSetUser(ctx, "default", rules...).Err()
	}
	if err == nil {
		err = s.client.ConfigRewrite(ctx).Err()
	}
	if err != nil {
		s.t.Fatalf("redistest: %s as a replica of %s: %v", s.Addr, upstream, err)
	}
	await(s.t, s.Addr+" as a replica of "+upstream, func(ctx context.Context) error {
		return linked(ctx, s, upstream)
	})
}

// linked checks that the server replicates from upstream and is in step.
func linked(ctx context.Context, s *Server, upstream string) error {
	info, err := section(ctx, s, "replication")
	if err != nil {
		return err
	}
	if from := net.JoinHostPort(info["master_host"], info["master_port"]); from != upstream || info["master_link_status"] != "up" {
		return fmt.Errorf("%s replicates from %s, the link is %q", info["role"], from, info["master_link_status"])
	}
	return nil
}

// section returns one section of INFO.
func section(ctx context.Context, s *Server, name string) (map[string]string, error) {
	text, err := s.client.Info(ctx, name).Result()
	if err != nil {
		return nil, err
	}
	return fields(text), nil
}

// fields parses lines of name:value.
func fields(text string) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			found[name] = value
		}
	}
	return found
}
