package doctor

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// findServer takes the first authorization server.
func (p *play) findServer() string {
	if p.document == nil {
		p.server = p.originServer()
		return ""
	}
	list, ok := p.document.list("authorization_servers")
	if !ok || len(list) == 0 {
		if s := p.originServer(); s != nil && ok && !p.placed {
			p.server = s
			return ""
		}
		return "resource-servers"
	}
	for _, s := range p.walk.servers {
		if s.issuer == list[0] {
			p.server = s
			return ""
		}
	}
	return "resource-servers"
}

// findMetadata chooses the metadata of the authorization server.
func (p *play) findMetadata() string {
	why := ""
	for _, d := range p.candidates() {
		if p.open = d.open(); p.open != "" {
			return ""
		}
		id := p.judge(d)
		if p.metadata != nil || id != "" && !p.pastUnfit && !(p.pastAll && d.unread()) {
			return id
		}
		why = cmp.Or(why, id)
	}
	if p.fallback && p.fallbackAnswers() {
		return "" // with the endpoints that servers without metadata had (MCP 2025-03-26)
	}
	if p.server.unfound() == "" {
		why = cmp.Or(why, "server-metadata-not-json")
	}
	return cmp.Or(why, "server-metadata-missing")
}

// judge takes a document for the metadata of the server, or returns the finding at which a client ends
// that does not, "" if it looks in the next place.
func (p *play) judge(d *document) string {
	if !d.found() {
		p.at = d.exchange.String()
		return p.ends(d)
	}
	id := p.unfit(d)
	if id == "" {
		p.metadata = d
	}
	return id
}

// candidates returns the metadata of the server in the places where the client looks.
func (p *play) candidates() []*document {
	all := p.server.documents
	for _, e := range p.server.calls {
		if p.rootPlaces && e.place == "server.stray" && e.url == origin(p.server.issuer)+"/.well-known/oauth-authorization-server" {
			all = append(slices.Clone(all), newDocument(e, "root"))
		}
	}
	return all
}

// unfit returns the finding at which a client ends that could read a document.
func (p *play) unfit(d *document) string {
	switch {
	case p.mediaType && d.media() != "application/json":
		return "server-metadata-type"
	case p.openID && d.form != "oauth" && len(d.lacks(openIDMembers...)) > 0:
		return "openid-members"
	case p.typed && !p.placed, p.exactTypes, p.pastUnfit:
		return p.misshapen(d)
	}
	return ""
}

// misshapen returns the finding about a document that does not fit the schema by which the client
// reads it.
func (p *play) misshapen(d *document) string {
	whole := !p.exactTypes
	lacks := func(name string) bool {
		u, err := url.Parse(d.text(name))
		return d.text(name) == "" || whole && (err != nil || !absolute(u))
	}
	switch {
	case whole && d.text("issuer") == "":
		return "issuer-missing"
	case lacks("authorization_endpoint"), lacks("token_endpoint"):
		return "endpoint-missing"
	case !p.anyPKCE && len(d.mistyped("code_challenge_methods_supported")) > 0:
		return "pkce-s256"
	case p.typed && (!d.has("response_types_supported") || len(d.mistyped("response_types_supported")) > 0):
		return "response-types"
	}
	return ""
}

func (p *play) fallbackAnswers() bool {
	at := "fallback"
	if p.rootPaths {
		at = "fallback.root"
	}
	e := p.server.call(at)
	if e != nil && e.open() != "" {
		p.open = e.open()
		return true
	}
	return e.answered() && e.code() != http.StatusNotFound
}

// silence returns the finding about an exchange without an answer.
func (e *exchange) silence() string {
	return cmp.Or(map[failure]string{failTLS: "tls-invalid", failHeader: "header-malformed"}[e.failure], "unreachable")
}

// ends returns the finding at which a client ends that could not read a document, "" if it looks
// in the next place.
func (p *play) ends(d *document) string {
	switch {
	case d.mistake != "" && p.pastPages:
		return ""
	case d.mistake != "":
		return "server-metadata-not-json"
	case d.code() >= 400 && d.code() < 500, p.next502 && d.code() == http.StatusBadGateway:
		return ""
	case d.code() >= 500:
		return "server-fault"
	case !d.answered():
		return d.silence()
	}
	return "metadata-redirected-away"
}

