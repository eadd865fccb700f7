package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/dcr"
	"gatehouse.example/metadata"
	"gatehouse.example/safefetch"
)

// egressSettings are the settings for connections to the public web, which has the documents,
// keys and logos of clients.
type egressSettings struct {
	ClientDocumentsPinned []string `sep:"none" pairs:"" placeholder:"URL=FILE" help:"Client documents that are read from files and never fetched: the client_id, and a file with the document that is published there; repeatable."`

	proxySettings
	EgressCheck []string `default:"claude.ai,chatgpt.com" placeholder:"HOST|off" help:"Hosts for checking whether client documents can be fetched: from time to time the server connects to one of them, without a request; repeatable (default ${default})."`

	// pinned are the pinned documents by client_id.
	pinned map[string][]byte
	// fetched, if set, is told of each fetch.
	fetched func(err error, took time.Duration)
	// counted, if set, is told the ids of the providers that a reload brings.
	counted func(ids ...string)
}

// proxySettings name the proxy of a program that fetches from addresses chosen by others.
type proxySettings struct {
	Proxy       settings.ProxyURL `placeholder:"URL" help:"HTTP proxy for everything that is fetched, such as http://proxy.example.com:3128 (default: none; HTTPS_PROXY is ignored)."`
	ProxyFile   string            `placeholder:"FILE" help:"File that contains that URL."`
	ProxyByName bool              `help:"Send host names to the proxy, not the addresses that this machine finds for them: for a proxy that allows hosts by name."`
}

// fetching returns the configuration for fetching from addresses chosen by others.
func (s *proxySettings) fetching() (safefetch.Config, error) {
	c := safefetch.Config{ProxyByName: s.ProxyByName}
	if s.Proxy == "" {
		return c, nil
	}
	var err error
	if c.Proxy, err = safefetch.ParseProxy(string(s.Proxy)); err != nil {
		return c, fmt.Errorf("proxy cannot be used: %s", strings.TrimPrefix(err.Error(), "safefetch: proxy: "))
	}
	return c, nil
}

// proxyMistakes returns the mistakes in these settings.
func (s *proxySettings) proxyMistakes() error {
	_, err := s.fetching()
	if s.ProxyByName && s.Proxy == "" {
		return errors.Join(err, errors.New("proxy-by-name is set and proxy is not: set both or none"))
	}
	return err
}

// client returns a client for addresses that the operator chose. It uses the configured proxy,
// never one of the environment, and no proxy for loopback.
func (s *proxySettings) client() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil
	u, err := url.Parse(string(s.Proxy))
	if s.Proxy == "" || err != nil {
		return &http.Client{Transport: transport}
	}
	transport.Proxy = func(r *http.Request) (*url.URL, error) {
		if metadata.IsLoopbackHost(r.URL.Hostname()) {
			return nil, nil
		}
		return u, nil
	}
	return &http.Client{Transport: transport}
}

// defaultEgressHosts is the default of egress-check.
const defaultEgressHosts = "claude.ai,chatgpt.com"

// egressHosts returns the hosts to check. With client-documents deny, the allowed hosts take
// the place of the default, because documents of other hosts are not fetched.
func (s *serveSettings) egressHosts() []string {
	switch hosts := s.EgressCheck; {
	case s.egressOff() || s.ClientDocuments == off:
		return nil
	case strings.Join(hosts, ",") == defaultEgressHosts && s.ClientDocuments == string(dcr.TrustDeny):
		named := slices.DeleteFunc(slices.Clone(s.ClientDocumentsAllow), func(host string) bool { return safefetch.ReachableHost(host) != nil })
		if named = named[:min(len(named), 8)]; len(named) > 0 {
			return named
		}
		return hosts
	default:
		return hosts
	}
}

func (s *egressSettings) egressOff() bool { return slices.Equal(s.EgressCheck, []string{off}) }

// readPinned reads the files of pinned documents.
func (s *egressSettings) readPinned() error {
	s.pinned = map[string][]byte{}
	var errs []error
	for _, text := range s.ClientDocumentsPinned {
		at := strings.LastIndexByte(text, '=') // a URL may contain one too
		if at <= 0 || at == len(text)-1 {
			errs = append(errs, fmt.Errorf("client-documents-pinned %q: write the client_id, =, and the file with its document", text))
			continue
		}
		id, file := text[:at], text[at+1:]
		body, err := settings.ReadAtMost(file, 1<<16)
		switch _, twice := s.pinned[id]; {
		case err != nil:
			errs = append(errs, fmt.Errorf("client-documents-pinned %s: %w", id, err))
		case twice:
			errs = append(errs, fmt.Errorf("client-documents-pinned %s: it is pinned twice", id))
		default:
			s.pinned[id] = body
		}
	}
	return errors.Join(errs...)
}

