package middleware

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"gatehouse.example/metadata"
)

const (
	maxDocument  = 64 << 10
	fetchTimeout = 5 * time.Second  // for one document, unless the configured client has a timeout
	totalTimeout = 12 * time.Second // for all documents of one fetch

	minKeyAge     = 5 * time.Minute
	defaultKeyAge = 15 * time.Minute
	maxKeyAge     = 24 * time.Hour
)

// fetcher sends the requests to issuers. The URLs come from the configuration and from the
// metadata of the configured issuers.
type fetcher struct{ client *http.Client }

func newFetcher(configured *http.Client) *fetcher {
	client := &http.Client{}
	if configured != nil {
		*client = *configured
	}
	client.Jar = nil
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if client.Timeout <= 0 {
		client.Timeout = fetchTimeout
	}
	return &fetcher{client: client}
}

// fetched is a fetched key set.
type fetched struct {
	keys map[keyID]*verifyKey
	life time.Duration // how long they may be used
	held time.Duration // their age in an HTTP cache on the way
}

// keys returns the keys of an issuer: those at its configured URL, or at the jwks_uri in its
// metadata.
func (f *fetcher) keys(ctx context.Context, from *issuer) (fetched, error) {
	ctx, cancel := context.WithTimeout(ctx, totalTimeout)
	defer cancel()
	address := from.keysAt
	if address == "" {
		var err error
		address, err = f.discover(ctx, from.name, from.urls, func(doc metadata.AuthorizationServer) (string, error) {
			return doc.JWKSURI, validKeyAddress(from.name, doc.JWKSURI)
		})
		if err != nil {
			return fetched{}, err
		}
	}
	body, header, err := f.get(ctx, address)
	if err != nil {
		return fetched{}, err
	}
	keys, err := parseKeys(body, from.rules.algorithms)
	if err != nil {
		return fetched{}, fmt.Errorf("%s: %w", address, err)
	}
	return fetched{keys, cacheAge(header), heldFor(header)}, nil
}

// introspectionEndpoint returns the introspection endpoint in the metadata of an issuer.
func (f *fetcher) introspectionEndpoint(ctx context.Context, issuer string, urls []string) (string, error) {
	return f.discover(ctx, issuer, urls, func(doc metadata.AuthorizationServer) (string, error) {
		if err := validAddress(issuer, doc.IntrospectionEndpoint); err != nil {
			return "", fmt.Errorf("introspection_endpoint: %w", err)
		}
		return doc.IntrospectionEndpoint, nil
	})
}

// discover tries the well-known URLs of an issuer in order, and returns the URL that want
// selects from the first metadata document that is valid and has it.
func (f *fetcher) discover(ctx context.Context, issuer string, urls []string, want func(metadata.AuthorizationServer) (string, error)) (string, error) {
	var errs []error
	for _, address := range urls {
		body, _, err := f.get(ctx, address)
		if unreachable := (*url.Error)(nil); errors.As(err, &unreachable) {
			return "", err // the other URLs are on the same host
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		doc, err := metadata.ParseAuthorizationServer(body, issuer)
		if err == nil {
			var found string
			if found, err = want(doc); err == nil {
				return found, nil
			}
		}
		errs = append(errs, fmt.Errorf("%s: %w", address, err))
	}
	return "", errors.Join(errs...)
}

func validKeyAddress(issuer, address string) error {
	if err := validAddress(issuer, address); err != nil {
		return fmt.Errorf("jwks_uri: %w", err)
	}
	return nil
}

// validAddress checks that a URL is https, or http on loopback if the issuer is http itself.
func validAddress(issuer, address string) error {
	if _, err := metadata.Canonical(address); err != nil {
		return err
	}
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return errors.New("it cannot be parsed")
	case u.Scheme == "https":
		return nil
	case strings.HasPrefix(issuer, "http://") && metadata.IsLoopbackHost(u.Hostname()):
		return nil
	}
	return errors.New("it must be https")
}

