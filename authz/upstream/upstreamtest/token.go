package upstreamtest

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// token redeems codes and refresh tokens.
func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.ParseForm() != nil || !known(r) {
		fail(w, http.StatusUnauthorized, "invalid_client")
		return
	}
	s, ok := p.redeem(r.PostForm)
	if !ok {
		fail(w, http.StatusBadRequest, "invalid_grant")
		return
	}
	access := rand.Text()
	p.access[access] = s
	answer := map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": 300}
	refreshed := r.PostForm.Get("grant_type") == "refresh_token"
	if !strings.HasPrefix(r.URL.Path, "/login/oauth/") && !(refreshed && p.answers.NoIDToken) {
		if refreshed {
			s.nonce = ""
		}
		answer["id_token"] = p.idToken(s, access)
	}
	if given := p.refreshToken(s, r.PostForm.Get("refresh_token")); given != "" {
		answer["refresh_token"] = given
	}
	changed(p.answers.Token, answer)
	write(w, http.StatusOK, answer)
}

// known reports a request with the client's secret, in one of the two ways, or any assertion.
func known(r *http.Request) bool {
	id, secret, basic := r.BasicAuth()
	if basic {
		id, _ = url.QueryUnescape(id)
		secret, _ = url.QueryUnescape(secret)
	} else {
		id, secret = r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	}
	if r.PostForm.Get("client_assertion") != "" {
		return id == ClientID && secret == ""
	}
	return id == ClientID && subtle.ConstantTimeCompare([]byte(secret), []byte(ClientSecret)) == 1
}

// redeem takes a code once, with its verifier, or a refresh token.
func (p *Provider) redeem(form url.Values) (signIn, bool) {
	if form.Get("grant_type") == "refresh_token" {
		s, ok := p.refresh[form.Get("refresh_token")]
		return s, ok
	}
	s, ok := p.codes[form.Get("code")]
	delete(p.codes, form.Get("code"))
	sum := sha256.Sum256([]byte(form.Get("code_verifier")))
	challenge := base64.RawURLEncoding.EncodeToString(sum[:])
	return s, ok && s.challenge == challenge && s.redirect == form.Get("redirect_uri")
}

// refreshToken returns a new refresh token, or none.
func (p *Provider) refreshToken(s signIn, old string) string {
	if p.answers.NoRefresh || old != "" && !p.answers.Rotates {
		return ""
	}
	delete(p.refresh, old)
	token := rand.Text()
	p.refresh[token] = s
	return token
}

// idToken signs an ID token for a sign-in.
func (p *Provider) idToken(s signIn, access string) string {
	now := p.now()
	sum := sha256.Sum256([]byte(access))
	claims := map[string]any{
		"iss": s.issuer, "sub": s.person.Subject, "aud": ClientID, "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(),
		"auth_time": s.at.Unix(), "at_hash": base64.RawURLEncoding.EncodeToString(sum[:16]), "sid": "session of " + s.person.Subject,
	}
	if s.nonce != "" {
		claims["nonce"] = s.nonce
	}
	maps.Copy(claims, s.person.Claims)
	changed(p.answers.IDToken, claims)
	token := p.sign(claims, map[string]any{"typ": "JWT"}, p.answers.Header)
	if p.answers.Raw != nil {
		token = p.answers.Raw(token)
	}
	return token
}

// LogoutToken signs a logout token. Claims that are nil are left out; the others replace iss,
// aud, iat, exp, jti and events.
func (p *Provider) LogoutToken(claims map[string]any) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	all := map[string]any{
		"iss": p.URL(), "aud": ClientID, "iat": now.Unix(), "exp": now.Add(2 * time.Minute).Unix(), "jti": rand.Text(),
		"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}},
	}
	for name, value := range claims {
		if all[name] = value; value == nil {
			delete(all, name)
		}
	}
	return p.sign(all, map[string]any{"typ": "logout+jwt"}, nil)
}

// Sign signs any claims with the provider's key. The members of header are added; a kid there
// replaces that of the key.
func (p *Provider) Sign(claims, header map[string]any) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sign(claims, header, nil)
}

func (p *Provider) sign(claims, header map[string]any, change func(map[string]any)) string {
	if header["kid"] == nil {
		header["kid"] = p.kid
	}
	changed(change, header)
	options := &jose.SignerOptions{}
	for name, value := range header {
		options.WithHeader(jose.HeaderKey(name), value)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: p.key}, options)
	if err != nil {
		panic(err)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		panic(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		panic(err)
	}
	return token
}

// changed lets a function of Answers change an answer.
func changed(change func(map[string]any), answer map[string]any) {
	if change != nil {
		change(answer)
	}
}

func write(w http.ResponseWriter, status int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		return // the client went away
	}
}

func fail(w http.ResponseWriter, status int, code string) {
	write(w, status, map[string]any{"error": code})
}
