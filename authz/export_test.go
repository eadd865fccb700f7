package authz

// OnCompare has before called whenever a password is about to be compared, while a place is
// held for it.
func (s *Server) OnCompare(before func()) {
	matches := s.passwords.matches
	s.passwords.matches = func(hash, password string) bool {
		before()
		return matches(hash, password)
	}
}

// SignInsWaiting returns how many passwords wait to be compared, and Hashing how many may be
// at a time.
func (s *Server) SignInsWaiting() int { return s.passwords.turns.Waiting() }

// Hashing returns how many passwords are compared at a time.
func Hashing() int { return hashing() }
