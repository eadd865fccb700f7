package doctor

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
)

// wrongIDs are URLs that are no client_id of a metadata document (draft-ietf-oauth-client-id-metadata-
// document section 3, CIMD below), at a HOST. One with http may be permitted on loopback by purpose.
var wrongIDs = []struct{ name, what, url string }{
	{"scheme", "with http", "http://doctor.example.com/client"},
	{"fragment", "with a fragment", "https://HOST/client#part"},
	{"user", "with a user name", "https://doctor@HOST/client"},
	{"dots", "with a dot segment", "https://HOST/other/../client"},
	{"path", "without a path", "https://HOST"},
}

// documents tries the clients that name a metadata document, with a redirect URI that is in none, and
// URLs that are no client_id. A server on loopback is watched for whether it fetches these.
func (w *walker) documents(ctx context.Context, s *server, d *document) {
	at := w.endpoint(d, "authorization_endpoint")
	if at == "" || !d.yes("client_id_metadata_document_supported") {
		return
	}
	ask := func(name, id string) {
		q := question{"authorize." + name, http.MethodGet, withQuery(at, w.authorization(id, unknownRedirect)), http.Header{"Accept": {"text/html"}}, ""}
		s.calls = append(s.calls, w.ask(ctx, q))
	}
	host, ear := "doctor.example.com", w.hear()
	if ear != nil {
		defer ear.close()
		host = ear.Addr().String()
	}
	for _, c := range wrongIDs {
		if !w.room(ctx, "a client_id "+c.what) {
			continue
		}
		ask("id-"+c.name, strings.ReplaceAll(c.url, "HOST", host))
		if ear.heard() {
			s.fetched = append(s.fetched, c.name)
		}
	}
	for _, p := range profiles {
		if p.document != "" && w.room(ctx, "the document of "+p.name) {
			ask("document-"+p.name, p.document)
		}
	}
}

// ofDocument reports whether an exchange is about a metadata document: a server that cannot read it may
// say so with any status, and be asked to try later (CIMD section 5.1).
func (e *exchange) ofDocument() bool { return strings.HasPrefix(e.place, "authorize.document-") }

// ear hears who connects to an address on loopback.
type ear struct {
	net.Listener
	from chan string
	done chan struct{}
}

// hear opens an address, if the target is on loopback and no test replaces the network; else it
// returns nil.
func (w *walker) hear() *ear {
	if w.courier.network == nil || !loopback(w.url.Hostname()) {
		return nil
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil
	}
	e := &ear{listener, make(chan string), make(chan struct{})}
	go e.listen()
	return e
}

func (e *ear) listen() {
	for {
		c, err := e.Accept()
		if err != nil {
			return
		}
		_ = c.Close()
		select {
		case e.from <- c.RemoteAddr().String():
		case <-e.done:
			return
		}
	}
}

// heard reports whether somebody has connected since the last call. Connections are accepted in their
// order, so that all came before one of its own.
func (e *ear) heard() bool {
	if e == nil {
		return false
	}
	own, err := net.Dial("tcp4", e.Addr().String())
	if err != nil {
		return false
	}
	defer own.Close()
	others := false
	for from := range e.from {
		if from == own.LocalAddr().String() {
			break
		}
		others = true
	}
	return others
}

func (e *ear) close() {
	close(e.done)
	_ = e.Close()
}

// documentChecks are about clients with a metadata document.
var documentChecks = []check{
	{Entry{
		ID: "document-redirect", Severity: Error, Rule: "CIMD section 8.1; RFC 6749 section 4.1.2.1",
		Title:    "A client with a metadata document comes to a redirect URI that its document does not have",
		Symptoms: []string{"open redirector by client_id", "redirect_uri is not compared with the document"},
		Mend:     "Compare the redirect URI with those of the document, before everything else. If the document cannot be read, show a page with an error, and redirect nowhere.",
	}, eachServer(func(s *server) (found []string) {
		for _, p := range profiles {
			e := s.call("authorize.document-" + p.name)
			if at := s.landing(e, s.call("try.valid")); at == atSignIn || e != nil && comesBack(e) {
				found = append(found, fmt.Sprintf("%s for the client_id %s and the redirect URI %s", e, p.document, unknownRedirect))
			}
		}
		return found
	})},
	{Entry{
		ID: "document-id", Severity: Error, Rule: "CIMD section 3; RFC 6749 section 4.1.2.1",
		Title:    "A URL that cannot be a client_id is taken for one",
		Symptoms: []string{"client_id with http", "client_id with .. in its path"},
		Mend:     "Refuse client_id with a page, unless it is https with a path, and without user name, fragment and dot segments.",
	}, eachServer(func(s *server) (found []string) {
		for _, c := range wrongIDs {
			e := s.call("authorize.id-" + c.name)
			if at := s.landing(e, s.call("try.valid")); at == atSignIn || e != nil && comesBack(e) {
				found = append(found, fmt.Sprintf("%s%s for a client_id %s", e, seenAt(e), c.what))
			}
		}
		return found
	})},
	{Entry{
		ID: "document-fetched", Severity: Error, Rule: "CIMD section 3; CIMD section 8.6; MCP SBP SSRF",
		Title:    "The server connects to the host of a URL that cannot be a client_id",
		Symptoms: []string{"SSRF by client_id", "authorization server fetches any URL"},
		Mend:     "Look at the URL before anything is fetched. Of those that remain, fetch from public addresses only.",
	}, eachServer(func(s *server) []string {
		var what []string
		for _, c := range wrongIDs {
			if slices.Contains(s.fetched, c.name) {
				what = append(what, c.what)
			}
		}
		return saw(len(what) > 0, fmt.Sprintf("%s connects for a client_id %s", clean(s.issuer), strings.Join(what, ", ")))
	})},
}
