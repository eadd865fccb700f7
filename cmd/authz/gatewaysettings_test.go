package main

import (
	"bytes"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/gateway"
)

// refusedGateway runs "authz gateway" with wrong settings and returns its error.
func refusedGateway(t *testing.T, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	p := &program{env: settings.NewEnvironment(nil), stdin: strings.NewReader(""), stdout: &stderr, stderr: &stderr, rand: rand.Reader}
	args = append([]string{"gateway", "--listen", "127.0.0.1:0", "--resource", guarded, "--issuer", "https://auth.example.com", "--upstream", "http://127.0.0.1:9000"}, args...)
	if status := p.run(t.Context(), args); status == 0 {
		t.Fatalf("%v: exit status 0", args)
	}
	return stderr.String()
}

// planned returns the configuration of the only resource.
func (s *gatewaySettings) planned() (gateway.Config, error) {
	keys, err := s.keys(rand.Reader, false, s.DPoPNonce, &watched{})
	if err != nil {
		return gateway.Config{}, err
	}
	return s.gateway(keys, &watched{})
}

func TestStaleKeysOfTheGateway(t *testing.T) {
	for set, want := range map[settings.Duration]time.Duration{settings.Duration(settings.Day): 24 * time.Hour, settings.Duration(time.Minute): time.Minute, 0: -1} {
		s := gatewaySettings{Resource: guarded, StaleKeys: set}
		if config, err := s.planned(); err != nil || config.Guard.StaleKeys != want {
			t.Errorf("%s: %s, %v", set, config.Guard.StaleKeys, err)
		}
	}
	if says := refusedGateway(t, "--stale-keys=-1h"); !strings.Contains(says, "stale-keys -1h") {
		t.Error(says)
	}
}

func TestPassHeadersOfTheGateway(t *testing.T) {
	s := gatewaySettings{Resource: guarded, PassHeaders: []string{"X-Api-Key", "X-Correlation-Id"}}
	if config, err := s.planned(); err != nil || len(config.PassHeaders) != 2 {
		t.Errorf("%q, %v", config.PassHeaders, err)
	}
	if says := strings.Join(s.doubts(), "\n"); !strings.Contains(says, "clients can set X-Api-Key") || strings.Contains(says, "X-Correlation-Id") {
		t.Error(says)
	}
	if says := refusedGateway(t, "--pass-headers", "Authorization"); !strings.Contains(says, `header "Authorization" cannot be passed on`) {
		t.Error(says)
	}
}