// egressMistakes returns an error for each of these settings that is malformed or contradicts
// another.
func (s *serveSettings) egressMistakes() error {
	errs := []error{s.proxyMistakes()}
	if s.ClientDocuments == off && len(s.ClientDocumentsPinned) > 0 {
		errs = append(errs, errors.New("client-documents is off: leave out client-documents-pinned, or write deny, which accepts only pinned documents and allowed hosts"))
	}
	if slices.Contains(s.EgressCheck, off) && len(s.EgressCheck) > 1 {
		errs = append(errs, errors.New("egress-check is off and names hosts: keep one of them"))
	}
	return errors.Join(errs...)
}

// egressDoubts returns a warning for each of these settings that has no effect.
func (s *serveSettings) egressDoubts(set func(string) bool) []string {
	var r risks
	closed := s.ClientDocuments == off || s.ClientDocuments == string(dcr.TrustDeny) && len(s.ClientDocumentsAllow) == 0
	r.add(s.Proxy != "" && closed, "proxy is set, but with client-documents %s no document is fetched: it is only used for keys and logos of other clients", s.ClientDocuments)
	r.add(set("egress-check") && !s.egressOff() && closed, "egress-check has no effect: with client-documents %s no document is fetched", s.ClientDocuments)
	r.add(s.Proxy != "" && s.egressOff() && !s.ProxyByName, "egress-check is off, so it is not detected if this machine cannot look up host names: with proxy-by-name the proxy looks them up")
	for _, id := range slices.Sorted(maps.Keys(s.pinned)) {
		keys := keysElsewhere(s.pinned[id])
		r.add(keys != "", "client-documents-pinned %s: its keys are still fetched from %s: with jwks in place of jwks_uri nothing is fetched", id, keys)
	}
	return r
}

// keysElsewhere returns the URL of the keys of a document, "" if it needs none or contains them.
func keysElsewhere(document []byte) string {
	var d struct {
		URI     string   `json:"jwks_uri"`
		Method  string   `json:"token_endpoint_auth_method"`
		Methods []string `json:"token_endpoint_auth_methods_supported"`
	}
	if json.Unmarshal(document, &d) != nil || !slices.Contains(append(d.Methods, d.Method), metadata.AuthMethodPrivateKeyJWT) {
		return ""
	}
	return d.URI
}

// proxyRisk returns a warning about a password that is sent to the proxy without TLS, else "".
func (s *serveSettings) proxyRisk() string {
	u, err := url.Parse(string(s.Proxy))
	if err != nil || u.Scheme != "http" || u.User == nil || metadata.IsLoopbackHost(u.Hostname()) {
		return ""
	}
	return fmt.Sprintf("proxy %s: without TLS an attacker on the network path can read its password: write https, or let it accept this machine by its address", s.Proxy)
}

// noEgress is the state of a server that cannot reach the public web.
const noEgress = "there is no way to the public web, so metadata documents of clients cannot be read"

// announceEgress prints the proxy, the pinned documents, and that the web cannot be reached.
func (s *serveSettings) announceEgress(w io.Writer, missing, offered bool) {
	line := func(label, value string) { fmt.Fprintf(w, "  %-14s %s\n", label, value) }
	if s.Proxy != "" {
		line("proxy", s.Proxy.String())
	}
	if len(s.pinned) > 0 {
		line("pinned", strings.Join(slices.Sorted(maps.Keys(s.pinned)), ", "))
	}
	if missing {
		line("no egress", noEgress+s.insteadOfDocuments(offered))
		line("", "tried: "+strings.Join(s.egressHosts(), ", ")+"; see --proxy, --client-documents-pinned, --egress-check")
	}
}

// insteadOfDocuments returns how clients connect without documents. Offered reports whether the
// metadata of the server offers documents.
func (s *serveSettings) insteadOfDocuments(offered bool) string {
	switch {
	case offered: // because there are pinned documents
		return ", except pinned ones"
	case s.Registration == "closed":
		return ", and clients cannot register: only configured clients can connect"
	}
	return ", and are not offered: clients register instead"
}
