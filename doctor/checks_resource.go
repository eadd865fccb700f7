package doctor

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"gatehouse.example/metadata"
)

// tokenChecks are about answers to tokens that nobody issued.
var tokenChecks = []check{
	{Entry{
		ID: "wrong-token-accepted", Severity: Error, Rule: "MCP Token Handling; RFC 6750 section 3.1",
		Title:    "Any token is accepted",
		Symptoms: []string{"server accepts every bearer token"},
		Mend:     "Verify signature, issuer, audience and time of each token, or ask the authorization server (introspection).",
	}, func(w *walk) []string { return accepted(w, "call.wrong-token", "a token that is no token") }},
	{Entry{
		ID: "unsigned-token-accepted", Severity: Error, Rule: "RFC 8725 section 3.1; RFC 9068 section 4",
		Title:    "A token without a signature is accepted",
		Symptoms: []string{"alg none accepted"},
		Mend:     "Accept only signatures of the algorithms and keys that the authorization server publishes; never alg none.",
	}, func(w *walk) []string { return accepted(w, "call.unsigned-token", "a token with alg none") }},
	{Entry{
		ID: "wrong-token-status", Severity: Error, Rule: "MCP Token Handling; RFC 6750 section 3.1",
		Title:    "A wrong or expired token is refused, but not with 401",
		Symptoms: []string{"works until the token expires", "client does not refresh", "HTTP 403 after an hour", "Internal Server Error with an old token"},
		Mend:     "Answer 401 with error=\"invalid_token\". Clients refresh at 401 only; 403 is for a valid token with too few scopes.",
		Clients:  everyone,
	}, func(w *walk) []string {
		e := w.call("call.wrong-token")
		return saw(e.answered() && e.status != http.StatusUnauthorized && e.status >= 300 && w.unauthorized() != nil, fmt.Sprintf("%s to a wrong token", e))
	}},
	{Entry{
		ID: "wrong-token-silent", Severity: Warning, Rule: "RFC 6750 section 3.1; RFC 9728 section 5.1",
		Title:    "The challenge for a wrong token does not say invalid_token, or not where the metadata is",
		Symptoms: []string{"client signs in again instead of refreshing", "401 loop"},
		Mend:     "Add error=\"invalid_token\" and the same resource_metadata as without a token.",
		Mends:    map[string]string{},
	}, func(w *walk) []string {
		e := w.call("call.wrong-token")
		c, ok := bearer(e)
		if !ok || e.status != http.StatusUnauthorized {
			return nil
		}
		code, _ := c.Get("error")
		return saw(code != "invalid_token", "the challenge is "+quoted(c.String()))
	}},
}

func accepted(w *walk, place, what string) []string {
	e := w.call(place)
	first := w.call("call.session")
	return saw(e.answered() && e.status < 300 && first.answered() && first.status >= 300, fmt.Sprintf("%s to %s", e, what))
}

