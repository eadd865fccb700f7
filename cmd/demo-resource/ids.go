package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"gatehouse.example/message"
	"gatehouse.example/middleware"
)

// The limits of the memory for ids.
const (
	maxSessions = 1000
	maxIDs      = 4096 // of a session; consecutive integers count as one
)

var (
	errInexactID = errors.New("id: it must be a string or a whole number of at most 2^53")
	errSessions  = errors.New("there is no room for another session in this demo")
)

// sessions enforces the rules about request ids in front of the SDK.
//
// In the revisions with sessions, a requester must not use an id twice in a session
// (requirement R-MSG-3). From 2026-07-28 on, an id must only differ from those of the requests
// that still wait for their response. For these revisions, sessions enforces nothing over HTTP:
// each request has its response in the same exchange, and two clients of one person cannot be
// distinguished.
type sessions struct {
	log *slog.Logger

	mu  sync.Mutex
	ids map[session]*message.SessionIDs
}

// session identifies a session of one person. Requests of other people with the same session id
// do not affect it.
type session struct{ principal, id string }

// newSessions returns sessions that follow the sessions of a server.
func newSessions(server *mcp.Server, log *slog.Logger) *sessions {
	s := &sessions{log: slog.New(middleware.LogHandler(log.Handler())), ids: map[session]*message.SessionIDs{}}
	server.AddReceivingMiddleware(s.remember)
	return s
}

// check refuses a request whose id the response could not repeat exactly, or was used before. It
// runs behind the guard, so that a client can repeat a request that the guard refused with
// another token.
func (s *sessions) check(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, ok := requestIn(r)
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		err := exact(request.ID)
		if err == nil && !isStateless(r) {
			r, err = s.use(r, request.ID)
		}
		if err != nil {
			s.log.InfoContext(r.Context(), "request refused", "verb", r.Method, "method", request.Method, "reason", err)
			refuse(w, request, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// use records the id of a request. A request that may begin a session carries its record in the
// context, until the SDK assigns the id of the session. A session without a record is unknown to
// the SDK, too.
func (s *sessions) use(r *http.Request, id message.ID) (*http.Request, error) {
	token, ok := middleware.TokenFrom(r.Context())
	if !ok {
		return r, nil // sdkSession refuses it
	}
	if named := r.Header.Get("Mcp-Session-Id"); named != "" {
		if ids := s.find(session{token.Principal(), named}); ids != nil {
			return r, ids.Use(id)
		}
		return r, nil
	}
	if s.full() {
		return r, errSessions
	}
	begun := &beginning{principal: token.Principal(), ids: &message.SessionIDs{Max: maxIDs}}
	return r.WithContext(context.WithValue(r.Context(), beginningKey{}, begun)), begun.ids.Use(id)
}

// beginning is the record of a session that has no id yet, in the context of the request that
// begins it.
type beginning struct {
	principal string
	ids       *message.SessionIDs
}

type beginningKey struct{}

// remember keeps the ids of a session from its first answer until it ends.
func (s *sessions) remember(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, request)
		begun, ok := ctx.Value(beginningKey{}).(*beginning)
		made, ofServer := request.GetSession().(*mcp.ServerSession)
		if method == "initialize" && err == nil && ok && ofServer && made.ID() != "" {
			key := session{begun.principal, made.ID()}
			s.set(key, begun.ids)
			go func() {
				_ = made.Wait() // the reason of the end does not matter
				s.set(key, nil)
			}()
		}
		return result, err
	}
}

func (s *sessions) find(key session) *message.SessionIDs {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids[key]
}

// set stores the ids of a session, or deletes them if ids is nil.
func (s *sessions) set(key session, ids *message.SessionIDs) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ids == nil {
		delete(s.ids, key)
		return
	}
	s.ids[key] = ids
}

func (s *sessions) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ids) >= maxSessions
}

// requestIn reads the message in the body, which the guard has bounded and checked. It returns
// false for everything but requests, because other messages have no id that the client chooses.
func requestIn(r *http.Request) (message.Request, bool) {
	if r.Method != http.MethodPost || r.Body == nil {
		return message.Request{}, false
	}
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	if err != nil {
		return message.Request{}, false
	}
	m, err := message.Decode(body, message.Limits{MaxBytes: maxBody})
	request, ok := m.(message.Request)
	return request, err == nil && ok
}

// exact refuses numbers that the SDK would round: it keeps them as floating point.
func exact(id message.ID) error {
	const bound = 1 << 53
	if _, ok := id.Text(); ok {
		return nil
	}
	if n, ok := id.Int64(); !ok || n < -bound || n > bound {
		return errInexactID
	}
	return nil
}

// refusal returns the response to a request that breaks a rule about ids.
func refusal(request message.Request, err error) message.ErrorResponse {
	e := message.Error{Code: message.CodeInvalidRequest, Message: "Invalid Request: " + err.Error()}
	switch {
	case errors.Is(err, message.ErrIDReused):
		e.Message = "Invalid Request: the id was used before in this session"
	case errors.Is(err, message.ErrTooManyIDs):
		e.Message = "Invalid Request: too many ids in this session; begin another one"
	case errors.Is(err, errSessions):
		e = message.Error{Code: message.CodeInternalError, Message: "Internal error: " + err.Error()}
	}
	return request.Fail(e)
}

func refuse(w http.ResponseWriter, request message.Request, err error) {
	status := http.StatusBadRequest
	if errors.Is(err, errSessions) {
		status = http.StatusServiceUnavailable
		w.Header().Set("Retry-After", "60")
	}
	body, _ := message.Encode(refusal(request, err)) // cannot fail for the id of a request
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body) // fails only when the client is gone
}
