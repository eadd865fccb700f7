package authz

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"gatehouse.example/internal/fair"
	"gatehouse.example/storage"
	"gatehouse.example/templates"
	"gatehouse.example/templates/language"
)

// RememberAlways in [Config.ConsentRemember] is until the person takes it back.
const RememberAlways time.Duration = math.MaxInt64

// The reasons for which a request is answered without a page. They go to the log.
const (
	becauseRemembered  = "remembered"
	becausePreApproved = "pre-approved"
)

// unasked returns why a request of a sufficient session may be answered without a page, or "". This
// is the only place that decides it, at /authorize, after a sign-in, and again after the grant is
// stored. All of these must hold:
//
//   - the client asked for neither sign-in, account nor consent
//   - this person, by whose subject the consent was read, agreed for this very client before, on a
//     page that showed the account, with an answer to the same place, and the client states the same
//     about itself
//   - another program cannot easily take the place of the client (RFC 8252 section 8.6)
//   - the person remembered everything that is asked for; or the operator approved all of it, and
//     the person has refused the client nothing since
func (s *Server) unasked(set *resourceSet, l liveSession, t storage.Transaction, client storage.Client, to proven, offered storage.Access) string {
	place := destination(to)
	switch {
	case t.ForceLogin || t.ForceConsent:
		return ""
	case !s.recognised(client, to):
		return ""
	case slices.ContainsFunc(l.consent.Given, func(g storage.Remembered) bool {
		g.Access = set.lasting(g.Access, g.At)
		return g.Covers(s.cfg.Now(), place, t.ClientDigest, offered)
	}) && s.remembers():
		return becauseRemembered
	case l.consent.Shown(place, t.ClientDigest) && s.preApproved(client, offered):
		return becausePreApproved
	}
	return ""
}

// destination is where the answer goes, as far as a decision is bound to it: the host, with its
// port. A loopback address has another port each time (RFC 8252 section 7.3).
func destination(to proven) string {
	host := to.uri.Host()
	if name, _, err := net.SplitHostPort(host); err == nil && loopback(to) {
		return name
	}
	return host
}

// remembers reports whether decisions are remembered at all.
func (s *Server) remembers() bool { return len(s.cfg.ConsentRemember) > 0 }

// recognised reports whether a decision about a client may be used again. An answer to a loopback
// address or a private-use scheme can reach another program, which may use the same client_id: the
// person is asked each time unless the operator vouches for the client (RFC 8252 section 8.6, OAuth
// 2.1 section 7.3).
func (s *Server) recognised(client storage.Client, to proven) bool {
	return s.cfg.InsecureRememberUnvouched || s.clients.Vouched(client) || !loopback(to) && !privateUse(to)
}

// PreApproval is what a client may do without asking each person: see [Config.PreApproved].
type PreApproval struct {
	ClientID string
	Resource string
	Scopes   []string
}

// preApproved reports whether the operator approved everything that is asked for. That counts only
// for clients that the operator vouches for.
func (s *Server) preApproved(client storage.Client, offered storage.Access) bool {
	var approved storage.Access
	for _, p := range s.cfg.PreApproved {
		if p.ClientID == client.ID {
			approved = append(approved, storage.Permission{Resource: p.Resource, Scopes: p.Scopes})
		}
	}
	return len(offered) > 0 && s.clients.Vouched(client) && approved.Contains(offered)
}

// preApprovedMistakes returns what is wrong in a list of approvals, given the resources.
func preApprovedMistakes(list []PreApproval, resources []Resource) (errs []error) {
	seen := map[[2]string]bool{}
	for _, p := range list {
		i := slices.IndexFunc(resources, func(r Resource) bool { return r.URI == p.Resource })
		switch pair := [2]string{p.ClientID, p.Resource}; {
		case p.ClientID == "":
			errs = append(errs, errors.New("authz: pre-approved: an entry names no client"))
		case i < 0:
			errs = append(errs, fmt.Errorf("authz: pre-approved: client %s: there is no resource %q", p.ClientID, p.Resource))
		case seen[pair]:
			errs = append(errs, fmt.Errorf("authz: pre-approved: client %s has two entries for %s: write their scopes in one", p.ClientID, p.Resource))
		default:
			seen[pair] = true
			errs = append(errs, resources[i].approvalMistakes(p)...)
		}
	}
	return errs
}

func (r Resource) approvalMistakes(p PreApproval) (errs []error) {
	for _, scope := range p.Scopes {
		if !slices.ContainsFunc(r.Scopes, func(s Scope) bool { return s.Name == scope }) {
			errs = append(errs, fmt.Errorf("authz: pre-approved: client %s: %s has no scope %q", p.ClientID, r.URI, scope))
		}
	}
	if len(r.Scopes) > 0 && len(p.Scopes) == 0 {
		errs = append(errs, fmt.Errorf("authz: pre-approved: client %s: %s has scopes: name those that are approved", p.ClientID, r.URI))
	}
	return errs
}

// memories returns how long the person may have a decision remembered, for the consent page. There
// is no choice where the decision would not be used again.
func (s *Server) memories(t storage.Transaction, client storage.Client, to proven) []templates.Memory {
	if !s.recognised(client, to) {
		return nil
	}
	var offered []templates.Memory
	for _, d := range s.cfg.ConsentRemember {
		m := templates.Memory{Value: memoryValue(d), Always: d == RememberAlways, Hours: int(d / time.Hour)}
		if m.Hours%24 == 0 {
			m.Days = m.Hours / 24
		}
		offered = append(offered, m)
	}
	return offered
}

// rememberOnce is the value of the choice that is always there, and the default: not at all.
const rememberOnce = "once"

