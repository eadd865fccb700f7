package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/gateway"
	"gatehouse.example/internal/acme"
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
	AdminListen string `default:"off" placeholder:"ADDR" help:"Address of /livez, /readyz, /metrics and /reload, or off (default ${default})."`

	Resource   string   `placeholder:"URL" help:"The URL that clients dial: the audience of their tokens."`
	Upstream   string   `placeholder:"URL" help:"The URL of the server that is guarded; its path takes the place of the resource's."`
	Issuer     []string `sep:"none" placeholder:"URL" help:"An authorization server whose tokens are accepted; repeatable."`
	Scopes     string   `placeholder:"FILE" help:"YAML file with the scopes that tools, prompts, resources and methods need (default: every valid token may do everything)."`
	VerifyOnly bool     `help:"Forward nothing: only answer requests of other proxies at /verify."`

	ResourceName string `placeholder:"NAME" help:"The name of the resource that clients show to people."`

	Identity         string          `default:"headers" placeholder:"headers|assertion|none" help:"How the server gets the identity of the caller: in headers, in one header with a signed assertion, or not (default ${default})."`
	AssertionKey     settings.Secret `placeholder:"PEM" help:"Private keys on P-256, one after another: the first signs assertions, all are published (default: a new one at each start)."`
	AssertionKeyFile string          `placeholder:"FILE" help:"File that contains them. A changed file takes effect within seconds."`
	AssertionBinding string          `default:"caller" placeholder:"caller|request" help:"What an assertion is good for: any request about its caller, or one request with its method, path and body (default ${default})."`

	upstreamSettings

	PassHeaders []string `placeholder:"NAME" help:"Headers of clients that are forwarded although their names look like an identity, such as X-Api-Key; repeatable (default: they are dropped)."`

	SessionKey     settings.Secret `placeholder:"KEY" help:"Key that binds session ids and event ids to callers and seals cursors, base64 of 32 bytes or more; several gateways in front of one server share it (default: a new one at each start)."`
	SessionKeyFile string          `placeholder:"FILE" help:"File that contains it."`

	IntrospectionClientID   string          `name:"introspection-client-id" placeholder:"ID" help:"The client_id for introspection at the issuer (default: the resource)."`
	IntrospectionSecret     settings.Secret `placeholder:"SECRET" help:"Ask the issuer whether a token was revoked, with this secret (default: tokens are accepted until they expire)."`
	IntrospectionSecretFile string          `placeholder:"FILE" help:"File that contains it."`

	StaleKeys settings.Duration `default:"24h" placeholder:"TIME" help:"Greatest age of the keys of an issuer that are used while it cannot be reached; 0 for the time that the issuer allows (default ${default})."`

	EndStreams bool `default:"true" negatable:"" help:"End a stream when the token that opened it expires (default ${default})."`
	MaxBody    int  `default:"4194304" placeholder:"BYTES" help:"Greatest size of a message that is parsed to determine its scopes (default ${default})."`
	MaxToken   int  `default:"8192" placeholder:"BYTES" help:"Greatest size of an access token, up to 65536 (default ${default})."`

	InsecureTrustMCPHeaders bool `name:"insecure-trust-mcp-headers" help:"At /verify: rely on the headers Mcp-Method and Mcp-Name for the content of a message. Only a server that speaks no revision before 2026-07-28 checks them."`

	boundSettings

	listenSettings

	AllowedOrigins []string `placeholder:"ORIGIN" help:"On loopback: web pages that may call, such as https://inspector.example.org, or * for all; repeatable."`
	TrustedProxies []string `placeholder:"CIDR" help:"Networks of proxies in front of the gateway, whose X-Forwarded-For and X-Forwarded-Host are used; repeatable."`
	TLSCert        string   `name:"tls-cert" placeholder:"FILE" help:"Certificate chain in PEM; with --tls-key."`
	TLSKey         string   `name:"tls-key" placeholder:"FILE" help:"Private key in PEM; with --tls-cert."`

	acmeSettings
	ACMEFolder string `name:"acme-folder" placeholder:"FOLDER" help:"Folder for the certificates and keys from the authority, which only this user may enter; gateways of one machine may share it. Required with --acme-names."`

	LogFormat string `default:"text" placeholder:"text|json" help:"How log lines are written (default ${default})."`

	// before are the keys of the gateway that reads its settings again, nil at the start.
	before *gatewayKeys
	auditSettings
	AuditKey     settings.Secret `placeholder:"KEY" help:"Key under which the audit trail is chained, base64 of 32 bytes or more; several gateways may share it."`
	AuditKeyFile string          `placeholder:"FILE" help:"File that contains it."`
}

// Help is shown by --help.
func (v *gatewayVerb) Help() string {
	return `The file of --scopes is complete: once "tools" names a tool, every tool without a line is refused; "*" stands for all tools without a line of their own. docs/examples/scopes.yaml shows every key.`
}

