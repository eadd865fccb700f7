package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/oauth2"

	"gatehouse.example/internal/strictjson"
)

// tokens are what the token endpoint gave. They do not leave this package, but for the refresh token.
type tokens struct {
	access, id, refresh string
}

// config is the provider for x/oauth2, which makes the requests. tokenCalls sends them.
func (c *Client) config(m metadata) *oauth2.Config {
	return &oauth2.Config{
		ClientID:    c.p.ClientID,
		RedirectURL: c.o.Redirect,
		Endpoint: oauth2.Endpoint{
			AuthURL: m.AuthorizationEndpoint, TokenURL: m.TokenEndpoint, AuthStyle: oauth2.AuthStyleInParams,
		},
	}
}

// redeem exchanges a code with its PKCE verifier.
func (c *Client) redeem(ctx context.Context, m metadata, code, verifier string) (tokens, error) {
	calls := context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Transport: tokenCalls{c, m, laneSignIn}})
	t, err := c.config(m).Exchange(calls, code, oauth2.VerifierOption(verifier))
	return c.tokens(t, err)
}

// refresh exchanges a refresh token.
func (c *Client) refresh(ctx context.Context, m metadata, refreshToken string) (tokens, error) {
	calls := context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Transport: tokenCalls{c, m, laneRecheck}})
	t, err := c.config(m).TokenSource(calls, &oauth2.Token{RefreshToken: refreshToken}).Token()
	return c.tokens(t, err)
}

func (c *Client) tokens(t *oauth2.Token, err error) (tokens, error) {
	if err != nil {
		var own *Error
		if errors.As(err, &own) {
			return tokens{}, own
		}
		// The text of other errors of x/oauth2 may quote the answer.
		return tokens{}, c.error(ErrInvalid, ReasonNonsense, "the token endpoint's answer cannot be used")
	}
	id, _ := t.Extra("id_token").(string)
	return tokens{t.AccessToken, id, t.RefreshToken}, nil
}

// tokenCalls sends requests to the token endpoint: with the proof who this server is, in a place
// of the queue, and with an answer that was read strictly.
type tokenCalls struct {
	c    *Client
	m    metadata
	lane string
}

// RoundTrip makes the call.
func (t tokenCalls) RoundTrip(r *http.Request) (*http.Response, error) {
	proven, err := t.prove(r)
	if err != nil {
		return nil, err
	}
	answer, err := t.c.queued(r.Context(), t.lane, proven)
	if err != nil {
		return nil, err
	}
	clean, err := t.c.tokenAnswer(answer, r)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(bytes.NewReader(clean)), ContentLength: int64(len(clean)),
	}, nil
}

// prove returns the request with one proof of this server's identity (OpenID Connect Core section 9).
func (t tokenCalls) prove(r *http.Request) (*http.Request, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body.Close()
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, err
	}
	basic := false
	switch t.c.authMethod(t.m) {
	case secretPost:
		form.Set("client_secret", t.c.p.ClientSecret)
	case privateKeyJWT:
		assertion, err := t.c.assertion(t.m)
		if err != nil {
			return nil, err
		}
		form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		form.Set("client_assertion", assertion)
	default:
		basic = true
		form.Del("client_id") // no second way in one request (RFC 6749 section 2.3)
	}
	proven, err := http.NewRequest(http.MethodPost, t.m.TokenEndpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	proven.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if basic {
		proven.SetBasicAuth(url.QueryEscape(t.c.p.ClientID), url.QueryEscape(t.c.p.ClientSecret))
	}
	return proven, nil
}

// tokenAnswer reads an answer of the token endpoint (RFC 6749 sections 5.1 and 5.2) and returns
// what is used of it.
func (c *Client) tokenAnswer(answer reply, r *http.Request) ([]byte, error) {
	var body struct {
		AccessToken  string `json:"access_token"`
		TokenType    string `json:"token_type"`
		RefreshToken string `json:"refresh_token,omitempty"`
		IDToken      string `json:"id_token,omitempty"`
		Error        string `json:"error,omitempty"`
	}
	err := strictjson.Unmarshal(answer.body, &body, strictjson.Options{MaxBytes: maxBody})
	switch {
	case err != nil:
		return nil, c.error(ErrInvalid, ReasonNonsense, "%s answered %d with what is no JSON object of the right members", place(r), answer.status)
	case body.Error != "":
		return nil, c.tokenError(answer.status, body.Error)
	case answer.status != http.StatusOK:
		return nil, c.error(ErrInvalid, ReasonNonsense, "%s answered %d without an error code", place(r), answer.status)
	case !bearer(body.AccessToken):
		return nil, c.error(ErrInvalid, ReasonNonsense, "%s gave no usable access token", place(r))
	case !strings.EqualFold(body.TokenType, "Bearer"):
		return nil, c.error(ErrInvalid, ReasonNonsense, "%s gave a token of another type than Bearer", place(r))
	case len(body.RefreshToken) > maxRefresh:
		return nil, c.error(ErrInvalid, ReasonNonsense, "%s gave a refresh token of more than %d bytes", place(r), maxRefresh)
	}
	return json.Marshal(body)
}

// maxRefresh is the greatest refresh token that is kept.
const maxRefresh = 16 << 10

// bearer reports a token that can stand in a header.
func bearer(token string) bool {
	return token != "" && len(token) <= 64<<10 && !strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' })
}

// tokenErrors says what the codes of the token endpoint mean. GitHub has its own.
var tokenErrors = map[string]struct {
	kind   error
	reason Reason
}{
	"invalid_grant":                {ErrInvalid, ReasonCode},
	"bad_verification_code":        {ErrInvalid, ReasonCode},
	"bad_refresh_token":            {ErrInvalid, ReasonCode},
	"invalid_client":               {ErrMisconfigured, ReasonClient},
	"unauthorized_client":          {ErrMisconfigured, ReasonClient},
	"incorrect_client_credentials": {ErrMisconfigured, ReasonClient},
	"unverified_user_email":        {ErrDenied, ReasonDenied},
	"temporarily_unavailable":      {ErrUnavailable, ReasonDown},
	"server_error":                 {ErrUnavailable, ReasonDown},
	"slow_down":                    {ErrUnavailable, ReasonDown},
}

// tokenError is the error for a code of the token endpoint. Its description is left out, since
// some providers quote the code in it.
func (c *Client) tokenError(status int, oauth string) error {
	is, ok := tokenErrors[oauth]
	if !ok {
		is.kind, is.reason = ErrMisconfigured, ReasonSettings
	}
	if is.reason == ReasonCode && status != http.StatusBadRequest && c.p.Preset != GitHub {
		// invalid_grant comes with 400 (RFC 6749 section 5.2); with another status something
		// stands between the provider and this server.
		is.kind, is.reason = ErrInvalid, ReasonNonsense
	}
	return c.coded(is.kind, is.reason, oauth, "the token endpoint answered %d", status)
}
