package upstream_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/authz/internal/account"
	"gatehouse.example/authz/upstream"
	"gatehouse.example/authz/upstream/upstreamtest"
)

// The fuzz targets send whatever a provider can send. What comes of it is an error of this package
// that blames the provider, or somebody who has arrived with a name and groups that fit the rules.

const there = "http://127.0.0.1:9"

// anything is a provider whose answers are chosen by the test, by the last element of the path.
type anything struct {
	preset  string
	status  int // of the token endpoint
	answers map[string][]byte
}

// usual returns a provider whose answers are all right, for a person without claims.
func usual(preset string) anything {
	issuer := issuerOf(preset)
	document := fmt.Sprintf(`{"issuer":%q,"authorization_endpoint":%q,"token_endpoint":%q,"userinfo_endpoint":%q,"jwks_uri":%q}`,
		issuer, there+"/authorize", there+"/token", there+"/userinfo", there+"/keys")
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: fuzzKey.Public(), KeyID: "1", Use: "sig"}}})
	if err != nil {
		panic(err)
	}
	return anything{preset, http.StatusOK, map[string][]byte{
		"openid-configuration": []byte(document), "keys": keys, "userinfo": []byte(`{"sub":"1"}`),
		"user": []byte(`{"id":1,"login":"ada"}`), "emails": []byte(`[]`), "orgs": []byte(`[]`), "teams": []byte(`[]`),
	}}
}

func issuerOf(preset string) string {
	if preset == upstream.Entra {
		return there + "/" + upstreamtest.Tenant + "/v2.0"
	}
	return there
}

var fuzzKey = func() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return key
}()

// signed returns a token with these claims, and more members of a JSON object.
func signed(claims, more []byte) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: fuzzKey, KeyID: "1"}}, nil)
	if err != nil {
		panic(err)
	}
	if len(bytes.TrimSpace(more)) > 0 {
		claims = slices.Concat(bytes.TrimSuffix(claims, []byte("}")), []byte(","), more, []byte("}"))
	}
	object, err := signer.Sign(claims)
	if err != nil {
		panic(err)
	}
	token, err := object.CompactSerialize()
	if err != nil {
		panic(err)
	}
	return token
}

// client returns a client of the provider.
func (a anything) client(t testing.TB) *upstream.Client {
	t.Helper()
	allow := upstream.Allow{Anybody: true}
	if a.preset == upstream.GitHub {
		allow = upstream.Allow{Organisations: []string{"example"}}
	}
	client, err := upstream.New(upstream.Provider{
		ID: "company", Preset: a.preset, Issuer: issuerOf(a.preset), ClientID: "gatehouse", ClientSecret: upstreamtest.ClientSecret, Allow: allow, Recheck: time.Hour,
	}, upstream.Options{Redirect: redirect, Dev: true})
	if err != nil {
		t.Fatal(err)
	}
	client.Answer(a.answer)
	client.Hurry()
	return client
}

func (a anything) answer(r *http.Request) *http.Response {
	status, name := http.StatusOK, path.Base(r.URL.Path)
	if name == "token" || name == "access_token" {
		name, status = "token", a.status
	}
	if page := r.URL.Query().Get("page"); page != "" && page != "1" {
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("[]")), Request: r}
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(a.answers[name])), Request: r}
}

const fuzzNonce = "a nonce of some length"

// arrive signs in, and checks what comes of it.
func (a anything) arrive(t *testing.T) {
	t.Helper()
	client := a.client(t)
	attempt := upstream.Attempt{State: "state", Nonce: fuzzNonce, Verifier: strings.Repeat("v", 43), Begun: time.Now(), NeedGroups: true}
	arrived, err := client.Finish(t.Context(), attempt, upstream.Callback{Code: "the code"})
	if err != nil {
		blamed(t, err)
		return
	}
	fits(t, client.Provider(), arrived)
}

