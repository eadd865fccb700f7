package main

import (
	"strings"
	"testing"
	"time"

	"gatehouse.example/gateway"
	"gatehouse.example/middleware"
)

// TestBoundTokensOfTheGateway shows that each setting has its place, and what is refused.
func TestBoundTokensOfTheGateway(t *testing.T) {
	s := gatewaySettings{Resource: guarded, TrustedProxies: []string{"10.0.0.0/8"}, boundSettings: boundSettings{
		DPoP: "required", DPoPWindow: 60e9, DPoPNonce: true, DPoPContentDigest: true, ClientCertHeader: "X-Ssl-Cert",
		VerifyMethodHeader: "X-Forwarded-Method", VerifyURIHeader: "X-Forwarded-Uri",
	}}
	config, err := s.planned()
	d := config.Guard.DPoP
	if err != nil || d.Use != middleware.DPoPRequired || d.Window != time.Minute || !d.RequireNonce || !d.RequireContentDigest || config.Guard.Sessions == nil {
		t.Errorf("%+v, %v", d, err)
	}
	if config.Guard.ClientCertificates.Header != "X-Ssl-Cert" || config.OriginalRequest != (gateway.OriginalRequest{MethodHeader: "X-Forwarded-Method", URIHeader: "X-Forwarded-Uri"}) {
		t.Errorf("%+v %+v", config.Guard.ClientCertificates, config.OriginalRequest)
	}
	s.VerifyOnly = true
	if config, err := s.planned(); err != nil || config.Guard.Sessions == nil {
		t.Errorf("no key for nonces at /verify: %v", err)
	}
	for want, args := range map[string][]string{
		`dpop "maybe" is not known`:                 {"--dpop", "maybe"},
		"dpop-window -1h":                           {"--dpop-window=-1h"},
		"dpop-window 0s is not a time":              {"--dpop", "accepted", "--dpop-window", "0"},
		"a header counts from TrustedProxies alone": {"--client-cert-header", "X-Ssl-Cert"},
		"name both": {"--verify-method-header", "X-Forwarded-Method", "--trusted-proxies", "10.0.0.0/8"},
	} {
		if says := refusedGateway(t, args...); !strings.Contains(says, want) {
			t.Errorf("%q: %s", args, says)
		}
	}
	s.boundSettings = boundSettings{DPoP: "off", DPoPNonce: true, VerifyMethodHeader: "X-Forwarded-Method"}
	if says := strings.Join(s.doubts(), "\n"); !strings.Contains(says, "dpop-nonce and") || !strings.Contains(says, "verify-method-header has") {
		t.Error(says)
	}
}
