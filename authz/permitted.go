package authz

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"gatehouse.example/authz/internal/people"
	"gatehouse.example/storage"
	"gatehouse.example/templates"
)

// everybody reports whether a names nobody in particular.
func (a Allow) everybody() bool { return len(a.Groups) == 0 && len(a.People) == 0 }

// admits reports whether a person is among those that a names.
func (a Allow) admits(p people.Person) bool {
	return (len(a.Groups) == 0 || slices.ContainsFunc(a.Groups, p.In)) &&
		(len(a.People) == 0 || slices.Contains(a.People, p.Name))
}

// goodFor returns what a decision is good for now: what is configured, of what was consented, as
// far as its person may have it. Consent, redemption, refresh, introspection and the list of
// applications use it, so what a page offers is what tokens carry. The decision itself does not
// change: it is good for more again when the person gets a group back. Without a rule about
// people it is the same for every person, and h is not looked at.
func (s *resourceSet) goodFor(a storage.Access, h people.Holder) (storage.Access, error) {
	return s.goodOf(s.served(a), h)
}

// goodOf is goodFor for what is configured of a.
func (s *resourceSet) goodOf(served storage.Access, h people.Holder) (storage.Access, error) {
	switch {
	case !s.personal(served):
		return served, nil
	case !h.Known:
		return nil, fmt.Errorf("authz: the rules about who may use %s changed at this moment: %w", served, storage.ErrUnavailable)
	case h.Gone:
		return nil, nil
	}
	return s.permitted(served, h.Person), nil
}

// goodForUser is goodFor for a person whose record was read just now.
func (s *Server) goodForUser(ctx context.Context, set *resourceSet, user storage.User, a storage.Access) (storage.Access, error) {
	served := set.served(a)
	if !set.personal(served) {
		return served, nil
	}
	p, err := s.people.Of(ctx, user)
	if err != nil {
		return nil, err
	}
	return set.goodOf(served, people.Holder{Known: true, Gone: user.Disabled, Person: p})
}

// isPersonal reports whether a live grant is only good for something, or its tokens only say what
// they have to, once it is known who its person is now.
func (s *resourceSet) isPersonal(g storage.Grant) bool {
	return g.State != storage.GrantRevoked && s.personal(s.served(s.allowedBy(g)))
}

// personal reports whether it depends on the person what served access is good for, or what
// resources are told.
func (s *resourceSet) personal(served storage.Access) bool {
	return slices.ContainsFunc(served, func(p storage.Permission) bool {
		r, _ := s.find(p.Resource)
		return !r.Allow.everybody() || len(r.Claims) > 0 || slices.ContainsFunc(r.Scopes, func(scope Scope) bool {
			return !scope.Allow.everybody() && contains(p.Scopes, scope.Name)
		})
	})
}

// permitted returns the part of served access that a person may have. A resource of which no
// consented scope is left is left out: a token without scopes is good for other operations.
func (s *resourceSet) permitted(served storage.Access, p people.Person) storage.Access {
	var out storage.Access
	for _, at := range served {
		r, _ := s.find(at.Resource)
		if !r.Allow.admits(p) {
			continue
		}
		var scopes []string
		for _, scope := range r.Scopes {
			if contains(at.Scopes, scope.Name) && scope.Allow.admits(p) {
				scopes = append(scopes, scope.Name)
			}
		}
		if len(at.Scopes) == 0 || len(scopes) > 0 {
			out = append(out, storage.Permission{Resource: at.Resource, Scopes: scopes})
		}
	}
	return out
}

// offered returns what a person may allow of what a transaction asks for. The consent page shows
// this value, and the ticked part of it is granted. What is not open to the person is not on the
// page: the client asked for it and learns from its token what it got, and the person learns
// nothing of rules that are not theirs. It is empty if nothing is open to the person.
func (s *Server) offered(ctx context.Context, set *resourceSet, t storage.Transaction, user storage.User) (storage.Access, error) {
	asked := set.askedBy(t)
	if len(asked) == 0 {
		return nil, gone() // none of the requested resources is configured any more
	}
	return s.goodForUser(ctx, set, user, asked)
}

// rememberHolder lets the next request of a grant read its person with it, if it needs one.
func (s *Server) rememberHolder(set *resourceSet, g storage.Grant, user storage.User) {
	if set.isPersonal(g) {
		s.people.Remember(g.ID, user)
	}
}

// closedPage says that nothing of what the client asks for is open to the person. The client
// hears of it when the person acts: nobody is sent anywhere before.
func (s *Server) closedPage(w http.ResponseWriter, r *http.Request, set *resourceSet, t storage.Transaction, session liveSession, client storage.Client, to proven) error {
	asked := set.askedBy(t)
	s.logRefusal(r, http.StatusForbidden, codeAccessDenied, "nothing of what is asked for is open to the person",
		fmt.Errorf("user %s, sub %s, client %s, asked for %s", session.UserName, session.Subject, client.ID, asked))
	w.WriteHeader(http.StatusForbidden)
	return s.pagesFor(r, s.path("/consent")+"?transaction="+t.ID).Closed(w, templates.Closed{
		Action: s.urls.consent, Transaction: t.ID, CSRF: s.consentToken(r, t, session, shownOf(nil, false)),
		Client: s.shownClient(client), RedirectHost: to.uri.Host(), Resources: set.shown(t),
		UserName: session.UserName, Account: s.account(r, session), Code: codeAccessDenied,
	})
}

// lostAll returns the error for a token request of a grant that is good for nothing any more
// because of who may use what. Nothing was spent: the grant is good again when that changes.
func lostAll(a storage.Access) *apiError {
	return refuse(codeInvalidGrant, "the person who allowed this may not use it any more: %s; ask the person again", printable(strings.Join(a.Resources(), " ")))
}
