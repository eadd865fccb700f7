package doctor

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// findResource chooses the resource metadata. A client without any takes the origin of the
// server for the authorization server.
func (p *play) findResource() string {
	if p.barred() {
		return "challenge-elsewhere"
	}
	if p.open = p.walk.unlinked(); p.open != "" {
		return ""
	}
	for _, d := range p.walk.places {
		if p.open = d.open(); p.open != "" {
			return ""
		}
		if p.fits(d) {
			p.document = d
			return ""
		}
		if p.why == "" {
			p.at = d.exchange.String()
			p.why = p.fault(d)
		}
		if p.onlyLink && d.form == "header" || !p.goesOn(d) {
			break
		}
	}
	switch {
	case p.guess() != nil, p.open != "":
		return ""
	case len(p.walk.without()) > 0:
		return "resource-metadata-missing"
	}
	return cmp.Or(p.why, p.anyFault())
}

// guess returns the server that the client takes for the authorization server, where no document
// names one. It may be open whether there is one.
func (p *play) guess() *server {
	if p.walk.resource() == nil {
		p.open = p.walk.unknown()
	}
	if p.open != "" {
		return nil
	}
	for _, s := range p.walk.servers {
		for _, d := range s.documents {
			if s.guessed && p.open == "" {
				p.open = d.open()
			}
		}
	}
	s := p.originServer()
	if s != nil {
		p.open = ""
	}
	return s
}

// anyFault names the first finding about a document that cannot be read.
func (p *play) anyFault() string {
	for _, d := range p.walk.places {
		if id := p.fault(d); id != "" {
			p.at = d.exchange.String()
			return id
		}
	}
	return "resource-metadata-missing"
}

// barred reports whether the client ends at the link of the challenge, because it is of another
// origin.
func (p *play) barred() bool { return p.sameOrigin && p.linked() && p.walk.away() != "" }

// linked reports whether a client that asks for the challenge with HEAD is given it. The answer to
// GET has the same header (RFC 9110 section 9.3.2).
func (p *play) linked() bool {
	return p.walk.call("call.stream").code() == http.StatusUnauthorized
}

func hostname(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// fits reports whether the client uses a document. One that looks at each place with the
// resource it expects there goes on to the next place otherwise.
func (p *play) fits(d *document) bool {
	switch {
	case !d.found(), p.mediaType && d.media() != "application/json":
		return false
	case (p.typed || p.exactTypes) && len(d.mistyped("scopes_supported", "authorization_servers")) > 0, d.servers(p.usable) != "":
		return false
	case p.typed && !p.placed && !withScheme.MatchString(d.text("resource")):
		return false
	}
	return !p.placed || d.text("resource") == p.expected(d)
}

// withScheme is what makes a text a URL for those that share the schema of the TypeScript SDK.
var withScheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:`)

// expected returns the resource that a document in its place should have.
func (p *play) expected(d *document) string {
	if d.form == "root" {
		return origin(p.walk.target)
	}
	return p.walk.target
}

// goesOn reports whether a client looks in the next place.
func (p *play) goesOn(d *document) bool {
	if p.pastAll {
		return d.unread()
	}
	if d.found() || d.mistake != "" {
		return p.placed || p.pastPages && !d.found()
	}
	return p.placed || d.code() >= 400 && d.code() < 500 || p.next502 && d.code() == http.StatusBadGateway
}

// unread reports whether there is an answer that has no JSON with the status of a success.
func (d *document) unread() bool { return d.answered() && !(d.ok() && json.Valid(d.body)) }

// fault names the finding about a document that the client does not use.
func (p *play) fault(d *document) string {
	if d.found() {
		return p.misfit(d)
	}
	switch {
	case !d.answered():
		return d.silence()
	case d.mistake != "":
		return "resource-metadata-not-json"
	case d.code() >= 500:
		return "server-fault"
	case d.code() == http.StatusUnauthorized || d.code() == http.StatusForbidden:
		return "resource-metadata-locked"
	case d.redirect():
		return "metadata-redirected-away"
	case d.form == "header":
		return "resource-metadata-broken-link"
	}
	return ""
}

// misfit names the finding about a document that can be read, and is not used.
func (p *play) misfit(d *document) string {
	kind := compare(d.text("resource"), p.walk.target)
	switch {
	case p.mediaType && d.media() != "application/json":
		return "resource-metadata-type"
	case plain(d.servers(p.usable)):
		p.at = "the authorization server is "
		return "plain-http"
	case len(d.mistyped("authorization_servers")) > 0, d.servers(p.usable) != "":
		return "resource-servers"
	case len(d.mistyped("scopes_supported")) > 0:
		return "resource-scopes"
	case d.form == "root" && kind == "":
		return "resource-metadata-only-root"
	}
	return string(kind)
}

// usable reports whether a client takes a document with that authorization server among others. Those
// that share the schema of the TypeScript SDK parse every URL; the Go SDK needs https or loopback.
func (p *play) usable(server string) bool {
	u, err := url.Parse(server)
	switch {
	case !p.typed:
		return true
	case err != nil:
		return false
	case p.placed:
		return u.Scheme == "https" || loopback(u.Hostname())
	}
	return u.Scheme != ""
}

// servers returns the first authorization server that is not usable, "" if all are.
func (d *document) servers(usable func(string) bool) string {
	list, _ := d.list("authorization_servers")
	for _, s := range list {
		if !usable(s) {
			return cmp.Or(s, " ")
		}
	}
	return ""
}

func origin(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// originServer returns the authorization server that is the origin of the target, if it was
// asked.
func (p *play) originServer() *server {
	for _, s := range p.walk.servers {
		if strings.TrimSuffix(s.issuer, "/") == origin(p.walk.target) && s.metadata() != nil {
			return s
		}
	}
	return nil
}

// compared returns the part of a URL that the client compares.
func (p *play) compared(u string) string {
	if p.match != matchExactly && !p.noFragment {
		u, _, _ = strings.Cut(u, "#")
	}
	if p.match == matchParts {
		u, _, _ = strings.Cut(u, "?")
	}
	return u
}

// compareResource compares the resource with the URL.
func (p *play) compareResource() string {
	if p.document == nil || p.placed {
		return ""
	}
	resource := p.compared(p.document.text("resource"))
	kind := compare(resource, p.compared(p.walk.target))
	switch {
	case kind == "", p.match == matchParts && kind == spelling:
		return ""
	case p.match == matchPrefix && (kind == wider || kind == spelling || kind == otherSlash && len(resource) < len(p.walk.target)):
		return ""
	}
	return string(kind)
}
