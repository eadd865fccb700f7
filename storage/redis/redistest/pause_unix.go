//go:build unix

package redistest

import "syscall"

// Pause stops the process with SIGSTOP: connections stay and are accepted by the kernel, but get
// no answer. Resume lets it go on.
func (s *Server) Pause() { s.t.Helper(); s.signal(syscall.SIGSTOP) }

// Resume lets a paused server go on.
func (s *Server) Resume() { s.t.Helper(); s.signal(syscall.SIGCONT) }
