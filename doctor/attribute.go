package doctor

import (
	"slices"
	"strings"
)

// played are the findings at which a way can stop. Whom they stop at a server is told by the ways.
// Every other finding that names clients is about what comes after the ways.
var played = append([]string{
	"tls-invalid", "plain-http", "unreachable", "server-fault", "header-malformed",
	"open", "sign-in-page", "wrong-status", "challenge-malformed", "challenge-empty", "challenge-elsewhere",
	"resource-metadata-missing", "resource-metadata-broken-link", "resource-metadata-locked", "resource-metadata-only-root",
	"resource-metadata-not-json", "resource-metadata-type", "metadata-redirected-away",
	string(missing), string(badURI), string(otherSlash), string(spelling), string(scheme), string(wider), string(different),
	"resource-servers", "resource-scopes",
	"server-metadata-missing", "server-metadata-not-json", "server-metadata-type", "openid-members",
	"issuer-missing", "issuer-slash", "issuer-mismatch", "endpoint-missing", "pkce-missing", "pkce-s256", "response-types",
	"no-way-in", "no-registration", "registration-refused", "registration-locked", "registration-answer", "registration-redirects",
}, laterFindings()...)

// attribute gives each client that stops to the finding at which it stops. Of several findings of
// one kind it is the one that says what was seen there.
func (r *Report) attribute() {
	for i, f := range r.Findings {
		if slices.Contains(played, f.ID) {
			r.Findings[i].Clients = []string{}
		}
	}
	for _, way := range r.As {
		if at := r.reason(way); at >= 0 {
			r.Findings[at].Clients = append(r.Findings[at].Clients, way.Client)
		}
	}
}

// reason returns the index of the finding at which a client stops, -1 if it does not.
func (r *Report) reason(way Way) int {
	first := -1
	for i, f := range r.Findings {
		switch {
		case f.ID != way.Finding:
		case strings.Contains(f.Saw, clean(way.at)):
			return i
		case first < 0:
			first = i
		}
	}
	return first
}

// stops is how a report names the clients of a finding.
func (r *Report) stops(f Finding) string {
	if len(r.As) > 0 && slices.Contains(played, f.ID) {
		return "stops"
	}
	return "can stop"
}