// blamed checks an error: it is of one kind, names the provider, and has no secret.
func blamed(t *testing.T, err error) {
	t.Helper()
	var e *upstream.Error
	if !errors.As(err, &e) || e.Provider != "company" || e.Sentence() == "" || e.Status() < 400 {
		t.Fatalf("the error does not blame the provider: %#v", err)
	}
	kinds := []error{upstream.ErrUnavailable, upstream.ErrInvalid, upstream.ErrDenied, upstream.ErrMisconfigured, upstream.ErrGone, upstream.ErrUnknown}
	if !slices.Contains(kinds, e.Kind) {
		t.Errorf("the error is of the kind %v", e.Kind)
	}
	if s := err.Error(); len(s) > 2000 || !text(s, 2000) || strings.Contains(s, upstreamtest.ClientSecret) || strings.Contains(s, "the code") {
		t.Errorf("the error is too long, cannot be shown or has a secret: %q", s)
	}
}

// text reports valid text of at most max bytes that has only what is seen.
func text(s string, max int) bool {
	return utf8.ValidString(s) && len(s) <= max && !strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) && r != '\u200c' && r != '\u200d'
	})
}

// fits checks somebody who arrived against what [upstream.Arrival] promises, and the name that they
// get against the rules for names.
func fits(t *testing.T, p upstream.Provider, a upstream.Arrival) {
	t.Helper()
	wrong := func(ok bool, what string) {
		if !ok {
			t.Errorf("%s: %+q", what, fmt.Sprintf("%+v", a))
		}
	}
	name := a.Provider + "/" + a.Handle
	for _, n := range []string{name, name + "~2"} {
		canonical, err := account.CanonicalName(n)
		wrong(err == nil && canonical == n && strings.Count(n, "/") == 1 && strings.HasPrefix(n, "company/"), "the name")
	}
	wrong(p.Issues(a.Issuer), "the issuer")
	wrong(p.Preset != upstream.GitHub || !strings.ContainsAny(a.Login, "/ .@"), "the login")
	wrong(a.Subject != "" && text(a.Subject, 255), "the subject")
	wrong(text(a.Login, 255) && text(a.SID, 255) && text(a.Email, 254), "login, sid or e-mail")
	wrong(text(a.FullName, 4*128) && utf8.RuneCountInString(a.FullName) <= 128, "the full name")
	wrong(!a.EmailVerified || strings.Count(a.Email, "@") == 1 && p.Preset != upstream.Entra, "an e-mail address that is proven")
	wrong(text(a.Domain, 255) && a.Domain == strings.ToLower(a.Domain) && !strings.ContainsAny(a.Domain, "/@ "), "the domain")
	wrong(len(a.Groups) <= 1000 && slices.IsSorted(a.Groups) && len(slices.Compact(slices.Clone(a.Groups))) == len(a.Groups), "the groups")
	wrong(len(a.Groups) == 0 || a.GroupsKnown, "groups that nobody named")
	for _, group := range a.Groups {
		wrong(group != "" && text(group, 256) && strings.TrimSpace(group) == group, "a group")
	}
	for _, org := range a.Organisations {
		wrong(org != "" && strings.Trim(org, "abcdefghijklmnopqrstuvwxyz0123456789-_") == "", "an organisation") // GitHub has names with _, of managed people
	}
	wrong(len(a.RefreshToken) <= 16<<10, "the refresh token")
}

// presetsOfOIDC are those with an ID token.
var presetsOfOIDC = []string{upstream.OIDC, upstream.Google, upstream.Entra, upstream.Okta, upstream.Keycloak, upstream.GitLab}

