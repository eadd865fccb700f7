package doctor

import (
	"cmp"
	"slices"
	"strings"
)

// Asks is what a client asks for when it sends its user to the sign-in.
type Asks struct {
	Scope string `json:"scope,omitempty"`
	// Resource is the parameter resource (RFC 8707), "" if the client found no metadata to take it from.
	Resource string `json:"resource,omitempty"`
	Prompt   string `json:"prompt,omitempty"`
}

// later are the steps after the registration. They are known where somebody signed in, or gave a
// token: a client stops at the first of the findings that can stop it.
var later = []struct {
	name     string
	open     func(*play) string
	findings []string
}{
	{"authorization", (*play).unasked, []string{
		"authorize-refused", "iss-absent", "sign-in-unfinished", "sign-in-refused", "sign-in-state", "sign-in-iss", "sign-in-iss-unadvertised",
	}},
	{"token", (*play).unredeemed, []string{"code-refused", "token-answer"}},
	{"first call", (*play).uncalled, []string{"token-refused", "token-forbidden", "token-no-answer"}},
	{"refresh", (*play).unrefreshed, []string{"refresh-refused", "refresh-without-resource", "renewed-token-refused"}},
}

// goOn plays the steps after the registration. What was open before them is open for them, too, but for
// the registration: that the doctor signed in is as good.
func (p *play) goOn(way *Way) {
	blocked := p.open != "" && p.open != unregistered
	if !blocked {
		way.Asks = p.asks()
	}
	for _, step := range later {
		why := p.open
		if !blocked {
			why = step.open(p)
		}
		id := ""
		if why == "" {
			id = p.halt(step.findings)
		}
		way.later = cmp.Or(way.later, why)
		way.Steps = append(way.Steps, Step{step.name, id == "" && why == "", why != ""})
		if id != "" {
			way.stop(p, step.name, id)
			return
		}
	}
}

// laterFindings are the findings at which a way can stop after the registration.
func laterFindings() (ids []string) {
	for _, step := range later {
		ids = append(ids, step.findings...)
	}
	return ids
}

// asks returns what the client asks for, with the scopes and the resource of this server.
func (p *play) asks() *Asks {
	a := &Asks{}
	scopes := strings.Fields(p.walk.scopes())
	if list, _ := p.metadata.list("scopes_supported"); p.offline && slices.Contains(list, "offline_access") {
		scopes, a.Prompt = append(scopes, "offline_access"), p.prompt
	}
	a.Scope = strings.Join(scopes, " ")
	if p.document != nil {
		a.Resource = p.document.text("resource")
	}
	return a
}

// halt returns the first finding that stops the client.
func (p *play) halt(ids []string) string {
	for _, c := range catalogue() {
		if !slices.Contains(ids, c.ID) || !slices.Contains(c.Clients, p.name) {
			continue
		}
		if found := c.look(p.walk); len(found) > 0 {
			p.at = found[0]
			return c.ID
		}
	}
	return ""
}

// unsigned is why nothing is known that needs a person.
func (p *play) unsigned() string {
	if why := p.walk.whyUntried(); why != "" {
		return "the sign-in was not tried: " + why
	}
	return "nobody signed in; --sign-in tries it"
}

func (p *play) unasked() string {
	s := p.walk.signIn
	if s != nil && (s.answer != nil || s.waited != "") || p.server != nil && p.server.call("try.valid").answered() {
		return ""
	}
	return p.unsigned()
}

func (p *play) unredeemed() string {
	if s := p.walk.signIn; s != nil && s.first != nil {
		return ""
	}
	return p.unsigned()
}

func (p *play) uncalled() string {
	if e := p.walk.call("token.session"); e != nil {
		return e.open()
	}
	return p.unsigned()
}

func (p *play) unrefreshed() string {
	s := p.walk.signIn
	switch {
	case s == nil || s.first == nil || !s.first.ok:
		return p.unsigned()
	case s.first.refresh == "":
		return "there is no refresh token"
	case s.renewed == nil:
		return "no refresh was tried"
	}
	return ""
}
