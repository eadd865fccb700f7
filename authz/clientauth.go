package authz

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// credentials is what a request presents to authenticate a client: a method and, per
// reading of the header, an id and a secret.
type credentials struct {
	method   string
	readings []reading
}

// reading is one way to read id and secret. HTTP Basic has several: RFC 6749 section
// 2.3.1 percent-encodes both parts, the most used clients do not.
type reading struct{ id, secret string }

// presented collects the credentials of a request. Exactly one method may be used
// (OAuth 2.1 section 2.4), so a second one is an error.
func presented(r *http.Request, f form) (credentials, error) {
	headers := r.Header.Values("Authorization")
	if f.get("client_assertion") != "" || f.get("client_assertion_type") != "" {
		return credentials{}, invalidClient("client assertions are not supported here")
	}
	switch {
	case len(headers) > 1:
		return credentials{}, invalidRequest("there is more than one Authorization header")
	case len(headers) == 1 && f.get("client_secret") != "":
		return credentials{}, invalidRequest("the client uses more than one authentication method")
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

// basic reads an HTTP Basic header (RFC 7617). bodyID is the client_id of the body: if
// it is there it must name the same client.
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

// readings lists how "id:secret" can be read: percent-encoded, plain, and plain with
// colons in the id, as in the URI of a resource.
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

// authenticate returns the client that a request proves to come from (OAuth 2.1
// section 2.4). The client uses the method that it registered; a public client may also
// send HTTP Basic with an empty password, because common libraries try that first. A
// failure burns nothing.
func (s *Server) authenticate(r *http.Request, f form) (storage.Client, error) {
	presented, err := presented(r, f)
	if err != nil {
		return storage.Client{}, err
	}
	for _, reading := range presented.readings {
		client, err := s.clients.Resolve(r.Context(), reading.id)
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return storage.Client{}, err
		}
		if reading.proves(client, presented.method) {
			return client, nil
		}
	}
	return storage.Client{}, invalidClient("the client is not known, or its credentials are not right; if it was registered here long ago, register it again")
}

func (c reading) proves(client storage.Client, method string) bool {
	if client.Disabled {
		return false
	}
	if client.Metadata.Public() {
		return c.secret == "" && method != metadata.AuthMethodPost
	}
	return method == client.Metadata.TokenEndpointAuthMethod && client.Secret.Matches(c.secret)
}
