package authz

import (
	"context"
	"time"

	"github.com/gorilla/mux"
)

// Paths returns the paths that the server answers at.
func (s *Server) Paths() (paths []string, err error) {
	router, err := s.routes()
	if err != nil {
		return nil, err
	}
	err = router.Walk(func(route *mux.Route, _ *mux.Router, _ []*mux.Route) error {
		path, err := route.GetPathTemplate()
		paths = append(paths, path)
		return err
	})
	return paths, err
}

// OnCompare has compare called in place of the comparison of a password with a hash, which
// it is given, while a place is held for it.
func (s *Server) OnCompare(compare func(hash, password string, matches func(hash, password string) bool) bool) {
	matches := s.passwords.matches
	s.passwords.matches = func(hash, password string) bool { return compare(hash, password, matches) }
}

// SignInsWaiting returns how many passwords wait to be compared.
func (s *Server) SignInsWaiting() int { return s.passwords.queue.Waiting() }

// Hashing returns how many passwords are compared at a time.
func Hashing() int { return hashing() }

// SignInsMost returns how many passwords may wait to be compared.
func SignInsMost() int { return maxWaiting }

// LookOut looks for the way to the public web, as Run does from time to time.
func (s *Server) LookOut(ctx context.Context) { s.egress.look(ctx) }

// NextLook is how long Run would wait before it looks again.
func (s *Server) NextLook() time.Duration { return s.egress.wait() }