// Run guards the server until ctx ends.
func (v *gatewayVerb) Run(ctx context.Context, p *program, k *kong.Context) error {
	s := &v.gatewaySettings
	plan, warnings, err := p.loadGateway(k, s, nil)
	if err != nil {
		return err
	}
	log, flush := p.logger(s.LogFormat)
	defer flush()
	signals, deaf := p.listen()
	defer deaf()
	st, err := newSite(ctx, s.Listen, s.AdminListen, s.TLSCert, s.TLSKey)
	if err != nil {
		return err
	}
	defer st.close()
	st.log = log
	st.measure()
	folder := func() (acme.Storage, error) { return acme.NewFolder(s.ACMEFolder) }
	if err := st.certify(ctx, &s.acmeSettings, folder, http.ProxyFromEnvironment); err != nil {
		return err
	}
	recorded, err := s.trail(ctx, p, st)
	if err != nil {
		return err
	}
	defer recorded.end(st)
	st.trusted = plan.configs[0].Guard.TrustedProxies
	defer st.trace(ctx, "gatehouse-gateway")()
	now := &guarding{
		program: p, args: k.Args, flags: k.Selected().Flags, plan: plan, warnings: warnings, site: st, counts: st.gatewayCounts(), record: recorded.record(),
		headers: plan.headers(), asked: map[application]*middleware.Budget{}, proofs: usedProofs{},
	}
	if err := now.put(plan); err != nil {
		return err
	}
	gate, reloads := &now.gate, newReloader(recorded.told(now.reload), log, p.reloadRest)
	st.grace, st.streams, st.notice = p.grace, newStreams(), gate.Stop
	st.bounds, st.headers = s.listenSettings, plan.headers()
	for _, sentence := range append(warnings, s.exposed(st.public.Addr())...) {
		st.log.Warn(sentence)
	}
	s.announce(p.announcements(s.auditSettings), st, plan.resources)
	serve := func() error {
		return st.serve(ctx, st.traces.Gateway(recorded.over(gate, harmlessAtGateway)), st.reloading(st.probes(recorded.ready(alwaysReady), nothingMissing), reloads))
	}
	return runWith(ctx, serve, recorded.run, now.watch, func(ctx context.Context) error { return reloads.run(ctx, signals) })
}

// loadGateway sets s from all sources. It returns what the gateway guards, warnings, and every
// mistake. settle, if set, is called with the flags before anything is made of them.
func (p *program) loadGateway(k *kong.Context, s *gatewaySettings, settle func([]*kong.Flag)) (*gatewayPlan, []string, error) {
	flags := k.Selected().Flags
	from, err := settings.FindSources(k.Path, flags, p.env, append(settings.FileKeys(flags), resourceList))
	if from == nil {
		return nil, nil, err
	}
	mistakes := []error{err}
	origins, err := from.Fill(flags)
	if settle != nil {
		settle(flags)
	}
	plan, doubts, also := s.plan(from.File, p.rand)
	err = errors.Join(append(mistakes, err, also)...)
	return plan, slices.Concat(p.unknownVariables(k.Model), doubts, settings.SecretRisks(flags, origins, from.File)), err
}

// gateway returns the configuration of the gateway of the only resource, with keys.
func (s *gatewaySettings) gateway(keys gatewayKeys, w *watched) (gateway.Config, error) {
	rules, err1 := s.rules()
	config, err2 := s.guarding(rules, keys, w)
	config.Guard.AuthorizationServers, config.Guard.Introspection = s.Issuer, s.introspection()
	if err := errors.Join(err1, err2); err != nil {
		return config, err
	}
	return config, keys.bind(&config.Guard)
}

// guarding returns the configuration of the gateway of one resource, without issuers and sessions.
func (s *gatewaySettings) guarding(rules scopeRules, keys gatewayKeys, w *watched) (gateway.Config, error) {
	networks, _ := networks(s.TrustedProxies) // formMistakes reports mistakes
	headers, err1 := s.headers(w)
	upstreamTLS, err2 := s.tls(w)
	dpop, err3 := s.dpop()
	config := gateway.Config{
		Guard: middleware.Config{
			Resource: s.Resource, ResourceName: s.ResourceName,
			Scopes: rules.supported, ChallengeScopes: rules.challenge, Policy: rules.policy,
			StaleKeys:  cmp.Or(time.Duration(s.StaleKeys), -1), // zero is the default of middleware.Config
			EndStreams: s.EndStreams, MaxBody: s.MaxBody, MaxToken: s.MaxToken, AllowedOrigins: s.AllowedOrigins, TrustedProxies: networks,
			DPoP: dpop, ClientCertificates: middleware.ClientCertificates{Header: s.ClientCertHeader},
		},
		Upstream: s.Upstream, VerifyOnly: s.VerifyOnly, Identity: gateway.Identity(s.Identity), AssertionBinding: gateway.AssertionBinding(s.AssertionBinding),
		InsecureTrustMCPHeaders: s.InsecureTrustMCPHeaders, PassHeaders: s.PassHeaders, UpstreamHeaders: headers, UpstreamTLS: upstreamTLS,
		OriginalRequest: gateway.OriginalRequest{MethodHeader: s.VerifyMethodHeader, URIHeader: s.VerifyURIHeader},
	}
	if config.Identity == gateway.IdentityAssertion {
		config.AssertionKeys = keys.assertions
	}
	return config, errors.Join(err1, err2, err3)
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
	if loopback(addr) || s.TLSCert != "" || s.orders() {
		return nil
	}
	return []string{fmt.Sprintf("%s is open to other machines without TLS: only a proxy that ends TLS may reach it", addr)}
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
	if s.TLSCert != "" || s.orders() {
		scheme = "https://"
	}
	return scheme + addr.String() + path
}
