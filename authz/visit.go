package authz

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"gatehouse.example/storage"
)

// visit is what one round trip reads for a request of a browser: a transaction, a client, the session
// of the browser and, if this process has seen that session before, its person and what the person
// decided about the client. Each record is judged when it is asked for, and its error is its own, so
// errors have the order of the checks. What must hold after something was stored is read then:
// see [Server.recheck].
type visit struct {
	s        *Server
	t        storage.Transaction // zero where there is none
	clientID string              // "" for a page without a client

	client  func(context.Context) (storage.Client, error) // nil if its id was not known in time
	secret  string                                        // of the session, "" for none
	session func() (storage.Session, error)
	holder  holder // whose session it probably is; zero if this process has not seen it
	person  func() (storage.User, error)
	consent func() (storage.Consent, error) // nil if the client was not known in time
}

// look reads what a request of a browser needs that has no transaction.
func (s *Server) look(r *http.Request, clientID string) (*visit, error) {
	read := s.cfg.Store.Reading()
	v := s.askFor(r, read, clientID)
	return v, read.Read(r.Context())
}

// visit reads the transaction that a page or form names, and what such a page needs.
func (s *Server) visit(r *http.Request, id string) (*visit, error) {
	read := s.cfg.Store.Reading()
	kept, resume, err := s.askTransaction(r, read, id)
	if err != nil {
		return nil, err
	}
	v := s.askFor(r, read, kept.ClientID)
	if err := read.Read(r.Context()); err != nil {
		return nil, err
	}
	if v.t, err = resume(); err != nil {
		return nil, err
	}
	if v.clientID != v.t.ClientID { // the browser does not keep the transaction
		v.clientID, v.client, v.consent = v.t.ClientID, nil, nil
	}
	return v, nil
}

// askFor asks for the client, and for the session of the browser with what belongs to it.
func (s *Server) askFor(r *http.Request, read *storage.Reading, clientID string) *visit {
	v := &visit{s: s, clientID: clientID}
	if clientID != "" {
		v.client = s.clients.CurrentWith(read, clientID)
	}
	secret := s.cookies.get(r, sessionCookie)
	if !strings.HasPrefix(secret, sessionPrefix) {
		return v
	}
	v.secret, v.session = secret, read.Session(secret)
	if h, ok := s.holders.of(storage.SessionID(secret)); ok {
		v.holder, v.person = h, read.User(h.userName)
		if clientID != "" {
			v.consent = read.Consent(h.subject, clientID)
		}
	}
	return v
}

// askTransaction asks for the transaction with that id if it belongs to this browser. All other
// cases give the same error, which therefore reveals nothing.
func (s *Server) askTransaction(r *http.Request, read *storage.Reading, id string) (kept storage.Transaction, resume func() (storage.Transaction, error), err error) {
	if len(id) != 22 || strings.ContainsFunc(id, notBase64URL) {
		return kept, nil, gone()
	}
	kept, of := read.Transaction(id, s.cookies.get(r, browserCookie), s.keptTransaction(r, id))
	return kept, func() (storage.Transaction, error) {
		t, err := of()
		return t, goneOn(err, storage.ErrNotFound)
	}, nil
}

// transaction returns a transaction alone, for requests that need nothing else at first.
func (s *Server) transaction(r *http.Request, id string) (storage.Transaction, error) {
	read := s.cfg.Store.Reading()
	_, resume, err := s.askTransaction(r, read, id)
	if err == nil {
		err = read.Read(r.Context())
	}
	if err != nil {
		return storage.Transaction{}, err
	}
	return resume()
}

// session returns the session of this browser, for a page without a client.
func (s *Server) session(r *http.Request) (liveSession, error) {
	v, err := s.look(r, "")
	if err != nil {
		return liveSession{}, err
	}
	return v.live(r.Context())
}

