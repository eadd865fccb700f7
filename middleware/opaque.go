package middleware

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4/json"
)

const (
	// providerFresh is the default of [Introspection.Fresh] for providers that count questions, and
	// maxProviderFresh its maximum.
	providerFresh    = 5 * time.Minute
	maxProviderFresh = time.Hour
	// endlessLife is how long after a question a token without an expiry has one.
	endlessLife = time.Hour
)

// opaqueTokens are the tokens of a provider that has a way of its own to look them up.
type opaqueTokens struct {
	prefixes []string
	shortest int    // the length of the shortest token
	secret   bool   // whether the question needs credentials
	address  string // the default of [Introspection.Endpoint]
	question func(ctx context.Context, i *Introspection, token string) (*http.Request, error)
	unknown  func(status int, body []byte) bool // whether a response says that the token is not valid
	answer   func(r *tokenRules, m members, asked time.Time) (jwtClaims, error)
}

// asksProvider reports whether the tokens of a profile are opaque, and looked up in a way of the
// provider's own.
func (p Profile) asksProvider() bool { return p.known() && tokenForms[p].provider != nil }

// fresh returns the default of [Introspection.Fresh].
func (p Profile) fresh() time.Duration {
	if p.asksProvider() {
		return providerFresh
	}
	return defaultFresh
}

// looksLike reports whether a token may be one of the profile. It keeps invented tokens and tokens of
// other kinds from the provider.
func (p Profile) looksLike(token string) bool {
	if !p.asksProvider() {
		return true
	}
	form := tokenForms[p].provider
	for _, prefix := range form.prefixes {
		rest, ok := strings.CutPrefix(token, prefix)
		if ok && len(token) >= form.shortest && !strings.ContainsFunc(rest, func(c rune) bool { return !base64URL(byte(c)) && c != '.' }) {
			return true
		}
	}
	return false
}

// isNoJWT is the evidence of profiles whose access tokens are never JWTs.
func (r *tokenRules) isNoJWT(members, *jwtClaims) bool { return false }

// asProvided reports whether an issuer has no settings for JWTs.
func (i *Issuer) asProvided() bool {
	return len(i.Algorithms) == 0 && i.Type == "" && i.ClientClaim == "" && i.ScopeClaim == "" && i.Keys.kind == discoveredKeys
}

// unasked finds issuers of opaque tokens without a way to look them up.
func unasked(asked map[string]Introspection, issuers []Issuer) error {
	var errs []error
	for _, one := range issuers {
		if one.Profile.asksProvider() && !asked[one.URL].Opaque {
			errs = append(errs, fmt.Errorf("issuer %s: its tokens are opaque: it needs an entry in Introspection, with Opaque", one.URL))
		}
	}
	return errors.Join(errs...)
}

// validProvider finds mistakes in an entry for a provider with a way of its own.
func (i Introspection) validProvider(issuer *Issuer) error {
	if err := i.validCredentials(issuer); err != nil {
		return err
	}
	switch {
	case i.Fresh < 0 || i.Fresh > maxProviderFresh:
		return fmt.Errorf("the time for which answers are fresh is below zero or above %s", maxProviderFresh)
	case i.PerHour < 0:
		return errors.New("PerHour is below zero")
	case i.Endpoint != "":
		return validAddress(issuer.URL, i.Endpoint)
	}
	return nil
}

func (i Introspection) validCredentials(issuer *Issuer) error {
	form := tokenForms[issuer.Profile].provider
	switch {
	case form.secret && (i.ClientID == "" || i.ClientSecret == ""):
		return errors.New("the question needs the client id and the secret of the application")
	case form.secret && !slices.Equal(issuer.Audiences, []string{i.ClientID}):
		return errors.New("the provider knows the tokens of the application alone whose credentials these are: name its client id, and no other, in Audiences")
	case !form.secret && (i.ClientID != "" || i.ClientSecret != ""):
		return errors.New("the question needs no credentials: leave out ClientID and ClientSecret")
	}
	return nil
}

// askProvider looks up a token at a provider. The errors contain nothing of the response, which may
// repeat the token.
func (i *introspector) askProvider(ctx context.Context, token string) (answer, error) {
	rules, asked := i.issuer.rules, i.issuer.now()
	form := tokenForms[rules.profile].provider
	question := i.Introspection
	if question.Endpoint == "" {
		question.Endpoint = form.address
	}
	req, err := form.question(ctx, &question, token)
	if err != nil {
		return answer{}, errors.New("the question cannot be sent")
	}
	status, header, body, err := i.issuer.fetch.exchange(req)
	switch {
	case err != nil:
		return answer{}, fmt.Errorf("%s: %w", question.Endpoint, err)
	case form.unknown(status, body):
		return answer{}, nil // not active
	case status != http.StatusOK:
		return answer{}, &busyError{fmt.Sprintf("%s: the status is %d", question.Endpoint, status), pauseOf(status, header, asked)}
	}
	m, err := readDocument(header, body)
	var c jwtClaims
	if err == nil {
		c, err = rules.readProvider(form, m, asked)
	}
	if err != nil {
		return answer{}, fmt.Errorf("%s: %w", question.Endpoint, err)
	}
	c.keep(m.withoutToken(), i.largest)
	return answer{Active: true, jwtClaims: c}, nil
}

// errProvider contains nothing of the response, which may contain the token.
var errProvider = errors.New("the answer is not what the provider documents")

// readDocument reads the JSON object in a response.
func readDocument(header http.Header, body []byte) (members, error) {
	if kind, _, err := mime.ParseMediaType(header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, errors.New("the answer is not application/json")
	}
	m, err := readMembers(string(body))
	if err != nil {
		return nil, errProvider
	}
	return m, nil
}

// withoutToken returns the members as an object, without the token, which GitHub repeats.
func (m members) withoutToken() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if quoted, err := json.Marshal(name); err == nil && name != "token" {
			parts = append(parts, string(quoted)+":"+string(m[name]))
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// readProvider returns what a provider says about a valid token.
func (r *tokenRules) readProvider(form *opaqueTokens, m members, asked time.Time) (jwtClaims, error) {
	c, err := form.answer(r, m, asked)
	if err != nil {
		return jwtClaims{}, errProvider
	}
	held, _ := r.granted(m)
	c.Scope, c.unaddressed = r.mapped(c.Scope, held), true
	return c, nil
}

// exchange sends a question, and reads the response whatever its status.
func (f *fetcher) exchange(req *http.Request) (status int, header http.Header, body []byte, err error) {
	setRequestID(req)
	req.Header["Idempotency-Key"] = []string{} // not sent, but lets net/http retry on another connection
	res, err := f.client.Do(req)
	if err != nil {
		return 0, nil, nil, broken(err)
	}
	defer func() { _ = res.Body.Close() }() // read-only: nothing is lost
	body, err = io.ReadAll(io.LimitReader(res.Body, maxDocument+1))
	switch {
	case err != nil:
		return 0, nil, nil, broken(err)
	case len(body) > maxDocument:
		return 0, nil, nil, fmt.Errorf("the document has more than %d bytes", maxDocument)
	}
	return res.StatusCode, res.Header, body, nil
}
