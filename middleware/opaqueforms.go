package middleware

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4/json"
)

// googleTokens follow "Using OAuth 2.0 to access Google APIs", which has the prefix in its examples,
// and the method getTokenInfo of Google's client library for Node: the token is a bearer token,
// so that it is in no URL. The members of the answer are those of tokeninfo, version 3.
var googleTokens = opaqueTokens{
	prefixes: []string{"ya29."}, shortest: 30, address: "https://oauth2.googleapis.com/tokeninfo",
	question: askGoogle, unknown: unknownToGoogle, answer: (*tokenRules).fromGoogle,
}

// githubTokens follow "REST API endpoints for OAuth authorizations", "Check a token", and "Behind
// GitHub's new authentication token formats" of GitHub.
var githubTokens = opaqueTokens{
	prefixes: []string{"gho_", "ghu_"}, shortest: 20, secret: true, address: "https://api.github.com",
	question: askGitHub, unknown: unknownToGitHub, answer: (*tokenRules).fromGitHub,
}

func askGoogle(ctx context.Context, i *Introspection, token string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, i.Endpoint, http.NoBody)
	if err == nil {
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Accept", "application/json")
	}
	return req, err
}

// unknownToGoogle: Google answers 400 for a token that is not valid, with the error invalid_token or
// with a description alone.
func unknownToGoogle(status int, body []byte) bool {
	if status != http.StatusBadRequest && status != http.StatusUnauthorized {
		return false
	}
	m, err := readMembers(string(body))
	return err == nil && (m.text("error") == "invalid_token" || m.text("error_description") == "Invalid Value")
}

// fromGoogle reads an answer of tokeninfo, in which numbers are strings. "aud" and "azp" are clients;
// "azp" may be missing where both are the same.
func (r *tokenRules) fromGoogle(m members, _ time.Time) (jwtClaims, error) {
	var c jwtClaims
	var scope error
	c.Scope, scope = r.scope(m)
	exp, ok := m["exp"]
	if text := m.text("exp"); text != "" {
		exp = json.RawMessage(text)
	}
	if err := errors.Join(scope, m.read("sub", &c.Subject), m.read("azp", &c.ClientID)); err != nil || !ok || m.mark("iss", "nonce") {
		return jwtClaims{}, errProvider
	}
	if !m.has("azp") || !slices.Contains(r.apps, m.text("aud")) {
		c.ClientID = m.text("aud")
	}
	return c, c.Expiry.UnmarshalJSON(exp)
}

func askGitHub(ctx context.Context, i *Introspection, token string) (*http.Request, error) {
	body, err := json.Marshal(map[string]string{"access_token": token})
	if err != nil {
		return nil, err
	}
	address := strings.TrimSuffix(i.Endpoint, "/") + "/applications/" + url.PathEscape(i.ClientID) + "/token"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(string(body)))
	if err == nil {
		req.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(i.ClientID+":"+i.ClientSecret)))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/vnd.github+json")
		req.Header.Set("X-GitHub-Api-Version", "2022-11-28")
	}
	return req, err
}

// unknownToGitHub: GitHub answers 404 for a token that is not one of the application.
func unknownToGitHub(status int, _ []byte) bool {
	return status == http.StatusNotFound || status == http.StatusUnprocessableEntity
}

// fromGitHub reads the answer of "Check a token".
func (r *tokenRules) fromGitHub(m members, asked time.Time) (jwtClaims, error) {
	var app struct {
		ClientID string `json:"client_id"`
	}
	var user struct {
		ID uint64 `json:"id"`
	}
	var ends, made *time.Time
	c := jwtClaims{Expiry: timestamp{asked.Add(endlessLife)}}
	var scope error
	c.Scope, scope = r.scope(m)
	if err := errors.Join(scope, m.read("app", &app), m.read("user", &user), m.read("expires_at", &ends), m.read("created_at", &made)); err != nil {
		return jwtClaims{}, errProvider
	}
	if c.ClientID = app.ClientID; user.ID != 0 {
		c.Subject = fmt.Sprint(user.ID)
	}
	if ends != nil {
		c.Expiry.Time = *ends
	}
	if made != nil {
		c.IssuedAt.Time = *made
	}
	return c, nil
}
