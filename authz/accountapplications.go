package authz

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"gatehouse.example/dcr"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
	"gatehouse.example/templates"
)

// showApplications handles GET /account/applications: what acts for the person, the newest first.
// A page is read in the same number of round trips however many grants there are, and grants of
// one client stand together on it.
func (s *Server) showApplications(w http.ResponseWriter, r *http.Request, session liveSession) error {
	before, err := cursor(r)
	if err != nil {
		return err
	}
	grants, err := s.cfg.Store.RecentGrants(r.Context(), session.Subject, before, listLength)
	if err != nil {
		return err
	}
	groups := byClient(grants.Items)
	kept, err := s.cfg.Store.ConsentsOf(r.Context(), session.Subject, clientIDs(groups))
	if err != nil {
		return err
	}
	p := templates.Applications{
		AccountPage: s.listPage(r, session, applicationsPath, "applications", before, grants.Next, grants.Unreadable),
		EndAll:      s.path(endAllPath), Remembered: s.path(rememberedPath), Minutes: s.minutes(),
	}
	set := s.resources.take(r.Context())
	for _, of := range groups {
		shown, err := s.application(r.Context(), set, session, of, kept[of[0].ClientID])
		if err != nil {
			return err
		}
		p.Applications = append(p.Applications, shown)
	}
	return s.pagesFor(r, here(r)).Applications(w, p)
}

// byClient returns the grants of each client together, in the order of the newest of each.
func byClient(grants []storage.Grant) [][]storage.Grant {
	var groups [][]storage.Grant
	place := map[string]int{}
	for _, g := range grants {
		i, there := place[g.ClientID]
		if !there {
			i = len(groups)
			place[g.ClientID] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], g)
	}
	return groups
}

func clientIDs(groups [][]storage.Grant) []string {
	ids := make([]string, len(groups))
	for i, of := range groups {
		ids[i] = of[0].ClientID
	}
	return ids
}

// application returns what the page shows of the grants of one client.
func (s *Server) application(ctx context.Context, set *resourceSet, session liveSession, grants []storage.Grant, kept storage.Consent) (templates.Application, error) {
	client, err := s.clientOf(ctx, grants[0])
	if err != nil {
		return templates.Application{}, err
	}
	a := templates.Application{ID: grants[0].ClientID, Client: client, Kept: s.kept(kept)}
	for _, g := range grants {
		held, err := s.held(ctx, set, session.person, g)
		if err != nil {
			return templates.Application{}, err
		}
		c := templates.Connection{ID: g.ID, Held: held, Since: g.Created, Used: g.Rotated, From: g.From}
		if to, err := metadata.ParseRedirect(g.RedirectURI); err == nil {
			c.Returns = to.Host()
		}
		a.Connections = append(a.Connections, c)
	}
	return a, nil
}

// kept returns the decisions that still hold, each place and end once.
func (s *Server) kept(c storage.Consent) []templates.Kept {
	var kept []templates.Kept
	for _, given := range c.Given {
		one := templates.Kept{Host: given.RedirectHost, Until: given.Until}
		if (one.Until.IsZero() || s.cfg.Now().Before(one.Until)) && !slices.Contains(kept, one) {
			kept = append(kept, one)
		}
	}
	return kept
}

// clientOf returns what a page shows of the client of a grant or of a remembered decision: the name
// that the person saw when deciding. Nothing is fetched: whoever publishes a document would learn that the person looks,
// and could hold up the page.
func (s *Server) clientOf(ctx context.Context, g storage.Grant) (templates.Client, error) {
	known := s.clients.Known(g.ClientID)
	shown := s.shownClient(known)
	before := g.ClientName == "" && g.From == "" // a record of the release before, or a client without a name
	if before && known.Source == storage.ClientRegistered {
		client, err := s.clients.Resolve(ctx, g.ClientID)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return templates.Client{}, err
		}
		shown.Name = client.Metadata.ClientName
	}
	if g.ClientName != "" {
		shown.Name = g.ClientName
	}
	return shown, nil
}

// held returns what a grant is good for, resource by resource: what holds now, and what was
// consented and does not.
func (s *Server) held(ctx context.Context, set *resourceSet, person storage.User, g storage.Grant) ([]templates.Held, error) {
	now, err := s.goodForUser(ctx, set, person, set.allowedBy(g))
	if err != nil {
		return nil, err
	}
	var held []templates.Held
	for _, p := range g.Allowed(set.defines) {
		resource, _ := set.find(p.Resource)
		h := templates.Held{Resource: templates.Resource{URI: p.Resource, Name: resource.Name}}
		good, ok := now.At(p.Resource)
		for _, c := range choicesOf(storage.Access{p}) {
			switch {
			case ok && (c.scope == "" || slices.Contains(good.Scopes, c.scope)):
				h.May = append(h.May, templates.May{Description: resource.describe(c.scope), Whole: resource.whole(c.scope), Name: c.scope})
			case c.scope != "":
				h.Lost = append(h.Lost, c.scope)
			}
		}
		held = append(held, h)
	}
	return held, nil
}

// showRemembered handles GET /account/remembered: the applications that need not ask again.
func (s *Server) showRemembered(w http.ResponseWriter, r *http.Request, session liveSession) error {
	before, err := cursor(r)
	if err != nil {
		return err
	}
	consents, err := s.cfg.Store.RecentConsents(r.Context(), session.Subject, before, listLength)
	if err != nil {
		return err
	}
	p := templates.Remembered{AccountPage: s.listPage(r, session, rememberedPath, "remembered", before, consents.Next, consents.Unreadable)}
	for _, c := range consents.Items {
		client, err := s.clientOf(r.Context(), storage.Grant{ClientID: c.ClientID, ClientName: c.ClientName})
		if err != nil {
			return err
		}
		p.Applications = append(p.Applications, templates.Application{ID: c.ClientID, Client: client, Kept: s.kept(c)})
	}
	return s.pagesFor(r, here(r)).Remembered(w, p)
}

// hostOfClient is for a log line or an event about a client without a name.
func hostOfClient(c storage.Client) string {
	if host := dcr.DocumentHost(c); host != "" {
		return host
	}
	if u, err := url.Parse(c.ID); err == nil && u.Host != "" {
		return u.Host
	}
	return c.ID
}
