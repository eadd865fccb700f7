package main

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/gateway"
	"gatehouse.example/metadata"
	"gatehouse.example/middleware"
)

// gatewayVerb guards a protocol server.
type gatewayVerb struct {
	gatewaySettings
}

// gatewaySettings are all settings of gateway, each once, with its default. They have the same
// sources as [serveSettings], with a separate file.
type gatewaySettings struct {
	Config string `placeholder:"FILE" help:"YAML file with settings."`

	Listen      string `default:"127.0.0.1:8082" placeholder:"ADDR" help:"Address to listen on; port 0 takes any (default ${default})."`
	AdminListen string `default:"off" placeholder:"ADDR" help:"Address of /livez, /readyz and /metrics, or off (default ${default})."`

	Resource   string   `placeholder:"URL" help:"The URL that clients dial: the audience of their tokens."`
	Upstream   string   `placeholder:"URL" help:"The URL of the server that is guarded; its path takes the place of the resource's."`
	Issuer     []string `sep:"none" placeholder:"URL" help:"An authorization server whose tokens are accepted; repeatable."`
	Scopes     string   `placeholder:"FILE" help:"YAML file with the scopes that tools, prompts, resources and methods need (default: every valid token may do everything)."`
	VerifyOnly bool     `help:"Forward nothing: only answer requests of other proxies at /verify."`

	ResourceName string `placeholder:"NAME" help:"The name of the resource that clients show to people."`

	Identity         string          `default:"headers" placeholder:"headers|assertion|none" help:"How the server gets the identity of the caller: in headers, in one header with a signed assertion, or not (default ${default})."`
	AssertionKey     settings.Secret `placeholder:"PEM" help:"Private key on P-256 that signs assertions (default: a new one at each start)."`
	AssertionKeyFile string          `placeholder:"FILE" help:"File that contains it."`

	PassHeaders []string `placeholder:"NAME" help:"Headers of clients that are forwarded although their names look like an identity, such as X-Api-Key; repeatable (default: they are dropped)."`

	SessionKey     settings.Secret `placeholder:"KEY" help:"Key that binds session ids and event ids to callers and seals cursors, base64 of 32 bytes or more; several gateways in front of one server share it (default: a new one at each start)."`
	SessionKeyFile string          `placeholder:"FILE" help:"File that contains it."`

	IntrospectionClientID   string          `name:"introspection-client-id" placeholder:"ID" help:"The client_id for introspection at the issuer (default: the resource)."`
	IntrospectionSecret     settings.Secret `placeholder:"SECRET" help:"Ask the issuer whether a token was revoked, with this secret (default: tokens are accepted until they expire)."`
	IntrospectionSecretFile string          `placeholder:"FILE" help:"File that contains it."`

	StaleKeys settings.Duration `default:"24h" placeholder:"TIME" help:"Greatest age of the keys of an issuer that are used while it cannot be reached; 0 for the time that the issuer allows (default ${default})."`

	EndStreams bool `default:"true" negatable:"" help:"End a stream when the token that opened it expires (default ${default})."`
	MaxBody    int  `default:"4194304" placeholder:"BYTES" help:"Greatest size of a message that is parsed to determine its scopes (default ${default})."`

	InsecureTrustMCPHeaders bool `name:"insecure-trust-mcp-headers" help:"At /verify: rely on the headers Mcp-Method and Mcp-Name for the content of a message. Only a server that speaks no revision before 2026-07-28 checks them."`

	listenSettings

	AllowedOrigins []string `placeholder:"ORIGIN" help:"On loopback: web pages that may call, such as https://inspector.example.org, or * for all; repeatable."`
	TrustedProxies []string `placeholder:"CIDR" help:"Networks of proxies in front of the gateway, whose X-Forwarded-For and X-Forwarded-Host are used; repeatable."`
	TLSCert        string   `name:"tls-cert" placeholder:"FILE" help:"Certificate chain in PEM; with --tls-key."`
	TLSKey         string   `name:"tls-key" placeholder:"FILE" help:"Private key in PEM; with --tls-cert."`
	LogFormat      string   `default:"text" placeholder:"text|json" help:"How log lines are written (default ${default})."`
}

// Help is shown by --help.
func (v *gatewayVerb) Help() string {
	return `The file of --scopes is complete: once "tools" names a tool, every tool without a line is refused; "*" stands for all tools without a line of their own. docs/examples/scopes.yaml shows every key.`
}

