package middleware

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"gatehouse.example/internal/arrival"
	"gatehouse.example/internal/requestid"
	"gatehouse.example/internal/wildcard"
	"gatehouse.example/message"
	"gatehouse.example/metadata"
)

// Protect returns a handler that calls next for requests whose token is valid and covers the
// operation, and answers all others itself: preflights with 204, and refusals with a challenge.
// If the policy has no names, it looks at the request line and the headers only and does not
// read the body; otherwise next gets the same bytes, except for the cursor of a list.
//
// The request that next receives has no Authorization header; [TokenFrom] returns the verified
// token. Reading its body returns [os.ErrDeadlineExceeded] when the body takes longer than
// [Config.BodyTime].
func (g *Guard) Protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := g.begins()
		r = requestid.Begin(w, r)
		if g.bodyTime > 0 {
			r, _ = arrival.Bound(w, r, g.bodyTime)
		}
		if err := g.admitOrigin(r); err != nil {
			g.refuse(w, r, Event{Reason: ReasonForeignPage, began: began}, err)
			return
		}
		setCORS(w.Header())
		if r.Method == http.MethodOptions {
			preflight(w, r, g.policy.routes != nil)
			return
		}
		g.dpop.offer(w.Header())
		token, err := g.authenticate(w, r)
		if err != nil {
			g.refuse(w, r, Event{began: began}, err)
			return
		}
		proof := &pass{guard: g, token: token}
		g.pass(w, admitted(r, proof), proof, Event{Token: token, began: began}, next)
	})
}

// pass applies the policy to a request with a good token, or without credentials, and calls
// next if it is allowed.
func (g *Guard) pass(w http.ResponseWriter, r *http.Request, proof *pass, event Event, next http.Handler) {
	token := proof.token
	if g.policy.routes != nil {
		g.passRoute(w, r, event, next)
		return
	}
	_, end := g.parts.begin(r, PartPolicy)
	dropOtherTargets(r.Header)
	got, err := g.read(w, r)
	proof.id = got.id
	if event.Operation = got.Operation; err == nil {
		event.Needed, err = g.judge(got, token)
	}
	if err == nil {
		err = g.openHandles(w, r, &got, token)
	}
	ended(end, err)
	if err != nil {
		g.refuse(w, r, event, answering(got.id, err))
		return
	}
	g.observe(r, event)
	ctx, stop := g.life(r.Context(), token)
	defer stop()
	r = r.WithContext(ctx)
	out := g.answer(w, r, got, token, stop)
	next.ServeHTTP(out.writer(), r)
	out.finish()
}

// openHandles replaces the session id, the event id and the cursor of a request by those that
// the handler issued. It refuses those that were issued to another caller (MCP Security Best
// Practices, State Handle Hijacking).
func (g *Guard) openHandles(w http.ResponseWriter, r *http.Request, got *received, token *Token) error {
	if err := g.refuseQuery(w, r, *got); err != nil {
		return err
	}
	if err := g.openSession(r, token); err != nil {
		return err
	}
	if err := g.openEvent(r, token); err != nil {
		return err
	}
	return g.openCursor(r, got, token)
}

// answering adds an error response to the refusal of a message with an id, by which clients
// recognise the failed request (JSON-RPC 2.0, section 5).
func answering(id message.ID, err error) error {
	var refusal challenge
	if id.IsZero() || !errors.As(err, &refusal) || refusal.body != nil {
		return err
	}
	failure := message.Error{Code: message.CodeInvalidRequest, Message: refusal.description}
	failure.Data, _ = json.Marshal(problem{Error: refusal.code, Description: refusal.description})
	refusal.body, _ = message.Encode(message.ErrorResponse{ID: id, Error: failure})
	return refusal
}

// read returns the message of a request, or the zero value if the policy does not need it.
func (g *Guard) read(w http.ResponseWriter, r *http.Request) (received, error) {
	if !g.policy.reads {
		return received{}, nil
	}
	return g.receive(w, r)
}

// judge returns the scopes that a message needs, and a refusal if the token lacks some of them. Many
// handlers ignore a message unless it comes with POST, and open a stream or end a session: then that
// is needed as well.
func (g *Guard) judge(got received, token *Token) ([]string, error) {
	needed, known := g.policy.needs(new(wildcard.Work), got.operation)
	if !known {
		return nil, unknown(got.id)
	}
	if got.quiet {
		more, _ := g.policy.needs(new(wildcard.Work), operation{})
		needed = union(needed, more)
	}
	return needed, g.covered(needed, token)
}

// covered returns a refusal if the token lacks some scopes, or if there is none for them.
func (g *Guard) covered(needed []string, token *Token) error {
	switch {
	case len(needed) > 0 && token == nil:
		refusal := g.start
		refusal.scopes = g.askable(needed)
		return refusal
	case len(token.missing(needed)) > 0:
		return g.uncovered(token, needed)
	}
	return nil
}

// unknown returns the refusal for a name that is not in the policy. It has an error response:
// some clients take a response without a message for the end of the connection.
func unknown(id message.ID) challenge {
	refusal := forbidden("The policy of this server does not allow this to anybody.")
	if !id.IsZero() {
		refusal.body, _ = message.Encode(message.ErrorResponse{ID: id, Error: message.Error{Code: message.CodeInvalidParams, Message: refusal.description}})
	}
	return refusal
}