// FuzzDocuments sends metadata and keys. A person is sent only to an address of the web, with our
// parameters once each, and only public keys of a safe size count.
func FuzzDocuments(f *testing.F) {
	good := usual(upstream.OIDC).answers
	f.Add(good["openid-configuration"], good["keys"])
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		f.Fatal(err)
	}
	for _, key := range []any{small.Public(), small, fuzzKey, []byte("a secret of both sides")} {
		raw, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: fuzzKey.Public(), KeyID: "1"}, {Key: key}}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(good["openid-configuration"], raw)
	}
	for _, document := range []string{
		`{}`, `null`, `[]`, `{"issuer":"` + there + `"}`, `{"issuer":"https://other.example.com"}`,
		strings.Replace(string(good["openid-configuration"]), "/authorize", "/authorize?state=x&client_id=y&", 1),
		strings.Replace(string(good["openid-configuration"]), there+"/authorize", "javascript:alert(1)//", 1),
		strings.Replace(string(good["openid-configuration"]), there+"/authorize", "https://example.com\\@evil.example/?tenant=1", 1),
		strings.Replace(string(good["openid-configuration"]), "}", `,"scopes_supported":["offline_access","groups"],"id_token_signing_alg_values_supported":["none","HS256"]}`, 1),
	} {
		f.Add([]byte(document), []byte(`{"keys":[{"kty":"oct","k":"AAAA"},{"kty":"RSA","n":"AQAB","e":"AQAB"},{"kty":"EC","crv":"P-256","x":"AA","y":"AA","d":"AA"},{}]}`))
	}
	f.Fuzz(func(t *testing.T, document, keys []byte) {
		a := usual(upstream.OIDC)
		a.answers["openid-configuration"] = document
		if len(keys) > 0 {
			a.answers["keys"] = keys
		}
		client := a.client(t)
		address, err := client.Begin(t.Context(), upstream.Attempt{State: "the state", Nonce: fuzzNonce, Verifier: strings.Repeat("v", 43)})
		if err != nil {
			blamed(t, err)
			return
		}
		sentOnce(t, address)
		list, err := client.UsableKeys(t.Context())
		if err != nil {
			blamed(t, err)
			return
		}
		for _, key := range list {
			switch k := key.(type) {
			case *ecdsa.PublicKey, ed25519.PublicKey:
			case *rsa.PublicKey:
				if k.N.BitLen() < 2048 {
					t.Errorf("a key of %d bits counts", k.N.BitLen())
				}
			default:
				t.Errorf("a %T counts", key)
			}
		}
	})
}

// sentOnce checks the address to which a browser is sent: what was asked for is there once.
func sentOnce(t *testing.T, address string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.Fragment != "" {
		t.Fatalf("a person is sent to %q (%v)", address, err)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		t.Fatalf("a person is sent to %q (%v)", address, err)
	}
	for name, want := range map[string]string{
		"state": "the state", "client_id": "gatehouse", "redirect_uri": redirect, "response_type": "code", "code_challenge_method": "S256", "nonce": fuzzNonce,
	} {
		if got := query[name]; len(got) != 1 || got[0] != want {
			t.Errorf("%s is %q in %s", name, got, address)
		}
	}
}

// FuzzTokenAnswer sends an answer of the token endpoint with any status.
func FuzzTokenAnswer(f *testing.F) {
	for _, answer := range []string{
		`{}`, `{"access_token":"x","token_type":"Bearer","id_token":"a.b.c"}`, `{"access_token":"x","token_type":"Bearer","id_token":"eyJhbGciOiJub25lIn0.e30."}`,
		`{"error":"invalid_grant","error_description":"the code"}`, `{"access_token":"x\r\ny","token_type":"Bearer"}`, `{"access_token":"x","access_token":"y"}`,
		`{"access_token":"x","token_type":"Bearer","id_token":{"a":1},"expires_in":1e999}`, `null`, `"x"`, `access_token=x&token_type=bearer`,
	} {
		f.Add(byte(0), 200, []byte(answer))
		f.Add(byte(6), 400, []byte(answer))
	}
	f.Fuzz(func(t *testing.T, preset byte, status int, answer []byte) {
		all := append(slices.Clone(presetsOfOIDC), upstream.GitHub)
		a := usual(all[int(preset)%len(all)])
		a.status, a.answers["token"] = max(100, min(status, 999)), answer
		a.arrive(t)
	})
}

