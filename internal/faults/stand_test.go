//go:build e2e

package faults

import (
	"errors"
	"fmt"
	"net/http"
)

// stand is what clients and people hold when faults begin: a client, a code, tokens of another
// family, and two filled-in pages.
type stand struct {
	*siege
	client, registration string
	visitor              *visitor
	code, family         *held
	signIn, decision     form
}

// form is a page that a person has filled in and may send any number of times.
type form struct {
	visitor *visitor
	request *http.Request
}

// stand gets everything from a process that serves.
func (s *siege) stand(at *member) *stand {
	s.t.Helper()
	registered := s.served(at, s.register)
	h := &stand{siege: s, client: registered.Client, registration: registrationToken(registered), visitor: s.newVisitor(personName)}
	consent := func(p *process) answer { return s.consent(p, h.visitor, h.client) }
	h.code = &held{client: h.client, code: s.served(at, consent).Code}
	h.family = &held{client: h.client, code: s.served(at, consent).Code}
	h.family.tokens = s.served(at, func(p *process) answer { return s.redeem(p, opRedeem, h.family) })
	h.signIn, h.decision = s.open(at, "/login", s.newVisitor(personName), h.client), s.open(at, "/consent", h.visitor, h.client)
	return h
}

// open goes as far as the form at a path.
func (s *siege) open(at *member, path string, v *visitor, client string) form {
	s.t.Helper()
	f := form{visitor: v}
	s.served(at, func(p *process) (a answer) {
		a, f.request = s.visit(p, v, client, func(r *http.Request) bool { return r.Method == http.MethodPost && r.URL.Path == path })
		return a
	})
	return f
}

// served makes a call that must succeed, again after 503 for as long as a recovery may take.
// After a 503 of a working server it may be refused.
func (s *siege) served(at *member, call func(*process) answer) (a answer) {
	s.t.Helper()
	doubt := false
	eventually(s.t, recoveryTime, func() error {
		a = call(at.process)
		switch o := a.outcome(); {
		case s.t.Failed():
			s.t.FailNow()
		case o == granted:
			return nil
		case o == refused && doubt:
			s.t.Logf("refused after 503: %s", a)
			return nil
		case o != unavailable:
			s.t.Fatalf("it should succeed: %s", a)
		}
		doubt = true
		return errors.New(a.String())
	})
	return a
}

// submit sends a form. If that is a decision, the answer has a code.
func (h *stand) submit(at *process, f form) answer {
	r := f.request.Clone(f.request.Context())
	r.Body, _ = f.request.GetBody()
	browser := *at.client
	browser.Jar = f.visitor.jar
	a, resp := at.send(pageOp(r), &browser, r)
	if h.heard(a); a.outcome() != granted {
		return a
	}
	if target, err := resp.Location(); err == nil {
		a.Code = target.Query().Get("code")
	}
	if a.Code == "" {
		return a
	}
	return h.note(a, promise{Op: opConsent, Client: h.client, Person: f.visitor.name, Code: a.Code})
}

// mustBeTurnedAway expects that a process without its store answers every request so, and that
// its health check succeeds.
func (h *stand) mustBeTurnedAway(at *member) {
	h.t.Helper()
	for _, call := range []func(at *process) answer{
		h.register,
		func(at *process) answer { return h.registered(at, h.client, h.registration) },
		func(at *process) answer { return h.consent(at, h.visitor, h.client) },
		func(at *process) answer { return h.consent(at, h.visitor, "nobody-knows-this-client") },
		func(at *process) answer { return h.submit(at, h.signIn) },
		func(at *process) answer { return h.submit(at, h.decision) },
		func(at *process) answer { return h.heard(h.party(h.client).redeem(at, h.code.code)) },
		func(at *process) answer { return h.refresh(at, h.family, h.family.tokens.Refresh) },
		func(at *process) answer { return h.heard(h.party(h.client).revoke(at, h.family.tokens.Refresh)) },
		func(at *process) answer { return h.introspect(at, h.family.tokens.Access) },
	} {
		if a := call(at.process); a.outcome() != unavailable {
			h.t.Errorf("the store is down: %s", a)
		}
	}
	if _, a := h.command("", "user", "ls"); a.outcome() == granted {
		h.t.Errorf("the store is down: %s", a)
	}
	h.mustProbe("http://"+at.address+"/healthz", http.StatusOK)
	h.mustProbe("http://"+at.address+"/jwks.json", http.StatusOK)
	h.mustProbe("http://"+at.address+"/.well-known/oauth-authorization-server", http.StatusOK)
	h.mustProbe("http://"+at.admin+"/livez", http.StatusOK)
	h.mustProbe("http://"+at.admin+"/readyz", http.StatusServiceUnavailable)
}

func (h *stand) mustProbe(url string, want int) {
	h.t.Helper()
	if got, err := probe(url); got != want {
		h.t.Errorf("%s answers %d, want %d: %v", url, got, want, err)
	}
}

// probe asks as a supervisor does, on a connection of its own.
func probe(url string) (status int, err error) {
	client := &http.Client{Timeout: answerBound}
	defer client.CloseIdleConnections()
	resp, err := client.Get(url)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// mustGoOn expects that a process is ready soon, and that then everything works as if nothing had
// happened: a request that was refused with 503 during the fault has had no effect.
func (h *stand) mustGoOn(at *member) {
	h.t.Helper()
	eventually(h.t, recoveryTime, func() error {
		if status, err := probe("http://" + at.admin + "/readyz"); status != http.StatusOK {
			return fmt.Errorf("/readyz: %d, %v", status, err)
		}
		return nil
	})
	h.served(at, func(p *process) answer { return h.registered(p, h.client, h.registration) })
	if a := h.served(at, func(p *process) answer { return h.introspect(p, h.family.tokens.Access) }); !a.Active {
		h.t.Errorf("it should be active: %s", a)
	}
	next := h.served(at, func(p *process) answer { return h.refresh(p, h.family, h.family.tokens.Refresh) })
	h.served(at, func(p *process) answer { return h.redeem(p, opRedeem, h.code) })
	h.served(at, func(p *process) answer { return h.submit(p, h.signIn) })
	if a := h.served(at, func(p *process) answer { return h.submit(p, h.decision) }); a.outcome() == granted && a.Code == "" {
		h.t.Errorf("a decision that was sent again: %s", a)
	}
	h.served(at, func(p *process) answer { return h.revoke(p, h.family, next.Refresh) })
}
