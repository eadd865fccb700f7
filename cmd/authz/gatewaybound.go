package main

import (
	"fmt"
	"slices"
	"time"

	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/middleware"
)

// boundSettings are the settings of gateway for tokens that are bound to a key or a certificate.
type boundSettings struct {
	DPoP              string            `name:"dpop" default:"off" placeholder:"off|accepted|required" help:"Whether tokens that are bound to a key of their client are accepted, with a proof for each request (default ${default}); required refuses all others."`
	DPoPWindow        settings.Duration `name:"dpop-window" default:"5m" placeholder:"TIME" help:"How far the time of a proof may be from that of the gateway, before and after (default ${default})."`
	DPoPNonce         bool              `name:"dpop-nonce" help:"Demand proofs with a nonce of the gateway; several gateways share it with their session key."`
	DPoPContentDigest bool              `name:"dpop-content-digest" help:"Demand proofs that cover the message."`

	ClientCertHeader string `placeholder:"NAME" help:"Header in which a trusted proxy sends the certificate of a client, for tokens that are bound to one, such as X-Ssl-Cert, Client-Cert or X-Forwarded-Client-Cert (default: such tokens are refused)."`

	VerifyMethodHeader string `placeholder:"NAME" help:"Header in which a trusted proxy tells /verify the method of a request, such as X-Forwarded-Method; with --verify-uri-header."`
	VerifyURIHeader    string `name:"verify-uri-header" placeholder:"NAME" help:"Header in which a trusted proxy tells /verify the path of a request, such as X-Forwarded-Uri; without both, /verify refuses tokens that are bound to a key."`
}

// dpopUses are the values of --dpop.
var dpopUses = map[string]middleware.DPoPUse{"off": middleware.DPoPOff, "accepted": middleware.DPoPAccepted, "required": middleware.DPoPRequired}

// dpop returns the part of the guard's configuration for proofs. The nonces are made with the key
// of the sessions, which is the default.
func (s *boundSettings) dpop() (middleware.DPoP, error) {
	use, known := dpopUses[s.DPoP]
	if !known && s.DPoP != "" {
		return middleware.DPoP{}, fmt.Errorf("dpop %q is not known: it is off, accepted or required", s.DPoP)
	}
	if s.DPoPWindow < 0 || s.DPoPWindow == 0 && use != middleware.DPoPOff { // zero is the default of middleware.DPoP
		return middleware.DPoP{}, fmt.Errorf("dpop-window %s is not a time: it must be more than 0", s.DPoPWindow)
	}
	return middleware.DPoP{Use: use, Window: time.Duration(s.DPoPWindow), RequireNonce: s.DPoPNonce, RequireContentDigest: s.DPoPContentDigest}, nil
}

// proves reports whether proofs are accepted.
func (s *boundSettings) proves() bool { return dpopUses[s.DPoP] != middleware.DPoPOff }

// anyNonces reports whether proofs need nonces anywhere.
func anyNonces(all []*boundSettings) bool {
	return slices.ContainsFunc(all, func(one *boundSettings) bool { return one.DPoPNonce })
}

// boundDoubts adds a warning for each setting that has no effect. Off reports whether proofs are
// accepted nowhere that the settings are for.
func (s *boundSettings) boundDoubts(out *risks, off bool) {
	out.add(off && (s.DPoPNonce || s.DPoPContentDigest), "dpop-nonce and dpop-content-digest have no effect while dpop is off")
	out.add(off && s.VerifyMethodHeader != "", "verify-method-header has no effect while dpop is off")
}
