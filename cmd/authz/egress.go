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

	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/dcr"
	"gatehouse.example/metadata"
	"gatehouse.example/safefetch"
)

// egressSettings are the way to the public web, where documents, keys and logos of clients
// are, and what is done without it.
type egressSettings struct {
	ClientDocumentsPinned []string `sep:"none" pairs:"" placeholder:"URL=FILE" help:"Documents of clients that are known here and never fetched: the client_id, and a file with what is published there; repeatable."`

	proxySettings
	EgressCheck []string `default:"claude.ai,chatgpt.com" placeholder:"HOST|off" help:"Hosts of which one is connected to from time to time, and asked nothing, to see whether documents can be read at all; repeatable (default ${default})."`

	// pinned are the documents themselves, by client_id.
	pinned map[string][]byte
}

// proxySettings name the proxy of a program that fetches what others name.
type proxySettings struct {
	Proxy       settings.ProxyURL `placeholder:"URL" help:"HTTP proxy for everything that is fetched, such as http://proxy.example.com:3128 (default: none, whatever HTTPS_PROXY says)."`
	ProxyFile   string            `placeholder:"FILE" help:"File that holds that URL."`
	ProxyByName bool              `help:"Ask the proxy for host names, not for the addresses that they have here: for a proxy that allows by name."`
}

// fetching is how what strangers name is fetched.
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

// proxyMistakes returns what is wrong with them.
func (s *proxySettings) proxyMistakes() error {
	_, err := s.fetching()
	if s.ProxyByName && s.Proxy == "" {
		return errors.Join(err, errors.New("proxy-by-name is set and proxy is not: there is nobody to ask"))
	}
	return err
}

// clientIn is how an address that the operator chose is asked: through the proxy that he named,
// and through none that the environment does. Loopback is this machine, which no proxy is on
// the way to.
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

// usualLookout is what egress-check is by default.
const usualLookout = "claude.ai,chatgpt.com"

// lookout are the hosts to look for: with client-documents: deny those that are allowed by name
// in place of the default, since no other host matters.
func (s *serveSettings) lookout() []string {
	switch hosts := s.EgressCheck; {
	case s.egressOff() || s.ClientDocuments == off:
		return nil
	case strings.Join(hosts, ",") == usualLookout && s.ClientDocuments == string(dcr.TrustDeny):
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

// readPinned reads the files of the documents that are pinned.
func (s *egressSettings) readPinned() error {
	s.pinned = map[string][]byte{}
	var errs []error
	for _, text := range s.ClientDocumentsPinned {
		at := strings.LastIndexByte(text, '=') // a URL may have one too
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

// egressMistakes finds settings that contradict each other.
func (s *serveSettings) egressMistakes() error {
	errs := []error{s.proxyMistakes()}
	if s.ClientDocuments == off && len(s.ClientDocumentsPinned) > 0 {
		errs = append(errs, errors.New("client-documents is off: leave out client-documents-pinned, or say deny, which takes those that are pinned and no others"))
	}
	if slices.Contains(s.EgressCheck, off) && len(s.EgressCheck) > 1 {
		errs = append(errs, errors.New("egress-check is off and names hosts: keep one of them"))
	}
	return errors.Join(errs...)
}

// egressDoubts returns a sentence for each setting about the way to the web that does nothing.
func (s *serveSettings) egressDoubts(asked func(string) bool) []string {
	var r risks
	closed := s.ClientDocuments == off || s.ClientDocuments == string(dcr.TrustDeny) && len(s.ClientDocumentsAllow) == 0
	r.add(s.Proxy != "" && closed, "proxy is set and client-documents %s lets no document be fetched: only keys and logos of other clients come through it", s.ClientDocuments)
	r.add(asked("egress-check") && !s.egressOff() && closed, "egress-check has no effect: client-documents %s lets no document be fetched", s.ClientDocuments)
	r.add(s.Proxy != "" && s.egressOff() && !s.ProxyByName, "egress-check is off, so nobody notices whether names can be looked up here: proxy-by-name has the proxy look them up")
	for _, id := range slices.Sorted(maps.Keys(s.pinned)) {
		keys := keysElsewhere(s.pinned[id])
		r.add(keys != "", "client-documents-pinned %s: its keys are at %s and fetched from there all the same: with jwks in place of jwks_uri they need no way to the web", id, keys)
	}
	return r
}

// keysElsewhere is the address of the keys that a document needs, or "".
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

// proxyRisk judges the way to the proxy, "" for nothing to say.
func (s *serveSettings) proxyRisk() string {
	u, err := url.Parse(string(s.Proxy))
	if err != nil || u.Scheme != "http" || u.User == nil || metadata.IsLoopbackHost(u.Hostname()) {
		return ""
	}
	return fmt.Sprintf("proxy %s: without TLS whoever is on the way there reads its password: write https, or let it know this machine by its address", s.Proxy)
}

// noEgress is what is said of a server that found no way to the web.
const noEgress = "there is no way to the public web, so metadata documents of clients cannot be read"

// announceEgress says what is not as usual.
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
		line("", "looked for: "+strings.Join(s.lookout(), ", ")+"; see --proxy, --client-documents-pinned, --egress-check")
	}
}

// insteadOfDocuments says how clients connect without; offered is what the metadata says.
func (s *serveSettings) insteadOfDocuments(offered bool) string {
	switch {
	case offered: // because of those
		return ", but for those that are pinned"
	case s.Registration == "closed":
		return ", and clients cannot register: only those that are configured connect"
	}
	return ", and are not offered: clients register instead"
}
