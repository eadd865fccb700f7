package upstream

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

// Client speaks with one provider. It is safe for concurrent use. It needs no end: it starts no
// goroutine that outlives its limits.
type Client struct {
	p Provider
	o Options
	*caller
	document shared[metadata]
	keys     shared[[]key]
	patient  chan struct{} // places for logout tokens that wait for new keys
}

// New returns a Client, or what is wrong with the configuration ([Provider.Validate]). It does
// not speak with the provider: that happens when the first person comes.
func New(p Provider, o Options) (*Client, error) {
	if err := p.Validate(o.Dev); err != nil {
		return nil, err
	}
	if _, err := url.Parse(o.Redirect); err != nil || o.Redirect == "" {
		return nil, errors.New("upstream: Options.Redirect is missing or no address")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Client{p: p.filled(), o: o, patient: make(chan struct{}, 16)}
	c.caller = newCaller(blame{c.p.ID, c.p.Name}, o)
	c.document.fetch, c.document.now, c.document.pause = c.discover, o.Now, pause
	c.keys.fetch, c.keys.now, c.keys.pause = c.fetchKeys, o.Now, pause
	return c, nil
}

// Provider returns the configuration, without secret and key, and with the defaults of its
// preset filled in.
func (c *Client) Provider() Provider {
	p := c.p
	p.ClientSecret, p.ClientKey = "", nil
	return p
}

// NewAttempt returns an Attempt with a new nonce and verifier, begun now. The state must have
// enough randomness of its own; the caller compares it.
func NewAttempt(state string) Attempt {
	return Attempt{State: state, Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Begun: time.Now()}
}

// complete says what an attempt lacks.
func (c *Client) complete(a Attempt) error {
	if a.State == "" || len(a.Nonce) < 16 || len(a.Verifier) < 43 || len(a.Verifier) > 128 {
		return c.error(ErrInvalid, ReasonCallback, "the attempt has no state, nonce or verifier")
	}
	return nil
}

// Begin returns the address of the provider to which the browser goes. It may fetch the
// provider's metadata first.
func (c *Client) Begin(ctx context.Context, a Attempt) (string, error) {
	if err := c.complete(a); err != nil {
		return "", err
	}
	m, err := c.metadata(ctx)
	if err != nil {
		return "", err
	}
	if c.p.Preset == GitHub && (a.ForceLogin || a.MaxAge != nil) {
		return "", c.error(ErrDenied, ReasonAge, "GitHub cannot be asked for a new sign-in, and does not say when the last one was")
	}
	// PKCE binds the code to this attempt (RFC 7636 section 4.3, RFC 9700 section 2.1.1).
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(a.Verifier)}
	add := func(name, value string) {
		if value != "" {
			options = append(options, oauth2.SetAuthURLParam(name, value))
		}
	}
	if c.p.Preset != GitHub {
		add("nonce", a.Nonce)
	}
	if a.MaxAge != nil {
		add("max_age", strconv.FormatInt(max(int64(*a.MaxAge/time.Second), 0), 10))
	}
	add("prompt", c.prompt(m, a))
	add(c.hintName(), hint(a.LoginHint))
	if c.p.Preset == Google {
		c.addGoogle(add)
	}
	config := c.config(m)
	config.Scopes = c.scopes(m, c.needsGroups(a.NeedGroups))
	return config.AuthCodeURL(a.State, options...), nil
}

// addGoogle adds what only Google knows: the wish for a refresh token, and a hint to the one
// domain whose accounts can come in. The answer is checked all the same.
func (c *Client) addGoogle(add func(name, value string)) {
	if c.p.Recheck > 0 {
		add("access_type", "offline")
	}
	if len(c.p.Allow.Domains) == 1 {
		add("hd", c.p.Allow.Domains[0])
	}
}

func (c *Client) hintName() string {
	if c.p.Preset == GitHub {
		return "login"
	}
	return "login_hint"
}

func hint(s string) string {
	if !plain(s, 255) {
		return ""
	}
	return s
}

// prompt is the value of prompt: a forced sign-in, and the consent without which there is no
// refresh token (OpenID Connect Core section 11).
func (c *Client) prompt(m metadata, a Attempt) string {
	var values []string
	switch {
	case a.ForceLogin && c.p.Preset == Google:
		values = append(values, "select_account") // Google has no prompt=login
	case a.ForceLogin:
		values = append(values, "login")
	}
	offline := c.p.Preset == Google || slices.Contains(c.scopes(m, false), "offline_access")
	if c.p.Recheck > 0 && presets[c.p.Preset].offlineConsent && offline {
		values = append(values, "consent")
	}
	return strings.Join(values, " ")
}

// scopes are what is asked for. groups says that groups are needed.
func (c *Client) scopes(m metadata, groups bool) []string {
	scopes := []string{"openid", "profile", "email"}
	if c.p.Preset == GitHub {
		scopes = []string{"user:email"}
		if groups || len(c.p.Allow.Organisations) > 0 {
			scopes = append(scopes, "read:org")
		}
	}
	if c.p.Recheck > 0 && (slices.Contains(m.Scopes, "offline_access") || c.p.Preset == Entra) {
		scopes = append(scopes, "offline_access")
	}
	// Others refuse a scope that they list but did not give to this client, so it is configured.
	if presets[c.p.Preset].groupsScope && groups && slices.Contains(m.Scopes, "groups") {
		scopes = append(scopes, "groups")
	}
	for _, scope := range c.p.Scopes {
		if !slices.Contains(scopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}

// Check fetches the provider's metadata and keys, and compares them with the configuration, for
// a start or a command that looks at everything.
func (c *Client) Check(ctx context.Context) error {
	if _, err := c.metadata(ctx); err != nil || c.p.Preset == GitHub {
		return err
	}
	if _, _, err := c.keys.get(ctx); err != nil {
		return c.waited(ctx, err)
	}
	return nil
}
