package doctor

import (
	"net/http"
	"slices"
	"strings"

	"gatehouse.example/metadata"
)

// play is one client on its way through the record of a walk.
type play struct {
	profile
	walk     *walk
	document *document // the resource metadata that it uses, nil without
	why      string    // the finding for which it uses none
	server   *server
	metadata *document // of the server
	open     string    // why it is not known how it goes on, "" if it is
	at       string    // what is said where it stops, of several findings of one kind
}

// steps are the steps of every client, in their order. Each returns the ID of the finding at
// which the client stops, "" if it goes on. A step that cannot tell says why in play.open.
var steps = []step{
	{"call", (*play).call},
	{"challenge", (*play).challenge},
	{"resource metadata", (*play).findResource},
	{"resource", (*play).compareResource},
	{"authorization server", (*play).findServer},
	{"server metadata", (*play).findMetadata},
	{"issuer", (*play).compareIssuer},
	{"abilities", (*play).abilities},
	{"endpoints", (*play).endpoints},
	{"registration", (*play).becomeKnown},
}

// step is one step of a client.
type step struct {
	name string
	take func(*play) string
}

// inOrder returns the steps in the order in which the client takes them.
func (p profile) inOrder() []step {
	all := slices.Clone(steps)
	if p.order != nil {
		slices.SortFunc(all, func(a, b step) int { return slices.Index(p.order, a.name) - slices.Index(p.order, b.name) })
	}
	return all
}

// ways plays every client.
func (w *walk) ways() (all []Way) {
	for _, p := range profiles {
		all = append(all, w.way(p))
	}
	return all
}

func (w *walk) way(p profile) Way {
	on := &play{profile: p, walk: w}
	way := Way{Client: p.name, Version: p.version, Basis: p.known, Dated: p.dated}
	for _, step := range p.inOrder() {
		id := ""
		if on.open == "" {
			id = step.take(on)
		}
		way.Steps = append(way.Steps, Step{step.name, id == "" && on.open == "", on.open != ""})
		if id != "" {
			way.stop(on, step.name, id)
			break
		}
	}
	if way.Stops == "" {
		on.goOn(&way)
	}
	way.Open = clean(on.open)
	return way
}

// call needs a 401.
func (p *play) call() string {
	e := p.walk.call("call.session")
	if first := p.walk.call("call.stateless"); e == nil || e.open() != "" && p.signsInAt(first) {
		e = first
	}
	switch {
	case p.signsInAt(e), p.streams(e) && p.signsInAt(p.walk.call("call.stream")):
		return ""
	case e.opens() && p.walk.use().code() == http.StatusUnauthorized:
		return ""
	}
	p.open, p.at = e.open(), e.String()
	if use := p.walk.use(); p.open == "" && e.opens() && use != nil {
		p.open = use.open()
	}
	if p.open != "" {
		return ""
	}
	return called(e)
}

// streams reports whether a client also asks for a stream, at that answer to its first message.
func (p *play) streams(e *exchange) bool { return p.beginsGET || p.thenGET && e.opens() }

// called returns the finding about an answer at which no client signs in.
func called(e *exchange) string {
	switch {
	case !e.answered():
		return e.silence()
	case e.page():
		return "sign-in-page"
	case e.status < 300:
		return "open"
	case e.status >= 500:
		return "server-fault"
	}
	return "wrong-status"
}

// signsInAt reports whether a client begins a sign-in at an answer. At a redirect on the same host,
// clients follow it and are refused there.
func (p *play) signsInAt(e *exchange) bool {
	return e.code() == http.StatusUnauthorized || e.code() == http.StatusForbidden && p.signsIn403 || e.moved()
}

// challenge is ignored by most clients if it cannot be parsed.
func (p *play) challenge() string {
	e := p.walk.unauthorized()
	if !p.strict || e == nil {
		return ""
	}
	all, err := metadata.ParseChallenges(e.header.Values("WWW-Authenticate"))
	switch {
	case err != nil && strings.Count(strings.Join(e.header.Values("WWW-Authenticate"), ""), `"`)%2 == 1:
		return "challenge-malformed"
	case slices.ContainsFunc(all, hasEmpty):
		return "challenge-empty"
	}
	return ""
}
