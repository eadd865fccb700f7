package authz

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"gatehouse.example/dcr"
	"gatehouse.example/internal/fair"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// credentials holds what a request presents to authenticate a client: the method, and an
// assertion or the possible readings of id and secret.
type credentials struct {
	method    string
	readings  []reading
	assertion string
}

// reading is one way to read id and secret. HTTP Basic has several: RFC 6749 section 2.3.1
// percent-encodes both parts, but the most used clients do not.
type reading struct{ id, secret string }

// presented returns the credentials of a request. A client must use exactly one method (OAuth
// 2.1 section 2.4), so a second one is an error.
func presented(r *http.Request, f form) (credentials, error) {
	headers := r.Header.Values("Authorization")
	asserted := f.get("client_assertion") != "" || f.get("client_assertion_type") != ""
	switch {
	case len(headers) > 1:
		return credentials{}, invalidRequest("there is more than one Authorization header")
	case len(headers) == 1 && f.get("client_secret") != "", asserted && (len(headers) == 1 || f.get("client_secret") != ""):
		return credentials{}, invalidRequest("the client uses more than one authentication method")
	case asserted:
		return assertion(f)
	case len(headers) == 1:
		return basic(headers[0], f.get("client_id"))
	case f.get("client_id") == "":
		return credentials{}, invalidClient("the client did not identify itself: send client_id or HTTP Basic credentials")
	}
	c := credentials{method: metadata.AuthMethodNone, readings: []reading{{f.get("client_id"), f.get("client_secret")}}}
	if f.get("client_secret") != "" {
		c.method = metadata.AuthMethodPost
	}
	return c, nil
}

// assertion reads a client assertion (RFC 7523 section 2.2). The client_id of the body is
// optional; if present, it must name the same client.
func assertion(f form) (credentials, error) {
	if f.get("client_assertion_type") != dcr.AssertionType {
		return credentials{}, invalidClient("client_assertion_type must be " + dcr.AssertionType)
	}
	id, ok := dcr.AssertionClientID(f.get("client_assertion"))
	if !ok {
		return credentials{}, invalidClient("the client assertion is not valid")
	}
	if bodyID := f.get("client_id"); bodyID != "" && bodyID != id {
		return credentials{}, invalidRequest("client_assertion and client_id name two clients")
	}
	return credentials{method: metadata.AuthMethodPrivateKeyJWT, readings: []reading{{id: id}}, assertion: f.get("client_assertion")}, nil
}

// basic reads an HTTP Basic header (RFC 7617). bodyID is the client_id of the body; if it is
// not empty, it must name the same client.
func basic(header, bodyID string) (credentials, error) {
	scheme, encoded, _ := strings.Cut(header, " ")
	raw, err := base64.StdEncoding.DecodeString(strings.TrimLeft(encoded, " "))
	if !strings.EqualFold(scheme, "Basic") || err != nil || !strings.Contains(string(raw), ":") {
		return credentials{}, invalidClient("the Authorization header does not hold HTTP Basic credentials")
	}
	c := credentials{method: metadata.AuthMethodBasic}
	for _, reading := range readings(string(raw)) {
		if bodyID == "" || reading.id == bodyID {
			c.readings = append(c.readings, reading)
		}
	}
	if len(c.readings) == 0 {
		return credentials{}, invalidRequest("the Authorization header and client_id name two clients")
	}
	return c, nil
}

// readings returns the possible readings of "id:secret": percent-encoded, plain, and plain
// with colons in the id, as in the URI of a resource.
func readings(raw string) []reading {
	id, secret, _ := strings.Cut(raw, ":")
	out := []reading{{id, secret}}
	if decodedID, err := url.QueryUnescape(id); err == nil {
		if decodedSecret, err := url.QueryUnescape(secret); err == nil && (decodedID != id || decodedSecret != secret) {
			out = append([]reading{{decodedID, decodedSecret}}, out...)
		}
	}
	if last := strings.LastIndex(raw, ":"); last != len(id) {
		out = append(out, reading{raw[:last], raw[last+1:]})
	}
	return out
}

// authenticate returns the client that a request authenticates as (OAuth 2.1 section 2.4).
// The client must use a method that it registered. A public client may also send HTTP Basic
// with an empty password, because common libraries try that first. A failure does not use up
// the request's code or token; many failures are throttled. A valid assertion is used up,
// whatever the outcome of the request. If the client has to be read from the
// store, ask may ask for more, unless the client sends an assertion.
func (s *Server) authenticate(r *http.Request, f form, endpoint string, ask func(*storage.Reading)) (_ storage.Client, err error) {
	r, end := s.part(r, PartClient)
	defer func() { end(err) }()
	presented, err := presented(r, f)
	if err != nil {
		return storage.Client{}, err
	}
	if presented.method == metadata.AuthMethodPrivateKeyJWT {
		ask = forNothing // keys may have to be fetched, and until then somebody could end what was read
	}
	wrong := "" // the id of a client whose credentials were wrong
	for _, reading := range presented.readings {
		read := false
		client, err := s.clients.ResolveWith(r.Context(), reading.id, func(from *storage.Reading) {
			read = true
			ask(from)
		})
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return storage.Client{}, err
		}
		client, err = s.proved(r, client, read, reading, presented, endpoint)
		if errors.Is(err, errUnproved) {
			wrong = client.ID
			continue
		}
		return client, err
	}
	return storage.Client{}, s.wrongSecret(r, wrong, notTheClient())
}