// Run guards the server until ctx ends.
func (v *gatewayVerb) Run(ctx context.Context, p *program, k *kong.Context) error {
	s := &v.gatewaySettings
	config, warnings, err := p.loadGateway(k, s)
	if err != nil {
		return err
	}
	log, flush := p.logger(s.LogFormat)
	defer flush()
	config.Guard.Logger = log
	st, err := newSite(ctx, s.Listen, s.AdminListen, s.TLSCert, s.TLSKey)
	if err != nil {
		return err
	}
	defer st.close()
	st.log = log
	st.measure()
	st.countGateway(&config)
	gate, err := gateway.New(config)
	if err != nil {
		return err
	}
	st.grace, st.streams, st.notice = p.grace, newStreams(), gate.Stop
	st.bounds, st.trusted = s.listenSettings, config.Guard.TrustedProxies
	for _, sentence := range append(warnings, s.exposed(st.public.Addr())...) {
		st.log.Warn(sentence)
	}
	s.announce(p.stdout, st.public.Addr())
	return st.serve(ctx, gate, st.probes(alwaysReady, nothingMissing))
}

// loadGateway sets s from all sources. It returns the configuration of the gateway, warnings,
// and every mistake.
func (p *program) loadGateway(k *kong.Context, s *gatewaySettings) (gateway.Config, []string, error) {
	flags := k.Selected().Flags
	from, err := settings.FindSources(k.Path, flags, p.env, settings.FileKeys(flags))
	if from == nil {
		return gateway.Config{}, nil, err
	}
	mistakes := []error{err}
	origins, err := from.Fill(flags)
	config, also := s.gateway(p.rand)
	err = errors.Join(append(mistakes, err, s.mistakes(), also)...)
	return config, slices.Concat(p.env.UnknownVariables(settings.EveryFlag(k.Model.Node)), s.doubts(), settings.SecretRisks(flags, origins, from.File)), err
}

// gateway returns the configuration of the gateway.
func (s *gatewaySettings) gateway(random io.Reader) (gateway.Config, error) {
	networks, _ := networks(s.TrustedProxies) // formMistakes reports mistakes
	rules, err1 := s.rules()
	sessions, err2 := s.sessions(random)
	key, err3 := s.assertionKey(random)
	return gateway.Config{
		Guard: middleware.Config{
			Resource: s.Resource, ResourceName: s.ResourceName, AuthorizationServers: s.Issuer, Introspection: s.introspection(),
			Scopes: rules.supported, ChallengeScopes: rules.challenge, Policy: rules.policy,
			StaleKeys:  cmp.Or(time.Duration(s.StaleKeys), -1), // zero is the default of middleware.Config
			EndStreams: s.EndStreams, Sessions: sessions, MaxBody: s.MaxBody, AllowedOrigins: s.AllowedOrigins, TrustedProxies: networks,
		},
		Upstream: s.Upstream, VerifyOnly: s.VerifyOnly, Identity: gateway.Identity(s.Identity), AssertionKey: key,
		InsecureTrustMCPHeaders: s.InsecureTrustMCPHeaders, PassHeaders: s.PassHeaders,
	}, errors.Join(err1, err2, err3)
}

// rules reads the file of scopes. Without one, every valid token may do everything.
func (s *gatewaySettings) rules() (scopeRules, error) {
	if s.Scopes == "" {
		return scopeRules{}, nil
	}
	data, err := settings.ReadAtMost(s.Scopes, 1<<20)
	if err != nil {
		return scopeRules{}, fmt.Errorf("scopes: %w", err)
	}
	return readScopes(s.Scopes, data)
}

func (s *gatewaySettings) sessions(random io.Reader) (*middleware.Handles, error) {
	if s.VerifyOnly {
		return nil, nil
	}
	key := make([]byte, 32)
	var err error
	if s.SessionKey != "" {
		key, err = settings.DecodeBase64(strings.TrimSpace(string(s.SessionKey)))
	} else {
		_, err = io.ReadFull(random, key)
	}
	if err == nil && len(key) < 32 {
		err = fmt.Errorf("has %d bytes, it must have 32 or more: make one with: openssl rand -base64 32", len(key))
	}
	if err != nil {
		return nil, fmt.Errorf("session-key %w", err)
	}
	return middleware.NewHandles(key)
}

func (s *gatewaySettings) assertionKey(random io.Reader) (*ecdsa.PrivateKey, error) {
	switch {
	case s.Identity != string(gateway.IdentityAssertion):
		return nil, nil
	case s.AssertionKey == "":
		return ecdsa.GenerateKey(elliptic.P256(), random)
	}
	key, err := parseAssertionKey([]byte(s.AssertionKey))
	if err != nil {
		return nil, fmt.Errorf("assertion-key %w: make one with: openssl ecparam -name prime256v1 -genkey -noout", err)
	}
	return key, nil
}

