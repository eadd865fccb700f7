package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

const (
	archiveTime   = 5 * time.Second // the maximum duration of a call
	archiveHeader = 16 << 10        // the maximum size of a response header, in bytes; the body is not read
)

var (
	errArchiveGone    = errors.New("the archive cannot be reached now; the notes were not archived")
	errArchiveRefuses = errors.New("the archive did not take the notes")
)

// archive is a client of an upstream API, with a token of its own (requirement R-TOK-6: a server
// MUST NOT pass on the token that it received). The guard does not give the received token to
// handlers anyway.
type archive struct {
	url    string
	token  secret
	client *http.Client
	within time.Duration
	log    *slog.Logger
}

// archived is the body of a request to the archive.
type archived struct {
	Owner string   `json:"owner"`
	Notes []string `json:"notes"`
}

// newArchive returns an error for an address to which a token must not be sent.
func newArchive(address string, token secret, log *slog.Logger) (*archive, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "":
		return nil, errors.New("--archive must be a URL without user and fragment")
	case u.Scheme != "https" && (u.Scheme != "http" || !onLoopback(u.Hostname())):
		return nil, errors.New("--archive must be https, or http on loopback: a token goes there")
	case strings.ContainsFunc(string(token), func(c rune) bool { return c <= ' ' || c > '~' }):
		return nil, errors.New("the token of the archive holds characters that no token has")
	}
	client := &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, MaxResponseHeaderBytes: archiveHeader, IdleConnTimeout: time.Minute,
		},
		// No redirects: the token is for this address only.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &archive{url: u.String(), token: token, client: client, within: archiveTime, log: log}, nil
}

func onLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip.IsLoopback()
}

// keep sends the notes of a person. Its errors are for the user of the tool; details are in the
// log.
func (a *archive) keep(ctx context.Context, owner string, notes []string) error {
	ctx, cancel := context.WithTimeout(ctx, a.within)
	defer cancel()
	body, err := json.Marshal(archived{Owner: owner, Notes: notes})
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+string(a.token))
	response, err := a.client.Do(r)
	if err != nil {
		a.log.Warn("the archive cannot be reached", "error", err)
		return errArchiveGone
	}
	_ = response.Body.Close() // only the status is used
	if response.StatusCode < 200 || response.StatusCode > 299 {
		a.log.Warn("the archive did not take notes", "status", response.StatusCode)
		return errArchiveRefuses
	}
	return nil
}

// secret is a text that formatting and logging replace by "[redacted]".
type secret string

// Format implements fmt.Formatter.
func (secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("[redacted]")) }

// LogValue implements slog.LogValuer.
func (secret) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// openArchive returns the archive of the settings, nil without one.
func (s settings) openArchive(log *slog.Logger) (*archive, error) {
	if s.Archive == "" {
		return nil, nil
	}
	token := s.ArchiveToken
	if s.ArchiveTokenFile != "" {
		raw, err := os.ReadFile(s.ArchiveTokenFile)
		if err != nil {
			return nil, fmt.Errorf("--archive-token-file: %w", err)
		}
		if token = secret(strings.TrimSpace(string(raw))); token == "" {
			return nil, fmt.Errorf("--archive-token-file: %s is empty", s.ArchiveTokenFile)
		}
	}
	return newArchive(s.Archive, token, log)
}