// get fetches one document: status 200, no redirect, at most maxDocument bytes.
func (f *fetcher) get(ctx context.Context, address string) ([]byte, http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Cache-Control", "no-cache") // RFC 9111 section 5.2.1.4: caches on the way ask the issuer
	res, err := f.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	body, err := document(res)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", address, err)
	}
	return body, res.Header, nil
}

// introspect sends an introspection request (RFC 7662 section 2.1), which is idempotent. The
// errors contain nothing of the response: the endpoint knows the secret and the token, and may
// repeat them.
func (f *fetcher) introspect(ctx context.Context, address, id, secret, token string) ([]byte, error) {
	form := url.Values{"token": {token}, "token_type_hint": {"access_token"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	// RFC 6749 section 2.3.1: both are form-encoded before they become HTTP Basic.
	req.SetBasicAuth(url.QueryEscape(id), url.QueryEscape(secret))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	setRequestID(req)
	req.Header["Idempotency-Key"] = []string{} // not sent, but lets net/http retry on another connection
	res, err := f.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, broken(err))
	}
	body, err := document(res)
	if err != nil && res.StatusCode == http.StatusBadRequest && isUnsupported(body) {
		err = errUnsupported
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	if kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, fmt.Errorf("%s: the answer is not application/json", address)
	}
	return body, nil
}

// errUnsupported means that an endpoint does not look up tokens of this kind. Some providers look up
// opaque tokens alone, and answer with an error of RFC 7009 section 2.2.1 for JWTs.
var errUnsupported = errors.New("the endpoint does not look up such tokens")

func isUnsupported(body []byte) bool {
	m, err := readMembers(string(body))
	return err == nil && m.text("error") == "unsupported_token_type"
}

// broken returns an error about a failed connection, without text from the other end.
func broken(err error) error {
	var slow interface{ Timeout() bool }
	var certificate *tls.CertificateVerificationError
	var network *net.OpError
	switch {
	case errors.As(err, &slow) && slow.Timeout():
		return errors.New("there is no answer in time")
	case errors.As(err, &certificate):
		return certificate
	case errors.As(err, &network):
		return network
	}
	return errors.New("the connection broke")
}

// document reads the body of a response: status 200, no redirect, at most maxDocument bytes. With
// status 400, it returns the body beside the error if it can be read.
func document(res *http.Response) ([]byte, error) {
	defer func() { _ = res.Body.Close() }() // read-only: nothing is lost
	if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusBadRequest {
		return nil, fmt.Errorf("the status is %d", res.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxDocument+1))
	switch {
	case res.StatusCode != http.StatusOK:
		return body, fmt.Errorf("the status is %d", res.StatusCode)
	case err != nil:
		return nil, broken(err)
	case len(body) > maxDocument:
		return nil, fmt.Errorf("the document has more than %d bytes", maxDocument)
	}
	return body, nil
}

// cacheAge returns the max-age of Cache-Control (RFC 9111 section 5.2.2.1), at least minKeyAge
// and at most maxKeyAge.
func cacheAge(header http.Header) time.Duration {
	for _, field := range header["Cache-Control"] {
		for directive := range strings.SplitSeq(strings.ToLower(field), ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
			switch name {
			case "no-store", "no-cache":
				return minKeyAge
			case "max-age":
				seconds, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31)
				if err != nil {
					return minKeyAge
				}
				return min(max(time.Duration(seconds)*time.Second, minKeyAge), maxKeyAge)
			}
		}
	}
	return defaultKeyAge
}

// heldFor returns how long an HTTP cache on the way held a response (RFC 9111 section 5.1): keys
// that the issuer published since then are not in it. An unreadable Age counts as maxKeyAge.
func heldFor(header http.Header) time.Duration {
	value := strings.TrimSpace(header.Get("Age"))
	if value == "" {
		return 0
	}
	seconds, err := strconv.ParseUint(value, 10, 31)
	if err != nil {
		return maxKeyAge
	}
	return time.Duration(seconds) * time.Second
}
