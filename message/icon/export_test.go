package icon

import (
	"context"
	"net/netip"
)

// HoldRedrawer takes the place in which pictures of the process are drawn, until leave is
// called.
func HoldRedrawer() (leave func()) {
	leave, err := process.turns.Enter(context.Background(), "", netip.Addr{})
	if err != nil {
		panic(err)
	}
	return leave
}

// Waiting is how many pictures wait to be drawn.
func Waiting() int { return process.turns.Waiting() }
