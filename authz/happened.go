package authz

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"gatehouse.example/audit"
	"gatehouse.example/authz/internal/engine"
	"gatehouse.example/internal/fair"
	"gatehouse.example/internal/requestid"
	"gatehouse.example/storage"
)

// fact is one thing that happened. The audit trail, the metrics and the page on which people see
// what happened to them are computed from it. Fields that do not apply are empty.
type fact struct {
	kind audit.Kind
	by   audit.Actor // if it is not the usual one of the kind

	person, client, grant, token, key string
	resources, scopes                 []string
	// provider is the identity provider at which, or by which, it happened.
	provider string
	// how is a constant that says how it happened; empty means shown.
	how, code string

	// shown is the word of the event on the page of the person, [storage.Event.What], and empty for
	// what people do not see there. about is [storage.Event.About].
	shown, about string
}

// actors are who causes the kinds of events that no person causes.
var actors = map[audit.Kind]audit.Actor{
	audit.ClientRegistered: audit.ByClient, audit.ClientChanged: audit.ByClient, audit.ClientRemoved: audit.ByClient,
	audit.TokenIssued: audit.ByClient, audit.TokenRefreshed: audit.ByClient, audit.RefreshRepeated: audit.ByClient,
	audit.RefreshRecovered: audit.ByClient, audit.RefreshReused: audit.ByClient, audit.CodeReused: audit.ByClient,
	audit.ResourceEnded: audit.ByClient, audit.Refused: audit.ByClient, audit.KeyChanged: audit.ByServer,
	audit.Started: audit.ByServer, audit.Stopped: audit.ByServer,
}

// observed are the kinds that metrics count too.
var observed = map[audit.Kind]Observation{
	audit.TokenIssued:      {What: TokensIssued, Grant: GrantCode},
	audit.TokenRefreshed:   {What: TokensIssued, Grant: GrantRefresh},
	audit.RefreshRepeated:  {What: RefreshRepeated, Grant: GrantRefresh},
	audit.RefreshRecovered: {What: RefreshRecovered, Grant: GrantRefresh},
	audit.RefreshReused:    {What: RefreshReused, Grant: GrantRefresh},
	audit.CodeReused:       {What: CodeReused, Grant: GrantCode},
	audit.SignedIn:         {What: SignedIn},
	audit.SignInRefused:    {What: SignInRefused},
	audit.Refused:          {What: Refused},
}

// happened records a fact everywhere.
func (s *Server) happened(ctx context.Context, f fact) {
	s.count(ctx, f)
	now := s.cfg.Now()
	if f.shown != "" {
		s.show(ctx, f, now)
	}
	if f.kind == audit.SignInRefused && f.person != "" {
		s.noteRefused(ctx, f.person)
	}
	if s.cfg.Audit == nil {
		return
	}
	e := audit.Event{
		Time: now, Kind: f.kind, By: cmp.Or(f.by, actors[f.kind], audit.ByPerson), Request: audit.RequestID(requestid.From(ctx).Own),
		Person: audit.Person(f.person), Client: audit.Client(f.client), Grant: audit.Grant(f.grant), Token: audit.Token(f.token),
		Resources: audit.Resources(f.resources...), Scopes: audit.Scopes(f.scopes...), Key: audit.Key(f.key), Provider: audit.Provider(f.provider),
		How: audit.How(cmp.Or(f.how, f.shown)), Code: audit.Code(f.code),
	}
	if f.by != audit.ByProvider {
		e.Network = audit.NetworkOf(fair.Requester(ctx))
	}
	s.cfg.Audit(e)
}

// count reports the observation of a fact, if metrics count it.
func (s *Server) count(ctx context.Context, f fact) {
	o, counted := observed[f.kind]
	if !counted {
		return
	}
	switch o.What {
	case SignedIn, SignInRefused:
		o.Method = SignInMethod(f.how)
	case Refused:
		o.Code = f.code
		if seen := sightingOf(ctx); seen != nil {
			o.Grant = seen.grant
		}
	}
	s.see(o)
}

// show keeps a fact for the page of its person. What a provider caused is from no network of the
// person.
func (s *Server) show(ctx context.Context, f fact, now time.Time) {
	e := storage.Event{What: f.shown, About: f.about, At: now}
	if f.by != audit.ByProvider {
		e.From = shownNetwork(ctx)
	}
	s.activity.change(f.person, func(a *storage.Activity) { a.Add(e) })
}

// ofGrant returns a fact about a grant.
func ofGrant(kind audit.Kind, g storage.Grant) fact {
	return fact{kind: kind, person: g.Subject, client: g.ClientID, grant: g.ID}
}

// issued records an answer with tokens.
func (s *Server) issued(r *http.Request, kind audit.Kind, x engine.Exchange, tokens engine.Tokens) {
	f := ofGrant(kind, x.Grant)
	f.token, f.resources, f.scopes = tokens.AccessID, x.Audience, x.Scopes
	s.happened(r.Context(), f)
}

// clientRegistered records a registration; the two others its change and its end.
func (s *Server) clientRegistered(ctx context.Context, c storage.Client) {
	s.happened(ctx, fact{kind: audit.ClientRegistered, client: c.ID, how: string(s.cfg.Registration)})
}

func (s *Server) clientChanged(ctx context.Context, c storage.Client) {
	s.happened(ctx, fact{kind: audit.ClientChanged, client: c.ID})
}

func (s *Server) clientRemoved(ctx context.Context, c storage.Client) {
	f := fact{kind: audit.ClientRemoved, client: c.ID}
	if !fair.Requester(ctx).IsValid() {
		f.by, f.how = audit.ByServer, "idle"
	}
	s.happened(ctx, f)
}

// keyChanged records the new state of a signing key.
func (s *Server) keyChanged(kid, state string) {
	s.happened(context.Background(), fact{kind: audit.KeyChanged, key: kid, how: state})
}