// RequireScope returns a middleware for handlers behind [Guard.Protect]. It answers 403 when
// the token lacks one of the scopes, with a challenge that names all of them, so that a client
// learns in one step which scopes the operation needs (RFC 6750 section 3.1), and 401 when
// there is no token, or when the request did not pass Protect of the same guard.
//
// RequireScope panics when a scope is not a scope token (RFC 6749 section 3.3).
func (g *Guard) RequireScope(scopes ...string) func(http.Handler) http.Handler {
	for _, scope := range scopes {
		if !metadata.ValidScope(scope) {
			panic(fmt.Sprintf("middleware: %q is not a scope", scope))
		}
	}
	needed := union(g.policy.scopes, slices.Clone(scopes)) // a complete challenge names the scopes of every request, too
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch p, ok := r.Context().Value(passKey{}).(*pass); {
			case !ok || p.guard != g || p.token == nil:
				refusal := g.start
				if len(needed) > 0 {
					refusal.scopes = g.askable(needed)
				}
				g.refuse(w, r, Event{Needed: needed}, refusal)
			case !p.token.HasScope(needed...):
				g.refuse(w, r, Event{Needed: needed, Token: p.token}, g.uncovered(p.token, needed))
			default:
				next.ServeHTTP(w, r)
			}
		})
	}
}

// admitted returns the request for the protected handler: with the pass in its context, without
// the token (requirement R-TOK-6: a server MUST NOT pass it on), and without other spellings of
// the headers that the guard checks.
func admitted(r *http.Request, p *pass) *http.Request {
	out := r.WithContext(context.WithValue(r.Context(), passKey{}, p))
	out.Header = maps.Clone(r.Header)
	delete(out.Header, "Authorization")
	delete(out.Header, proofHeader)
	p.guard.certificates.strip(out.Header)
	dropOtherSpellings(out.Header)
	return out
}

// authenticate returns the token of a request whose sender may use it. It may read the body, and
// then puts the same bytes back.
func (g *Guard) authenticate(w http.ResponseWriter, r *http.Request) (*Token, error) {
	raw, err := bearer(r, g.dpop != nil)
	if err != nil {
		return nil, err
	}
	if raw == "" && g.optional && len(r.Header["Authorization"]) == 0 && !inQuery(r.URL.RawQuery) {
		return nil, nil // no credentials of any kind
	}
	if raw == "" {
		return nil, g.start
	}
	part, end := g.parts.begin(r, PartToken)
	token, err := g.verifyAny(part.Context(), part, raw)
	ended(end, err)
	if err == nil {
		err = g.proves(w, r, raw, token)
	}
	if err != nil {
		return nil, err
	}
	return token, nil
}

// bearer returns the token of the Authorization header, or the empty string if there is no
// bearer token. The scheme DPoP counts as well if proofs are accepted. The error is for malformed
// requests.
func bearer(r *http.Request, proofs bool) (string, error) {
	values := r.Header["Authorization"]
	if len(values) == 0 {
		return "", nil // a token in the query alone is an unsupported method: no credentials (RFC 6750 section 3.1)
	}
	if len(values) > 1 {
		return "", malformed("Send one Authorization header.")
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") && !(proofs && strings.EqualFold(scheme, dpopScheme)) {
		return "", nil
	}
	token = strings.TrimLeft(token, " ")
	switch {
	case !isB64Token(token):
		return "", malformed("The Authorization header does not hold one access token.")
	case inQuery(r.URL.RawQuery):
		// RFC 6750 section 2: clients MUST NOT use more than one method to transmit the token.
		return "", malformed("Send the access token in the Authorization header only.")
	}
	return token, nil
}

// inQuery reports whether a query has the parameter access_token, however it is escaped.
func inQuery(query string) bool {
	for part := range strings.FieldsFuncSeq(query, func(c rune) bool { return c == '&' || c == ';' }) {
		name, _, _ := strings.Cut(part, "=")
		if unescape(name) == "access_token" {
			return true
		}
	}
	return false
}

// isB64Token follows b64token of RFC 6750 section 2.1.
func isB64Token(s string) bool {
	body := strings.TrimRight(s, "=")
	for i := range len(body) {
		if c := body[i]; !base64URL(c) && c != '.' && c != '~' && c != '+' && c != '/' {
			return false
		}
	}
	return body != ""
}

// refuse answers a request with a refusal. An err that is not a challenge becomes 503, with the
// details in the log only.
func (g *Guard) refuse(w http.ResponseWriter, r *http.Request, event Event, err error) {
	var c challenge
	if !errors.As(err, &c) {
		c = unavailable(err)
	}
	if c.code == "invalid_token" && c.scopes == nil {
		// RFC 6750 section 3: a client that needs a new token learns the scopes in one step, as
		// without a token.
		c.scopes = g.start.scopes
	}
	c.proved = usedDPoP(r, event.Token)
	event.Status, event.Code, event.Err = c.status, c.code, err
	if event.Reason == "" {
		event.Reason = c.reason()
	}
	g.observe(r, event)
	c.write(w, g.metaURL, g.dpop)
}
