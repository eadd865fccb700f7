package main

import (
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/gateway"
	"gatehouse.example/metadata"
)

// doubts returns a warning for each setting that has no effect or weakens the gateway of the only
// resource.
func (s *gatewaySettings) doubts() []string {
	var out risks
	out.add(s.AssertionKey != "" && s.Identity != string(gateway.IdentityAssertion), "assertion-key has no effect without identity assertion")
	out.add(s.IntrospectionClientID != "" && s.IntrospectionSecret == "", "introspection-client-id has no effect without introspection-secret")
	return slices.Concat(s.sharedDoubts(&s.boundSettings), s.ownDoubts(), s.acmeSettings.doubts("resource", s.Resource), out)
}

// sharedDoubts are those about settings that do not belong to one resource. Bound are the settings
// for bound tokens of all resources.
func (s *gatewaySettings) sharedDoubts(bound ...*boundSettings) []string {
	var out risks
	out.proxies(s.TrustedProxies)
	out.admin(s.AdminListen)
	out.add(s.SessionKey != "" && s.VerifyOnly && !anyNonces(bound), "session-key has no effect with verify-only: /verify sees no answers, so it binds no sessions")
	s.boundDoubts(&out, !slices.ContainsFunc(bound, (*boundSettings).proves))
	return out
}

// ownDoubts are those about the settings of one resource.
func (s *gatewaySettings) ownDoubts() []string {
	var out risks
	upstream, err := url.Parse(s.Upstream)
	plain := err == nil && upstream.Scheme == "http" && !metadata.IsLoopbackHost(upstream.Hostname())
	out.add(plain, "the upstream is http on another machine: an attacker on the network path can read and change messages, and any client that reaches it directly can call it as any user")
	out.add(plain && s.UpstreamHeadersFile != "", "upstream-headers-file: the upstream is http on another machine, so an attacker on the network path can read the credentials: write an https upstream")
	out.add(s.InsecureTrustMCPHeaders, "/verify relies on Mcp-Method and Mcp-Name: if the server does not check them, any client with a token can call everything")
	telling := gateway.TellingHeaders(s.PassHeaders)
	out.add(len(telling) > 0, "clients can set %s: the server must not take it for the identity of the caller", strings.Join(telling, " and "))
	out.add(s.InsecureTrustMCPHeaders && s.Scopes == "", "insecure-trust-mcp-headers has no effect without scopes")
	for setting, file := range s.secretFiles() {
		readers := ""
		if file != "" {
			readers = settings.OtherReaders(file)
		}
		out.add(readers != "", "%s: %s can read %s, which contains a secret: chmod 600 it, and let it belong to the user that runs the program", setting, readers, file)
	}
	slices.Sort(out)
	return out
}

// announce prints what is guarded, and the next step.
func (s *gatewaySettings) announce(w io.Writer, st *site, several []guardedResource) {
	addr := st.public.Addr()
	line := func(label, value string) { fmt.Fprintf(w, "  %-14s %s\n", label, value) }
	fmt.Fprintln(w, "The gateway is ready.")
	line("listening on", addr.String())
	if st.admin != nil {
		line("admin on", st.admin.Addr().String())
	}
	s.acmeSettings.announce(line, st.challenges)
	resources := []gatewaySettings{*s}
	for i, one := range several {
		if i == 0 {
			resources = nil
		}
		resources = append(resources, one.gatewaySettings)
	}
	for _, one := range resources {
		one.announceResource(line)
	}
	if s.VerifyOnly {
		line("ask at", s.own(addr, gateway.PathVerify))
		fmt.Fprintln(w, "Next: configure your proxy to ask at this address before it forwards a request (docs/gateway.md),")
		fmt.Fprintln(w, "and to forward requests for /.well-known/oauth-protected-resource to the gateway.")
		return
	}
	resource := resources[0].Resource
	fmt.Fprintf(w, "Next: add each resource to its authorization server (under resources: in its file, or with\n")
	fmt.Fprintf(w, "authz serve --dev --dev-resource %s),\nand give it to a client:\n", resource)
	fmt.Fprintf(w, "  claude mcp add --transport http guarded %s\n", resource)
}

// announceResource prints one resource.
func (s *gatewaySettings) announceResource(line func(label, value string)) {
	if s.VerifyOnly {
		line("guards", s.Resource)
	} else {
		line("connect to", s.Resource)
		line("forwards to", s.Upstream)
	}
	for _, issuer := range s.Issuer {
		line("sign in at", issuer)
	}
	line("identity", s.identity())
}