// placeChecks are about where the resource metadata is.
var placeChecks = []check{
	{Entry{
		ID: "resource-metadata-missing", Severity: Error, Rule: "RFC 9728 section 3; MCP Protected Resource Metadata Discovery Requirements",
		Title:    "There is no resource metadata",
		Symptoms: []string{"does not implement OAuth 2.0 Protected Resource Metadata", "client registers at the wrong server", "404 for /register at the server itself"},
		Mend:     "Serve a JSON document with resource and authorization_servers at /.well-known/oauth-protected-resource followed by the path of the server.",
		Clients:  everyone,
	}, func(w *walk) []string { return saw(len(w.without()) > 0, strings.Join(w.without(), "; ")+w.noGuess()) }},
	{Entry{
		ID: "resource-metadata-broken-link", Severity: Error, Rule: "RFC 9728 section 5.1",
		Title:    "The challenge names resource metadata that is not there",
		Symptoms: []string{"HTTP 404 loading resource metadata"},
		Mend:     "Serve the document at the URL that the challenge names, or name the one where it is.",
		Clients:  onlyLinked,
	}, onPlace("header", func(w *walk, d *document) string {
		return when(d.answered() && d.status != http.StatusOK, d.exchange.String())
	})},
	{Entry{
		ID: "resource-metadata-locked", Severity: Error, Rule: "RFC 9728 section 3.1",
		Title:    "The resource metadata needs a token",
		Symptoms: []string{"401 for /.well-known/oauth-protected-resource", "401 loop"},
		Mend:     "Let everybody read /.well-known/oauth-protected-resource: clients read it to learn where tokens come from.",
		Clients:  everyone,
	}, anyPlace(func(d *document) string {
		return when(d.answered() && (d.status == http.StatusUnauthorized || d.status == http.StatusForbidden), d.exchange.String())
	})},
	{Entry{
		ID: "resource-metadata-not-inserted", Severity: Warning, Rule: "RFC 9728 section 3.1",
		Title:    "The resource metadata is not at the path of the server",
		Symptoms: []string{"404 for /.well-known/oauth-protected-resource/mcp"},
		Mend:     "Insert the well-known path between host and path: https://host/.well-known/oauth-protected-resource/mcp for https://host/mcp. A second server on the same host needs its own.",
		Clients:  []string{},
	}, func(w *walk) []string {
		for _, d := range w.places {
			inserted := strings.HasSuffix(strings.TrimSuffix(d.url, "/"), insertedPath(w.target))
			if inserted && sameOrigin(d.url, w.target) && !d.found() && d.open() == "" && w.resource() != nil && w.resource().form != "root" {
				return []string{d.exchange.String()}
			}
		}
		return nil
	}},
	{Entry{
		ID: "resource-metadata-only-root", Severity: Error, Rule: "RFC 9728 section 3.1; RFC 9728 section 3.3",
		Title:    "The resource metadata is at the root only, and the challenge does not name it",
		Symptoms: []string{"404 for /.well-known/oauth-protected-resource/mcp"},
		Mend:     "Serve it at the path of the server too: a document at the root is for the whole host, and must have the host as resource.",
		Clients:  []string{vscode, goSDK},
	}, func(w *walk) []string {
		begin := w.resource()
		wrong := begin != nil && begin.form == "root" && !slices.ContainsFunc(w.places, func(d *document) bool {
			return d.form != "root" && !d.absent()
		}) && insertedPath(w.target) != insertedPath(origin(w.target))
		return saw(wrong, fmt.Sprintf("%s alone has a document", origin(w.target)+"/.well-known/oauth-protected-resource"))
	}},
	{Entry{
		ID: "resource-metadata-not-json", Severity: Error, Rule: "RFC 9728 section 3.2",
		Title:    "The resource metadata is not JSON",
		Symptoms: []string{"Unexpected token '<', \"<!DOCTYPE\"... is not valid JSON", "invalid character '<' looking for beginning of value"},
		Mend:     "Answer with the document, or with 404. Web applications that answer every path with their page must leave /.well-known/ out.",
		Clients:  everyone,
	}, anyPlace(func(d *document) string { return when(d.mistake != "", d.exchange.String()+", and "+d.mistake) })},
	{Entry{
		ID: "resource-metadata-type", Severity: Error, Rule: "RFC 9728 section 3.2",
		Title:    "The resource metadata has another content type than application/json",
		Symptoms: []string{"bad content type", "expected application/json"},
		Mend:     "Send Content-Type: application/json.",
		Clients:  []string{goSDK},
	}, anyPlace(func(d *document) string {
		return when(d.found() && d.media() != "application/json", fmt.Sprintf("%s with Content-Type %s", d.exchange, quoted(d.get("Content-Type"))))
	})},
	{Entry{
		ID: "resource-metadata-redirected", Severity: Warning, Rule: "RFC 9728 section 3.2",
		Title:    "The resource metadata is behind a redirect",
		Symptoms: []string{"redirect while loading metadata", "CORS error: redirect is not allowed for a preflight request"},
		Mend:     "Answer 200 at the path itself. Redirects that add or remove a slash, or lead to https, come from the router or proxy.",
	}, redirected("resource.")},
	{Entry{
		ID: "metadata-redirected-away", Severity: Error, Rule: "RFC 9728 section 3.2; RFC 8414 section 3.2",
		Title:    "A redirect of metadata leads in a circle, or to another host",
		Symptoms: []string{"redirect count exceeded", "stopped after 10 redirects", "too many redirects"},
		Mend:     "Serve the document itself. What another host says counts as little as what anybody says: it was not asked.",
		Clients:  everyone,
	}, func(w *walk) (found []string) {
		all := w.places
		for _, s := range w.servers {
			all = append(all[:len(all):len(all)], s.documents...)
		}
		for _, d := range all {
			if d.redirect() {
				found = append(found, d.exchange.String()+" and leads to "+quoted(d.get("Location")))
			}
		}
		return few(found)
	}},
	{Entry{
		ID: "resource-metadata-differs", Severity: Warning, Rule: "RFC 9728 section 3.3",
		Title:    "The resource metadata is different in two places",
		Symptoms: []string{"some clients connect, others do not"},
		Mend:     "Serve the same document in each place for one server.",
	}, func(w *walk) []string {
		begin := w.resource()
		for _, d := range w.places {
			if d != begin && d.found() && d.form != "root" && differ(begin, d, "resource", "authorization_servers") {
				return []string{fmt.Sprintf("%s has resource %s, %s has %s", begin.url, quoted(begin.text("resource")), d.url, quoted(d.text("resource")))}
			}
		}
		return nil
	}},
}

