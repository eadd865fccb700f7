// Package dcr is how clients become known to an authorization server.
//
// A client registers itself with [Registry.Register] (RFC 7591) and reads what was
// registered from [Registry.Configuration] (RFC 7592 section 2.1), or an operator
// configures it. [Registry.Resolve] finds either by its client_id.
//
// Everything that a client says about itself is an untrusted self-assertion (RFC 7591
// section 5). What cannot be used is refused with an error that names the member, so
// that a person can mend it; what is merely not supported is left out, and the response
// says what was registered. Nothing is stored for a refused request, and secrets are
// stored as SHA-256 only.
//
// What is refused: more than 64 KiB, JSON that two readers could understand
// differently, more than ten redirect URIs, a redirect URI that [metadata.ParseRedirect]
// or the [Policy] does not accept, the implicit and password grants, response types
// other than code, private or symmetric keys, and every software statement.
//
// Known members that have no effect here are left out of the response: jwks and
// jwks_uri are checked and not registered, because no authentication method uses them.
//
//	clients, err := dcr.New(dcr.Config{
//		Store:    store,
//		Endpoint: "https://auth.example.com/register",
//		Scopes:   []string{"notes:read", "offline_access"},
//	})
//	...
//	mux.Handle("/register", clients.Register())
//	mux.Handle("/register/{id}", clients.Configuration())
//	client, err := clients.Resolve(ctx, "the client_id of a request")
package dcr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// Config configures a [Registry]. Store and Endpoint are required.
type Config struct {
	// Store keeps the clients that register.
	Store *storage.Store
	// Endpoint is the absolute URL of the client registration endpoint (RFC 7591
	// section 3). The client configuration endpoint of a client (RFC 7592 section 2) is
	// the same URL followed by "/" and its client_id.
	Endpoint string
	// Policy narrows what may be registered.
	Policy Policy
	// Scopes are the scopes that exist here, offline_access among them if it is
	// accepted. Others are left out of what is registered.
	Scopes []string
	// Static are the clients that an operator configured. They need no Source.
	Static []storage.Client
	// OnRegister, if set, is called after a client was stored. It must not keep the
	// client's slices.
	OnRegister func(context.Context, storage.Client)
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Logger gets one line per registration and per refusal. Default: slog.Default.
	Logger *slog.Logger
}

// Policy is what a deployment allows to be registered. The zero value allows every
// redirect URI that [metadata.ParseRedirect] accepts.
type Policy struct {
	// RefusePrivateUse refuses redirect URIs with a private-use scheme (RFC 8252
	// section 7.1), such as cursor://anysphere.cursor-mcp/oauth/callback.
	RefusePrivateUse bool
	// PrivateUseSchemes, if not empty, are the only private-use schemes allowed, in
	// lowercase and without the colon.
	PrivateUseSchemes []string
}

// Registry knows the clients of an authorization server. It is safe for concurrent use.
type Registry struct {
	store      *storage.Store
	endpoint   string
	policy     Policy
	scopes     map[string]bool
	static     map[string]storage.Client
	cache      *cache
	onRegister func(context.Context, storage.Client)
	now        func() time.Time
	log        *slog.Logger
}

// New returns a Registry, or every mistake in the configuration.
func New(c Config) (*Registry, error) {
	r := &Registry{
		store: c.Store, endpoint: c.Endpoint, policy: c.Policy, scopes: map[string]bool{}, cache: newCache(),
		onRegister: c.OnRegister, now: c.Now, log: cmp.Or(c.Logger, slog.Default()),
	}
	if r.now == nil {
		r.now = time.Now
	}
	if r.onRegister == nil {
		r.onRegister = func(context.Context, storage.Client) {}
	}
	for _, scope := range c.Scopes {
		r.scopes[scope] = true
	}
	errs := []error{validEndpoint(c.Endpoint)}
	if c.Store == nil {
		errs = append(errs, errors.New("dcr: no store"))
	}
	var err error
	r.static, err = staticClients(c.Static)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	return r, nil
}

// validEndpoint wants an absolute URL that another URL can be made from by appending
// "/" and an id.
func validEndpoint(raw string) error {
	fail := func(why string) error { return fmt.Errorf("dcr: endpoint %q: %s", raw, why) }
	if _, err := metadata.Canonical(raw); err != nil {
		return fail("it is not an absolute URL")
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return fail("it is not a URL")
	case u.RawQuery != "" || u.ForceQuery || strings.HasSuffix(raw, "/"):
		return fail("it must not have a query or end in a slash")
	case u.Scheme != "https" && !metadata.IsLoopbackHost(u.Hostname()):
		// RFC 7591 section 3: the endpoint MUST be protected by TLS.
		return fail("it must be https unless the host is loopback")
	}
	return nil
}
