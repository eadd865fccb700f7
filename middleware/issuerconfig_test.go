package middleware_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// TestIssuerMistakes checks that each mistake in an issuer is a sentence that says what to do.
func TestIssuerMistakes(t *testing.T) {
	entra := middleware.Issuer{URL: profiles[middleware.Entra], Profile: middleware.Entra}
	template := middleware.Issuer{URL: "https://login.example.com/{tenantid}/v2.0", Profile: middleware.Entra, Tenants: []string{tenant}}
	type (
		config = middleware.Config
		issuer = middleware.Issuer
	)
	for want, change := range map[string]func(*config, *issuer){
		"it must be https":                   func(_ *config, i *issuer) { i.URL = "http://auth.example.com" },
		"issuer : ":                          func(_ *config, i *issuer) { i.URL = "" },
		"it must not end in a slash":         func(_ *config, i *issuer) { i.URL += "//" },
		"write it in its canonical form":     func(_ *config, i *issuer) { i.URL = "https://AUTH.example.com/" },
		"there is no profile Profile(9)":     func(_ *config, i *issuer) { i.Profile = 9 },
		"there is no profile Profile(-1)":    func(_ *config, i *issuer) { i.Profile = -1 },
		"an audience is empty":               func(_ *config, i *issuer) { i.Audiences = []string{"a", ""} },
		`"HS256" is not an accepted`:         func(_ *config, i *issuer) { i.Algorithms = []string{"RS256", "HS256"} },
		`"none" is not an accepted`:          func(_ *config, i *issuer) { i.Algorithms = []string{"none"} },
		`"" is not an accepted`:              func(_ *config, i *issuer) { i.Algorithms = []string{""} },
		`"rs256" is not an accepted`:         func(_ *config, i *issuer) { i.Algorithms = []string{"rs256"} },
		`"a b" is not a type`:                func(_ *config, i *issuer) { i.Type = "a b" },
		`"aud" does not name a client`:       func(_ *config, i *issuer) { i.ClientClaim = "aud" },
		`"sub" does not hold scopes`:         func(_ *config, i *issuer) { i.ScopeClaim = "sub" },
		`"iss" does not hold scopes`:         func(_ *config, i *issuer) { i.ScopeClaim = "iss" },
		"for clocks is below zero":           func(_ *config, i *issuer) { i.Leeway = -1 },
		"for clocks is more than 1m0s":       func(_ *config, i *issuer) { i.Leeway = time.Minute + 1 },
		"the URL of its keys: ":              func(_ *config, i *issuer) { i.Keys = middleware.KeysAt("") },
		"keys: it must be https":             func(_ *config, i *issuer) { i.Keys = middleware.KeysAt("http://127.0.0.1/keys") },
		"key set: ":                          func(_ *config, i *issuer) { i.Keys = middleware.FixedKeys(nil) },
		"it holds no public key for [RS256]": func(_ *config, i *issuer) { *i = issuerOf(t, middleware.Okta, i.URL); i.Keys = ecKeys(t) },
		"only issuers of the profile Entra":  func(_ *config, i *issuer) { i.Tenants = []string{tenant} },
		"an issuer of Entra has the form":    func(_ *config, i *issuer) { i.Profile = middleware.Entra },
		`"common" is not a tenant ID`:        func(_ *config, i *issuer) { *i = entra; i.URL = "https://login.example.com/common/v2.0" },
		"a UUID in lower case": func(_ *config, i *issuer) {
			*i = entra
			i.URL = "https://login.example.com/" + strings.ToUpper(tenant) + "/v2.0"
		},
		"its URL names the tenant":                          func(_ *config, i *issuer) { *i = entra; i.Tenants = []string{tenant} },
		"name those that are accepted":                      func(_ *config, i *issuer) { *i = template; i.Tenants = nil },
		`"*" is not a tenant ID`:                            func(_ *config, i *issuer) { *i = template; i.Tenants = []string{tenant, "*"} },
		"come from their metadata":                          func(_ *config, i *issuer) { *i = template; i.Keys = ecKeys(t) },
		"set AuthorizationServers":                          func(_ *config, i *issuer) { *i = template },
		tenant + "/v2.0: it occurs twice":                   func(c *config, i *issuer) { *i = template; c.Issuers = append(c.Issuers, entra) },
		"example.com: it occurs twice":                      func(c *config, i *issuer) { c.Issuers = append(c.Issuers, *i) },
		"for the profiles Cognito, Google and GitHub alone": func(_ *config, i *issuer) { i.InsecureNoAudience, i.Audiences = true, []string{"a"} },
		"name the clients whose tokens":                     func(_ *config, i *issuer) { i.Profile, i.InsecureNoAudience = middleware.Cognito, true },
		"only tokens with the claims of RFC":                func(c *config, i *issuer) { i.Profile, c.Introspection = middleware.Keycloak, asking(i.URL) },
		"leave out its Profile, Type":                       func(c *config, i *issuer) { i.ScopeClaim, c.Introspection = "scp", asking(i.URL) },
		"not one of the authorization server":               func(c *config, i *issuer) { c.Introspection = asking(i.URL + "/") },
	} {
		c := middleware.Config{Resource: resource, Issuers: []middleware.Issuer{{URL: "https://auth.example.com"}}}
		change(&c, &c.Issuers[0])
		if guard, err := middleware.New(c); err == nil || guard != nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "middleware: config: ") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func asking(url string) map[string]middleware.Introspection {
	return map[string]middleware.Introspection{url: {ClientID: "notes", ClientSecret: "secret"}}
}

// ecKeys are keys that no profile with RSA can use.
func ecKeys(t *testing.T) middleware.KeySource {
	t.Helper()
	return middleware.FixedKeys(keySetOf(t, jose.JSONWebKey{Key: middlewaretest.NewKey(t, jose.ES256)}))
}

// TestIntrospectionOfConfiguredIssuers checks that an issuer whose claims are those of RFC 9068 can
// be asked about tokens, with the audiences and the leeway of its own.
func TestIntrospectionOfConfiguredIssuers(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, introspects(issuer, opaque), func(c *middleware.Config) {
		c.Issuers = []middleware.Issuer{{URL: issuer.URL(), Audiences: []string{"api://notes"}, Leeway: time.Second}}
	})
	for _, mint := range []func(claims) string{issuer.Mint, issuer.MintOpaque} {
		wantVerdict(t, guard, mint(claims{"aud": "api://notes"}), nil)
		wantVerdict(t, guard, mint(claims{"aud": "api://other"}), middleware.ErrToken)
		wantVerdict(t, guard, mint(claims{"aud": "api://notes", "exp": time.Now().Add(-5 * time.Second).Unix()}), middleware.ErrToken)
	}
}