// absent reports whether a place says that it has no document.
func (d *document) absent() bool {
	return d.code() >= 400 && d.code() < 500 && d.code() != http.StatusUnauthorized && d.code() != http.StatusForbidden
}

// without returns the places that have no resource metadata, if none has: nil where one answers
// something else, or where it is not known.
func (w *walk) without() (seen []string) {
	if w.alone || w.resource() != nil || w.unknown() != "" {
		return nil
	}
	for _, d := range w.places {
		if !d.absent() {
			return nil
		}
		seen = append(seen, d.exchange.String())
	}
	return seen
}

// noGuess tells that the origin is no authorization server either, which clients take for one where
// no metadata names one (MCP 2025-03-26).
func (w *walk) noGuess() string {
	for _, s := range w.servers {
		if s.guessed && s.unfound() != "" {
			return "; nor is there metadata of an authorization server at " + clean(s.issuer) + ", which clients then guess"
		}
	}
	return ""
}

// onPlace looks at the resource metadata in one place.
func onPlace(form string, look func(*walk, *document) string) func(*walk) []string {
	return func(w *walk) []string {
		for _, d := range w.places {
			if d.form == form {
				text := look(w, d)
				return saw(text != "", text)
			}
		}
		return nil
	}
}

// anyPlace looks at the resource metadata in each place, and reports the first fault.
func anyPlace(look func(*document) string) func(*walk) []string {
	return func(w *walk) []string {
		for _, d := range w.places {
			if text := look(d); text != "" {
				return []string{text}
			}
		}
		return nil
	}
}

// redirected reports the first document that is behind a redirect.
func redirected(prefix string) func(*walk) []string {
	return func(w *walk) []string {
		for _, e := range w.exchanges {
			if e.redirect() && strings.HasPrefix(e.place, prefix) {
				return []string{e.String() + " and leads to " + quoted(e.get("Location"))}
			}
		}
		return nil
	}
}

func insertedPath(target string) string {
	u, err := url.Parse(target)
	if err != nil {
		return ""
	}
	return "/.well-known/oauth-protected-resource" + strings.TrimSuffix(u.EscapedPath(), "/")
}

// differ reports whether one of some members is different in two documents.
func differ(a, b *document, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return string(marshal(a.members[name])) != string(marshal(b.members[name]))
	})
}

// sameOrigin reports whether a is an absolute URL with the scheme and host of b.
func sameOrigin(a, b string) bool {
	x, err := url.Parse(a)
	y, err2 := url.Parse(b)
	return err == nil && err2 == nil && strings.EqualFold(x.Scheme, y.Scheme) && strings.EqualFold(authority(x), authority(y))
}

// authority returns host and port, without the port that a scheme has by default.
func authority(u *url.URL) string {
	if u.Scheme == "https" {
		return strings.TrimSuffix(u.Host, ":443")
	}
	return strings.TrimSuffix(u.Host, ":80")
}

// canonicalEqual reports whether two resources differ in spelling only.
func canonicalEqual(a, b string) bool {
	x, err := metadata.Canonical(a)
	y, err2 := metadata.Canonical(b)
	return err == nil && err2 == nil && x == y
}
