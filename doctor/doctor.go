// Package doctor says why a client cannot sign in to a protected server. [Check] asks a server
// what clients ask before a sign-in, without a token: it calls the server, reads the challenge,
// the resource metadata in every place, and the metadata of each authorization server that it
// names. [CheckServer] does the same for an authorization server alone.
//
//	report, err := doctor.Check(ctx, "https://notes.example.com/mcp", doctor.Options{})
//	if err != nil {
//		return err // nothing could be asked
//	}
//	for _, f := range report.Findings {
//		fmt.Println(f.Severity, f.ID, f.Saw, f.Mend)
//	}
//
// All questions are asked first and kept with their answers; the checks are functions of that
// record and open no connections. Time, requests and bytes are bounded. The target chooses the
// addresses that it names, so each is judged after its lookup: see [Options].AllowHosts.
//
// Nothing is changed at the servers unless [Options].Register or SignIn is set, and no token of anybody is
// sent but [Options].Token.
package doctor

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// The bounds of one examination.
const (
	// MaxTime is the time until an examination without a sign-in ends, whatever it has not asked by
	// then. Who cancels it waits for the removal of a registration, some seconds at most.
	MaxTime = 30 * time.Second
	// MaxRequests bounds the requests.
	MaxRequests = 60
	// MaxBytes bounds the bodies that are read, together; MaxBody bounds one of them.
	MaxBytes, MaxBody = 4 << 20, 256 << 10
	// MaxServers bounds the authorization servers that are asked.
	MaxServers = 3
)

// ErrTarget reports a target that is not an absolute http or https URL, or that has a user or a
// fragment.
var ErrTarget = errors.New("not a URL that can be examined")

// ErrNothing reports that no question was answered: the target cannot be reached.
var ErrNothing = errors.New("nothing could be asked")

// Options change an examination. The zero value asks what changes nothing, with the bounds of
// this package.
type Options struct {
	// AllowHosts are hosts (without a port) that may be asked although the rule for addresses
	// forbids it: a public target never leads to a private address, and a private target only
	// to addresses of its own host. A host is judged after its lookup, and the connection goes
	// to an address that was judged.
	AllowHosts []string
	// Register lets the doctor register clients, as the recorded clients do, and try redirect
	// URIs and PKCE with one of its own. What it registered is removed again (RFC 7592), or
	// listed in [Report].Left.
	Register bool
	// Token is an access token for the target, with which it is asked in both kinds of
	// revisions. It is sent to the target only, and appears in no report. It is neither
	// refreshed nor revoked.
	Token string
	// SignIn, if set, shows a person the URL at which to sign in, for example in a browser, and
	// returns at once. The doctor waits at a loopback address for the answer. It asks for a grant
	// of its own, with which it also tries what a server must refuse, and ends it; what could not
	// be removed is in [Report].Left. Bounds: [MaxWait] for the person, [MaxTime] before it, after
	// it and for the removal, [MaxSignInRequests].
	SignIn func(ctx context.Context, url string) error
	// Expiry, with SignIn, is how long to wait at most for the token to end, to see that it is
	// refused then. Default: nothing is waited for.
	Expiry time.Duration
	// ClientID is the client that signs in: public, with the redirect URI http://127.0.0.1/callback
	// at any port. Default: the doctor registers one, and removes it again.
	ClientID string
	// Roots verifies certificates. Default: those of the system.
	Roots *x509.CertPool
	// Transport replaces the network, for tests inside of one process. No address is judged.
	Transport http.RoundTripper
	// Lookup replaces the resolver of the system.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Now replaces the clock, which is compared with that of the servers.
	Now func() time.Time
	// Sleep replaces the waiting for Expiry.
	Sleep func(ctx context.Context, d time.Duration) error
	// Progress, if set, is told about each request before it is sent.
	Progress func(method, url string)
}

// Check examines a protected server. The error wraps [ErrTarget] or [ErrNothing]; findings are
// never errors.
func Check(ctx context.Context, target string, o Options) (*Report, error) {
	return examine(ctx, target, o, (*walker).walkResource)
}

// CheckServer examines an authorization server alone, by its issuer identifier.
func CheckServer(ctx context.Context, issuer string, o Options) (*Report, error) {
	return examine(ctx, issuer, o, (*walker).walkIssuer)
}

func examine(ctx context.Context, target string, o Options, walk func(*walker, context.Context)) (*Report, error) {
	u, err := parseTarget(target)
	if err != nil {
		return nil, err
	}
	if err := o.tokenFits(u); err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	w := newWalker(target, u, o)
	defer w.courier.close()
	w.within(ctx, func(ctx context.Context) { walk(w, ctx) })
	if err := w.nothing(); err != nil {
		return nil, err
	}
	w.withPerson(ctx)
	return w.report(), nil
}

// parseTarget refuses what no client can dial. Spaces and the like are left to the checks of the
// package metadata.
func parseTarget(target string) (*url.URL, error) {
	u, err := url.Parse(target)
	why := "the port, the brackets or the escapes of it are wrong"
	if err == nil {
		why = unfitTarget(u)
	}
	if why == "" && strings.HasSuffix(target, "#") {
		why = "leave out the # at its end"
	}
	if why == "" {
		return u, nil
	}
	if at := strings.LastIndexByte(target, '@'); at >= 0 {
		target = "…" + target[at:] // what is before may be a password
	}
	return nil, fmt.Errorf("doctor: %w: %s: %s", ErrTarget, quoted(target), why)
}

// unfitTarget tells a person what to change in a URL, "" for nothing.
func unfitTarget(u *url.URL) string {
	port, err := strconv.ParseUint(cmp.Or(u.Port(), "1"), 10, 16)
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return "it must begin with https:// or http://"
	case u.Hostname() == "":
		return "it has no host"
	case err != nil, port == 0, strings.Contains(u.Hostname(), ":") && !strings.HasPrefix(u.Host, "["):
		return "the port must be a number from 1 to 65535"
	case u.User != nil:
		return "leave out the user name and the password"
	case u.Fragment != "":
		return "leave out what follows #"
	case u.ForceQuery:
		return "leave out the ? at its end"
	}
	return ""
}

// nothing returns an error if no request was answered, except where that is a finding.
func (w *walker) nothing() error {
	var first *exchange
	for _, e := range w.exchanges {
		if e.status > 0 || e.failure == failTLS || e.failure == failLimited || e.failure == failHeader {
			return nil
		}
		if first == nil {
			first = e
		}
	}
	if first == nil {
		return fmt.Errorf("doctor: %w: the time was over", ErrNothing)
	}
	return fmt.Errorf("doctor: %w: %s: %s", ErrNothing, clean(first.url), first.reason+first.tryTLS())
}