// FuzzPerson sends any claims in an ID token that is right otherwise, and any answer of userinfo.
func FuzzPerson(f *testing.F) {
	var many []string
	for i := range 1001 {
		many = append(many, fmt.Sprint(i))
	}
	for _, claims := range []string{
		`"name":"Ada","email":"ada@example.com","email_verified":true,"groups":["staff","a/b"," x ","\u202e"]`,
		`"preferred_username":"other/ada","groups":"staff","sid":"\u0000"`, `"preferred_username":"ada~2"`,
		`"email":"ada@example.com@example.org","email_verified":"true","hd":"EXAMPLE.com"`,
		`"sub":"2"`, `"iss":"https://evil.example"`, `"groups":[null]`, `"groups":{"a":1},"_claim_names":{"groups":"x"}`,
		`"oid":"11111111-2222-3333-4444-555555555555","verified_primary_email":["ada@example.com"],"auth_time":-1,"name":"\ud800"`,
		`"groups":["` + strings.Join(many, `","`) + `"]`,
	} {
		for preset := range presetsOfOIDC {
			f.Add(byte(preset), "1", []byte(claims), []byte(`{"sub":"1","email":"eve@example.org","email_verified":true}`))
			f.Add(byte(preset), "../A/b~2", []byte(claims), []byte(`{"sub":"../A/b~2","groups":["../x"]}`))
		}
	}
	f.Fuzz(func(t *testing.T, preset byte, sub string, claims, userinfo []byte) {
		a := usual(presetsOfOIDC[int(preset)%len(presetsOfOIDC)])
		now := time.Now()
		known := map[string]any{
			"iss": issuerOf(a.preset), "aud": "gatehouse", "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(), "nonce": fuzzNonce, "sub": sub,
		}
		if a.preset == upstream.Entra {
			known["tid"] = upstreamtest.Tenant
		}
		first, err := json.Marshal(known)
		if err != nil {
			t.Skip("the subject is no text")
		}
		a.answers["token"] = fmt.Appendf(nil, `{"access_token":"x","token_type":"Bearer","id_token":%q}`, signed(first, claims))
		a.answers["userinfo"] = userinfo
		a.arrive(t)
	})
}

// FuzzGitHub sends any answers of GitHub's API.
func FuzzGitHub(f *testing.F) {
	f.Add([]byte(`{"id":1,"login":"Ada","name":"\u202eAda"}`), []byte(`[{"email":"ada@example.com","primary":true,"verified":true}]`), []byte(`[{"login":"Example"},{"login":"../x"}]`), []byte(`[{"slug":"a/b","organization":{"login":"Example"}},{}]`))
	f.Add([]byte(`{"id":2,"login":"other/ada"}`), []byte(`[]`), []byte(`[{"login":"a/b"}]`), []byte(`[{"slug":" x "}]`))
	f.Add([]byte(`{"id":-1,"login":"ada"}`), []byte(`{}`), []byte(`null`), []byte(`[null]`))
	f.Add([]byte(`{"id":1e99,"login":"a--b"}`), []byte(`[{"email":"a@b@example.com","primary":true,"verified":true}]`), []byte(`[]`), []byte(`[{"slug":"","organization":null}]`))
	f.Fuzz(func(t *testing.T, user, emails, orgs, teams []byte) {
		a := usual(upstream.GitHub)
		a.answers["token"] = []byte(`{"access_token":"x","token_type":"bearer"}`)
		a.answers["user"], a.answers["emails"], a.answers["orgs"], a.answers["teams"] = user, emails, orgs, teams
		a.arrive(t)
	})
}

// FuzzLogoutToken sends any text as a logout token, and any claims in one that is right otherwise.
func FuzzLogoutToken(f *testing.F) {
	for _, claims := range []string{`"sub":"1"`, `"sid":"x","sub":null`, `"nonce":null,"sub":"1"`, `"sub":"\u0000"`, `"events":{}`, `"sub":["1"],"sid":{}`, ``} {
		f.Add("a.b.c", []byte(claims))
		f.Add("", []byte(claims))
	}
	f.Fuzz(func(t *testing.T, raw string, claims []byte) {
		client, now := usual(upstream.OIDC).client(t), time.Now()
		first := fmt.Appendf(nil, `{"iss":%q,"aud":"gatehouse","iat":%d,"exp":%d,"jti":"1","events":{"http://schemas.openid.net/event/backchannel-logout":{}}}`,
			there, now.Unix(), now.Add(time.Minute).Unix())
		for _, token := range []string{raw, signed(first, claims)} {
			r, err := client.Logout(t.Context(), token)
			if err != nil {
				blamed(t, err)
				continue
			}
			if r.Issuer != there || r.Subject == "" && r.SID == "" || r.JTI == "" || !text(r.Subject, 255) || !text(r.SID, 255) || !text(r.JTI, 255) || r.Expires.After(now.Add(2*time.Hour)) {
				t.Errorf("a logout that cannot be: %+q", fmt.Sprintf("%+v", r))
			}
		}
	})
}