// algorithmTable has the key for each algorithm, and the key of the same kind for others.
var algorithmTable = map[jose.SignatureAlgorithm][]jose.SignatureAlgorithm{
	jose.ES256: {jose.ES384, jose.ES512}, jose.ES384: {jose.ES256, jose.ES512}, jose.ES512: {jose.ES256, jose.ES384}, jose.EdDSA: {jose.ES256},
	jose.RS256: {jose.RS384, jose.PS256}, jose.RS384: {jose.RS256, jose.PS384}, jose.RS512: {jose.RS256, jose.PS512},
	jose.PS256: {jose.PS384, jose.RS256}, jose.PS384: {jose.PS256, jose.RS384}, jose.PS512: {jose.PS384, jose.RS512},
}

// TestAlgorithmTable checks that each algorithm works where it is asked for, that the further ones
// are refused where they are not, and that neither a key of another curve nor another algorithm of
// the same key makes a signature good.
func TestAlgorithmTable(t *testing.T) {
	const url = "https://auth.example.com"
	payload := marshal(t, claims{"iss": url, "sub": "reader", "client_id": "c", "aud": resource, "iat": 1e9, "exp": 4e9})
	first := map[jose.SignatureAlgorithm]bool{jose.ES256: true, jose.EdDSA: true, jose.RS256: true, jose.PS256: true}
	for algorithm, others := range algorithmTable {
		key := jose.JSONWebKey{Key: keyFor(t, algorithm), KeyID: "one", Algorithm: string(algorithm)}
		token := signWith(t, key, claims{"typ": "at+jwt"}, payload)
		open := jose.JSONWebKey{Key: key.Key, KeyID: "one"} // a key that says nothing about its algorithm
		set := middleware.FixedKeys(keySetOf(t, open))
		configured := middleware.Issuer{URL: url, Keys: set, Algorithms: []string{string(algorithm)}}
		guard := guardOf(t, configured)
		wantVerdict(t, guard, token, nil)
		for name, changed := range map[string]string{"cut": token[:len(token)-4], "longer": token + "AAAA",
			"of zeros": token[:strings.LastIndexByte(token, '.')+1] + encode(make([]byte, 132))} {
			if _, err := guard.Verify(t.Context(), changed); err == nil {
				t.Errorf("%s: a signature that is %s is accepted", algorithm, name)
			}
		}
		if standard, err := middleware.New(middleware.Config{Resource: resource, Issuers: []middleware.Issuer{{URL: url, Keys: set}}}); err == nil {
			if _, err := standard.Verify(t.Context(), token); (err == nil) != first[algorithm] {
				t.Errorf("%s without being asked for: %v", algorithm, err)
			}
		} else if first[algorithm] || !strings.Contains(err.Error(), "it holds no public key for") {
			t.Error(err)
		}
		configured.Algorithms = nil
		for name := range algorithmTable {
			configured.Algorithms = append(configured.Algorithms, string(name))
		}
		all := guardOf(t, configured)
		wantVerdict(t, all, token, nil)
		_, signature, _ := strings.Cut(token[strings.IndexByte(token, '.')+1:], ".")
		for _, other := range others {
			stranger := jose.JSONWebKey{Key: keyFor(t, other), KeyID: "one", Algorithm: string(other)}
			wantVerdict(t, guard, signWith(t, stranger, claims{"typ": "at+jwt"}, payload), middleware.ErrToken)
			relabelled := encode([]byte(`{"alg":"`+string(other)+`","typ":"at+jwt","kid":"one"}`)) + "." + encode(payload) + "." + signature
			wantVerdict(t, all, relabelled, middleware.ErrToken)
		}
	}
}

var rsaAlgorithms = "RS256 RS384 RS512 PS256 PS384 PS512"

// keyFor returns a private key; those for RSA are the same, because making one takes long.
func keyFor(t *testing.T, algorithm jose.SignatureAlgorithm) any {
	t.Helper()
	if strings.Contains(rsaAlgorithms, string(algorithm)) {
		return rsaKey().Key
	}
	return middlewaretest.NewKey(t, algorithm)
}