// errUnproved reports that a reading of the credentials is not that of its client.
var errUnproved = errors.New("authz: the credentials are not those of the client")

// proved returns the client if the request proves that it comes from it. If it does not, and the
// client was not read for this request and has changed, what it is now counts. The error is
// [errUnproved] if another reading of the credentials may be right.
func (s *Server) proved(r *http.Request, client storage.Client, read bool, reading reading, presented credentials, endpoint string) (storage.Client, error) {
	err := s.checkProof(r, client, reading, presented, endpoint)
	if !read && (errors.Is(err, errUnproved) || errors.Is(err, dcr.ErrAssertion)) {
		newer, unread := s.clients.Renew(r.Context(), client)
		switch {
		case unread != nil && !errors.Is(unread, storage.ErrNotFound):
			return client, unread
		case unread == nil && (!authenticatesAs(newer, client) || dcr.Digest(newer) != dcr.Digest(client)):
			client, err = newer, s.checkProof(r, newer, reading, presented, endpoint)
		}
	}
	if errors.Is(err, dcr.ErrAssertion) {
		refused := invalidClient("the client assertion is not valid")
		refused.cause = err
		return client, s.wrongSecret(r, client.ID, refused)
	}
	return client, err
}

// checkProof returns nil if the request proves that it comes from the client, [errUnproved] if the
// method or the secret is not the client's, and a [dcr.ErrAssertion] for a wrong assertion.
func (s *Server) checkProof(r *http.Request, client storage.Client, reading reading, presented credentials, endpoint string) error {
	if !reading.proves(client, presented.method) {
		return errUnproved
	}
	if presented.method != metadata.AuthMethodPrivateKeyJWT {
		return nil
	}
	return s.clients.Authenticate(r.Context(), client, presented.assertion, s.audiences(endpoint))
}

func notTheClient() *apiError {
	return invalidClient("the client is not known, or its credentials are not right; if it was registered here long ago, register it again")
}

// forNothing asks for nothing beside a client.
func forNothing(*storage.Reading) {}

// wrongSecret counts a wrong secret or assertion for the client or resource server with that
// id, and returns the error to send: refused, or 429 when too many came from that network.
// With an empty id it counts nothing. Correct credentials are never counted or delayed, so no
// third party that shares a client's network or knows its id can lock it out. The only
// protection against guessing is therefore the length of secrets.
func (s *Server) wrongSecret(r *http.Request, id string, refused *apiError) error {
	if id == "" {
		return refused
	}
	wait := s.throttle.Wrong(id, fair.Requester(r.Context()))
	if wait == 0 {
		return refused
	}
	return &apiError{
		status: http.StatusTooManyRequests, code: codeUnavailable, retryAfter: wait, limit: LimitSecret, cause: refused.cause,
		description: "too many wrong credentials of this client came from your network; correct them before you try again",
	}
}

// wrongToken counts a refused token at the registration endpoints and returns how long the
// client must wait.
func (s *Server) wrongToken(r *http.Request, id string) time.Duration {
	return s.throttle.Wrong("registration of "+id, fair.Requester(r.Context()))
}

// audiences returns the audiences that are accepted in an assertion sent to endpoint. The URL
// of an endpoint does not prove that the client meant this server: see
// [AudienceIssuerOrEndpoint].
func (s *Server) audiences(endpoint string) []string {
	if s.cfg.AssertionAudience == AudienceIssuerOrEndpoint {
		return []string{s.cfg.Issuer, s.urls.token, endpoint}
	}
	return []string{s.cfg.Issuer}
}

// proves reports whether the client registered the method and the secret matches. An
// assertion is verified later, by [Server.checkProof].
func (c reading) proves(client storage.Client, method string) bool {
	if client.Disabled {
		return false
	}
	if dcr.Public(client) && method != metadata.AuthMethodPrivateKeyJWT {
		return c.secret == "" && method != metadata.AuthMethodPost
	}
	if !contains(dcr.AuthMethods(client), method) {
		return false
	}
	return method == metadata.AuthMethodPrivateKeyJWT || client.Secret.Matches(c.secret)
}
