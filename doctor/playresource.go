package doctor

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"gatehouse.example/metadata"
)

// findResource chooses the resource metadata. A client without any takes the origin of the
// server for the authorization server.
func (p *play) findResource() string {
	if p.barred() {
		return "challenge-url"
	}
	for _, d := range p.walk.places {
		if p.fits(d) {
			p.document = d
			return ""
		}
		if p.why == "" {
			p.why = p.fault(d)
		}
		if p.onlyLink && d.form == "header" || !p.goesOn(d) {
			break
		}
	}
	switch {
	case p.originServer() != nil:
		return ""
	case p.walk.resource() == nil:
		return "resource-metadata-missing"
	}
	return p.why
}

// barred reports whether the client ends at the link of the challenge.
func (p *play) barred() bool {
	c, ok := bearer(p.walk.unauthorized())
	if !ok || !p.sameOrigin {
		return ok && p.onlyLink && elsewhere(c, p.walk.target)
	}
	at, _ := c.Get("resource_metadata")
	u, err := url.Parse(at)
	return p.linked() && err == nil && absolute(u) && !sameOrigin(at, p.walk.target)
}

// linked reports whether a client that asks for the challenge with HEAD is given it. The answer to
// GET has the same header (RFC 9110 section 9.3.2).
func (p *play) linked() bool {
	return p.walk.call("call.stream").code() == http.StatusUnauthorized
}

// elsewhere reports whether a challenge names metadata at another host, which is not asked.
func elsewhere(c metadata.Challenge, target string) bool {
	at, _ := c.Get("resource_metadata")
	u, err := url.Parse(at)
	return err == nil && absolute(u) && u.Hostname() != hostname(target)
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
	case p.typed && len(d.mistyped("scopes_supported", "authorization_servers")) > 0:
		return false
	}
	return !p.placed || d.text("resource") == p.expected(d)
}

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
	case len(d.mistyped("authorization_servers")) > 0:
		return "resource-servers"
	case len(d.mistyped("scopes_supported")) > 0:
		return "resource-scopes"
	case d.form == "root" && kind == "":
		return "resource-metadata-only-root"
	}
	return string(kind)
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

// compareResource compares the resource with the URL.
func (p *play) compareResource() string {
	if p.document == nil || p.placed {
		return ""
	}
	resource, target := p.document.text("resource"), p.walk.target
	if p.match != matchExactly {
		resource, _, _ = strings.Cut(resource, "#")
	}
	if p.match == matchParts {
		resource, _, _ = strings.Cut(resource, "?")
		target, _, _ = strings.Cut(target, "?")
	}
	kind := compare(resource, target)
	switch {
	case kind == "", p.match == matchParts && kind == spelling:
		return ""
	case p.match == matchPrefix && (kind == wider || kind == spelling || kind == otherSlash && len(resource) < len(p.walk.target)):
		return ""
	}
	return string(kind)
}