// memoryValue returns the value of the form for a choice.
func memoryValue(d time.Duration) string {
	switch {
	case d == RememberAlways:
		return "always"
	case d == 24*time.Hour:
		return "day"
	case d%(24*time.Hour) == 0:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
	return fmt.Sprintf("%dh", d/time.Hour)
}

// memoryMistakes returns what is wrong in the choices of a configuration.
func memoryMistakes(list []time.Duration) (errs []error) {
	for i, d := range list {
		switch {
		case d != RememberAlways && (d < time.Hour || d > 365*24*time.Hour || d%time.Hour != 0):
			errs = append(errs, fmt.Errorf("authz: consent-remember %s: it must be whole hours, 1h to 365d", d))
		case slices.Contains(list[:i], d):
			errs = append(errs, fmt.Errorf("authz: consent-remember %s is given twice", memoryValue(d)))
		}
	}
	return errs
}

// remembering reads the choice of a form: until when the decision is remembered, zero for always,
// and whether it is remembered at all. A choice that was not on the page is a problem.
func (s *Server) remembering(choice string, t storage.Transaction, client storage.Client, to proven) (until time.Time, remember bool, problem language.Text) {
	if choice == "" || choice == rememberOnce {
		return time.Time{}, false, language.Text{}
	}
	if s.memories(t, client, to) != nil {
		for _, d := range s.cfg.ConsentRemember {
			switch {
			case memoryValue(d) != choice:
			case d == RememberAlways:
				return time.Time{}, true, language.Text{}
			default:
				return s.cfg.Now().Add(d), true, language.Text{}
			}
		}
	}
	return time.Time{}, false, language.Say("consent.foreignMemory")
}

// unaskedLimit bounds how many requests of one person are answered without a page: pages of others
// can make a browser send requests. Beyond it the person is asked.
var unaskedLimit = fair.Limit{Burst: 100, Per: time.Hour}

// grantUnasked answers a request without a page if it may, and reports whether it did. The consent
// is read again after the grant is stored, because whoever takes it back forgets it first and
// revokes grants then: one of the two sees the other.
func (s *Server) grantUnasked(w http.ResponseWriter, r *http.Request, set *resourceSet, t storage.Transaction, session liveSession, client storage.Client, to proven) (bool, error) {
	if !session.satisfies(t) {
		return false, nil
	}
	offered, err := s.offered(r.Context(), set, t, session.person)
	if err != nil {
		return false, err
	}
	why := s.unasked(set, session, t, client, to, offered)
	if why == "" || s.unaskedRate.Take(1, fair.Bucket{Key: session.Subject, Limit: unaskedLimit}) > 0 {
		return false, nil
	}
	grant, code, err := s.issue(w, r, set, t, session, client, offered)
	if err != nil {
		return false, err
	}
	still := func(now liveSession) bool { return s.unasked(set, now, t, client, to, offered) != "" }
	if err := s.recheck(r.Context(), session, client, grant, still); err != nil {
		if errors.Is(err, errForgotten) && t.ID == "" {
			return false, nil // nothing but the grant was stored: the person is asked
		}
		if errors.Is(err, errForgotten) {
			return false, gone()
		}
		return false, err
	}
	s.granted(r.Context(), set, "consent "+why, session, client, grant)
	s.send(w, to, url.Values{"code": {code}})
	return true, nil
}

// errForgotten means that a consent was taken back while a request was answered without a page.
var errForgotten = errors.New("authz: the consent was taken back")

// remember stores a decision to be asked no more, after its grant was stored. Where that fails, the
// person is asked again, which harms nothing. It looks for the grant again, because whoever takes
// a consent back forgets it once more after the grants are revoked.
func (s *Server) remember(ctx context.Context, session liveSession, client storage.Client, given storage.Remembered, grant storage.Grant) {
	err := s.changeConsent(ctx, session.Subject, client.ID, func(c storage.Consent) (storage.Consent, bool) {
		c.ClientName = grant.ClientName
		return c.With(given), true
	})
	if err == nil {
		var now storage.Grant
		if now, err = s.cfg.Store.Grant(ctx, grant.ID); err != nil || now.State == storage.GrantRevoked {
			err = errors.Join(err, s.cfg.Store.DeleteConsent(ctx, session.Subject, client.ID))
		}
	}
	if err != nil {
		s.cfg.Logger.WarnContext(ctx, "a decision is not remembered", "sub", session.Subject, "client", client.ID, "error", err)
		return
	}
	s.chores.deferWork(func(ctx context.Context) error { return s.cfg.Store.TidyConsents(ctx, session.Subject, client.ID) })
}

// unremember forgets what the person did not allow this time, before anything is granted: what was
// unticked is never granted without a page.
func (s *Server) unremember(ctx context.Context, session liveSession, client storage.Client, refused storage.Access) error {
	if len(refused) == 0 || session.consent.ClientID == "" {
		return nil
	}
	return s.changeConsent(ctx, session.Subject, client.ID, func(c storage.Consent) (storage.Consent, bool) { return c.Without(refused) })
}

// consentAttempts bounds how often a consent is read again because it changes.
const consentAttempts = 8

// changeConsent swaps what a person decided about a client. The change says whether there is one.
func (s *Server) changeConsent(ctx context.Context, subject, clientID string, change func(storage.Consent) (storage.Consent, bool)) error {
	for range consentAttempts {
		c, err := s.cfg.Store.Consent(ctx, subject, clientID)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		c.Subject, c.ClientID = subject, clientID
		next, changed := change(c)
		if !changed {
			return nil
		}
		if err := s.cfg.Store.PutConsent(ctx, next); !errors.Is(err, storage.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("authz: consent: %w: it kept changing", storage.ErrUnavailable)
}