// introspection returns the credentials for introspection at the only issuer, nil without.
func (s *gatewaySettings) introspection() map[string]middleware.Introspection {
	if s.IntrospectionSecret == "" || len(s.Issuer) != 1 {
		return nil
	}
	id := s.IntrospectionClientID
	if id == "" {
		id = s.Resource
	}
	return map[string]middleware.Introspection{s.Issuer[0]: {ClientID: id, ClientSecret: string(s.IntrospectionSecret)}}
}

// exposed returns a warning for each way in which the gateway can be reached without TLS.
func (s *gatewaySettings) exposed(addr net.Addr) []string {
	if loopback(addr) || s.TLSCert != "" {
		return nil
	}
	return []string{fmt.Sprintf("%s is open to other machines without TLS: only a proxy that ends TLS may reach it", addr)}
}

// doubts returns a warning for each setting that has no effect or weakens the gateway.
func (s *gatewaySettings) doubts() []string {
	var out risks
	doubt := func(applies bool, sentence string, values ...any) { out.add(applies, sentence, values...) }
	out.proxies(s.TrustedProxies)
	out.admin(s.AdminListen)
	upstream, err := url.Parse(s.Upstream)
	doubt(err == nil && upstream.Scheme == "http" && !metadata.IsLoopbackHost(upstream.Hostname()),
		"the upstream is http on another machine: an attacker on the network path can read and change messages, and any client that reaches it directly can call it as any user")
	doubt(s.InsecureTrustMCPHeaders, "/verify relies on Mcp-Method and Mcp-Name: if the server does not check them, any client with a token can call everything")
	telling := gateway.TellingHeaders(s.PassHeaders)
	doubt(len(telling) > 0, "clients can set %s: the server must not take it for the identity of the caller", strings.Join(telling, " and "))
	doubt(s.InsecureTrustMCPHeaders && s.Scopes == "", "insecure-trust-mcp-headers has no effect without scopes")
	doubt(s.AssertionKey != "" && s.Identity != string(gateway.IdentityAssertion), "assertion-key has no effect without identity assertion")
	doubt(s.SessionKey != "" && s.VerifyOnly, "session-key has no effect with verify-only: /verify sees no answers, so it binds no sessions")
	doubt(s.IntrospectionClientID != "" && s.IntrospectionSecret == "", "introspection-client-id has no effect without introspection-secret")
	return out
}

// announce prints what is guarded, and the next step.
func (s *gatewaySettings) announce(w io.Writer, addr net.Addr) {
	line := func(label, value string) { fmt.Fprintf(w, "  %-14s %s\n", label, value) }
	fmt.Fprintln(w, "The gateway is ready.")
	line("listening on", addr.String())
	for _, issuer := range s.Issuer {
		line("sign in at", issuer)
	}
	line("identity", s.identity())
	if s.VerifyOnly {
		line("guards", s.Resource)
		line("ask at", s.own(addr, gateway.PathVerify))
		fmt.Fprintln(w, "Next: configure your proxy to ask at this address before it forwards a request (docs/gateway.md),")
		fmt.Fprintln(w, "and to forward requests for /.well-known/oauth-protected-resource to the gateway.")
		return
	}
	line("connect to", s.Resource)
	line("forwards to", s.Upstream)
	fmt.Fprintf(w, "Next: add the resource to the authorization server (under resources: in its file, or with\n")
	fmt.Fprintf(w, "authz serve --dev --dev-resource %s),\nand give it to a client:\n", s.Resource)
	fmt.Fprintf(w, "  claude mcp add --transport http guarded %s\n", s.Resource)
}

// identity returns how the server gets the identity of the caller.
func (s *gatewaySettings) identity() string {
	switch gateway.Identity(s.Identity) {
	case gateway.IdentityAssertion:
		return "header " + gateway.HeaderAssertion + ", verified with the keys at " + gateway.PathKeys
	case gateway.IdentityNone:
		return "none"
	}
	return strings.Join([]string{"headers " + gateway.HeaderSubject, gateway.HeaderIssuer, gateway.HeaderClient, gateway.HeaderScope}, ", ")
}

// own returns the URL of one of the gateway's own paths.
func (s *gatewaySettings) own(addr net.Addr, path string) string {
	scheme := "http://"
	if s.TLSCert != "" {
		scheme = "https://"
	}
	return scheme + addr.String() + path
}
