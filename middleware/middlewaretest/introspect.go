package middlewaretest

import (
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"time"
)

// introspectPath is the path of the introspection endpoint (RFC 7662).
const introspectPath = "/introspect"

// Credentials returns the client id and the secret with which a resource server authenticates at
// the introspection endpoint, with HTTP Basic. The endpoint is in the metadata of the issuer;
// [Issuer.SetDocument] at "/introspect" replaces its responses.
func (i *Issuer) Credentials() (id, secret string) {
	// Both have characters that form-encoding changes (RFC 6749 section 2.3.1).
	return "https://notes.example.com/mcp", i.secret
}

// MintOpaque returns an opaque access token. Its introspection response has the claims that
// [Issuer.Mint] would put into a token.
func (i *Issuer) MintOpaque(overrides Claims) string {
	i.t.Helper()
	token := "opaque-" + rand.Text()
	i.activate(token, i.claims(overrides))
	return token
}

// Revoke makes the introspection endpoint report a token as inactive. The signature of the token
// stays valid.
func (i *Issuer) Revoke(token string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.tokens, token)
}

// IntrospectionRequests returns the number of introspection requests so far.
func (i *Issuer) IntrospectionRequests() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.introspections
}

// activate makes a token active.
func (i *Issuer) activate(token string, claims Claims) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.tokens[token] = claims
}

// introspect serves the introspection endpoint (RFC 7662 section 2.2). Tokens are active if they
// were minted, have not expired and were not revoked.
func (i *Issuer) introspect(w http.ResponseWriter, r *http.Request) {
	name, password, _ := r.BasicAuth()
	id, err1 := url.QueryUnescape(name)
	secret, err2 := url.QueryUnescape(password)
	if wantID, wantSecret := i.Credentials(); err1 != nil || err2 != nil || id != wantID || secret != wantSecret {
		w.Header().Set("WWW-Authenticate", "Basic")
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if r.Method != http.MethodPost || r.PostFormValue("token") == "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	i.mu.Lock()
	claims, ok := i.tokens[r.PostFormValue("token")]
	i.mu.Unlock()
	answer := Claims{"active": false}
	if ok && !expired(claims) {
		answer = Claims{"active": true, "token_type": "Bearer"}
		maps.Copy(answer, claims)
	}
	body, err := json.Marshal(answer)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(body) // fails only when the client is gone
}

func expired(claims Claims) bool {
	exp, ok := claims["exp"].(int64)
	return ok && exp < time.Now().Unix()
}