// live returns the session of this browser. It is the zero value if there is no session, if it has
// expired, or if the person was disabled, removed, replaced or given another password since.
func (v *visit) live(ctx context.Context) (liveSession, error) {
	if v.secret == "" {
		return liveSession{}, nil
	}
	session, err := v.session()
	if errors.Is(err, storage.ErrNotFound) || err == nil && v.s.over(session) {
		return liveSession{}, nil
	}
	if err != nil {
		return liveSession{}, err
	}
	live := liveSession{Session: session, secret: v.secret}
	live.person, live.consent, err = v.holding(ctx, holder{session.UserName, session.Subject})
	if err != nil || !sessionValid(live.person, session) {
		return liveSession{}, err
	}
	sawPerson(ctx, session.Subject)
	v.s.sessionUsed(session)
	v.s.holders.put(session.ID(), holder{session.UserName, session.Subject})
	return live, nil
}

// holding returns the person of a session, and what the person decided about the client. Each is zero
// if there is none. It costs a round trip if they were not read with the session.
func (v *visit) holding(ctx context.Context, of holder) (user storage.User, consent storage.Consent, err error) {
	if v.holder != of || v.clientID != "" && v.consent == nil {
		read := v.s.cfg.Store.Reading()
		v.holder, v.person = of, read.User(of.userName)
		if v.clientID != "" {
			v.consent = read.Consent(of.subject, v.clientID)
		}
		if err := read.Read(ctx); err != nil {
			return user, consent, err
		}
	}
	if user, err = v.person(); err != nil && !errors.Is(err, storage.ErrNotFound) {
		return user, consent, err
	}
	if v.clientID != "" {
		consent, err = v.consent()
	}
	if errors.Is(err, storage.ErrNotFound) {
		err = nil
	}
	return user, consent, err
}

// requestingClient returns the client, as [Server.requestingClient] does.
func (v *visit) requestingClient(ctx context.Context) (storage.Client, error) {
	if v.client == nil {
		return v.s.requestingClient(ctx, v.clientID)
	}
	return v.s.requested(ctx, v.clientID, v.client)
}

// visitor reads what an authorization request needs, and returns its client.
func (s *Server) visitor(r *http.Request, id string) (v *visit, client storage.Client, err error) {
	if v = (&visit{s: s}); id != "" {
		if v, err = s.look(r, id); err != nil {
			return nil, storage.Client{}, err
		}
	}
	client, err = v.requestingClient(r.Context())
	return v, client, err
}

// requestingClient returns the client of an authorization request.
func (s *Server) requestingClient(ctx context.Context, id string) (storage.Client, error) {
	return s.requested(ctx, id, func(ctx context.Context) (storage.Client, error) { return s.clients.Current(ctx, id) })
}

// requestedAnew returns the client of a browser's request that its metadata contradicts: see
// [dcr.Clients.Renew]. A client in the store was read for the request.
func (s *Server) requestedAnew(ctx context.Context, client storage.Client) (storage.Client, error) {
	if client.Source != storage.ClientDocument {
		return client, nil
	}
	return s.requested(ctx, client.ID, func(ctx context.Context) (storage.Client, error) { return s.clients.Renew(ctx, client) })
}

// requested returns the client that find finds, unless it is disabled. The error for an unknown
// client is shown on a page: RFC 6749 section 4.1.2.1 forbids a redirect.
func (s *Server) requested(ctx context.Context, id string, find func(context.Context) (storage.Client, error)) (_ storage.Client, err error) {
	ctx, end := s.partIn(ctx, PartClient)
	defer func() { end(err) }()
	if id == "" {
		return storage.Client{}, malformed("the parameter client_id is missing")
	}
	client, err := find(ctx)
	if errors.Is(err, storage.ErrNotFound) || (err == nil && client.Disabled) {
		return storage.Client{}, unknownClient(err)
	}
	if err == nil {
		sawClient(ctx, client.ID)
	}
	return client, err
}
