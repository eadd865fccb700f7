//go:build !linux

package redistest

import "net"

// owners works on Linux only. On other systems nothing is divided, and tests that divide fail.
type owners struct{}

func ownersOf([]int) *owners { return &owners{} }

func (*owners) have(_, _ net.Addr) bool { return false }