func (p *play) compareIssuer() string {
	if p.metadata == nil {
		return ""
	}
	is, want := p.metadata.text("issuer"), p.server.issuer
	if p.atIssuer && p.reaches(is) {
		return ""
	}
	switch {
	case is == want, is != "" && p.anyIssuer:
		return ""
	case is == "":
		return "issuer-missing"
	case is == strings.TrimSuffix(want, "/"), strings.TrimSuffix(is, "/") == strings.TrimSuffix(want, "/") && p.looseSlash:
		return ""
	case strings.TrimSuffix(is, "/") == strings.TrimSuffix(want, "/"):
		return "issuer-slash"
	}
	return "issuer-mismatch"
}

// reaches reports whether a client that registers at the issuer of the metadata comes to the same
// server, or was not led there by the challenge and so needs no issuer.
func (p *play) reaches(issuer string) bool {
	led := p.document != nil && p.document.form == "header" && p.linked()
	return !led || issuer != "" && sameOrigin(issuer, p.server.issuer)
}

// abilities compares what the authorization server can do with what the client needs.
func (p *play) abilities() string {
	if p.metadata == nil || p.anyPKCE {
		return ""
	}
	methods, ok := p.metadata.list("code_challenge_methods_supported")
	types, _ := p.metadata.list("response_types_supported")
	switch {
	case !ok:
		return "pkce-s256"
	case p.needsPKCE && len(methods) == 0:
		return "pkce-missing"
	case !p.needsPKCE && p.metadata.has("code_challenge_methods_supported") && !slices.Contains(methods, "S256"):
		return "pkce-s256"
	case p.needsCode && len(types) > 0 && !slices.Contains(types, "code"):
		return "response-types"
	}
	return ""
}

func (p *play) endpoints() string {
	if p.metadata == nil {
		return ""
	}
	for _, name := range []string{"authorization_endpoint", "token_endpoint"} {
		at := p.metadata.text(name)
		u, err := url.Parse(at)
		if p.needsURLs && (err != nil || !absolute(u)) {
			return "endpoint-missing"
		}
		if p.needsHTTPS && at != "" && (err != nil || !absolute(u)) {
			return "endpoint-missing"
		}
		if p.needsHTTPS && plain(at) {
			p.at = name + " is "
			return "plain-http"
		}
	}
	return ""
}

// refusal returns the finding about the registration of the client, "" if there is none.
func (p *play) refusal() string {
	p.open = unregistered
	for _, r := range p.server.clients {
		if r.client != p.name {
			continue
		}
		p.open, p.at = r.answer.open(), p.name
		if p.open == "" {
			return p.misregistered(r)
		}
	}
	return ""
}

// unregistered is why a registration is open that was not tried.
const unregistered = "no client was registered; --register tries it"

// misregistered returns the finding about an answer to the registration of the client.
func (p *play) misregistered(r *registration) string {
	switch code := r.answer.code(); {
	case code == 0:
		return r.answer.silence()
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return "registration-locked"
	case code/100 != 2:
		return "registration-refused"
	case r.answer.text("client_id") == "":
		return "registration-answer"
	case p.typed && !p.placed && !r.answer.has("redirect_uris"):
		return "registration-redirects"
	}
	return ""
}

// becomeKnown uses the document of the client where it may, else registers.
func (p *play) becomeKnown() string {
	if p.metadata == nil {
		p.open = "nothing is registered at an endpoint that no metadata names"
		return ""
	}
	methods, _ := p.metadata.list("token_endpoint_auth_methods_supported")
	byDocument := p.profile.document != "" && p.metadata.yes("client_id_metadata_document_supported") &&
		(!p.needsPublic || slices.Contains(methods, "none"))
	switch {
	case byDocument:
		return ""
	case p.metadata.has("registration_endpoint"):
		return p.refusal()
	case p.metadata.yes("client_id_metadata_document_supported") && p.profile.document == "":
		return "no-registration"
	}
	return "no-way-in"
}
