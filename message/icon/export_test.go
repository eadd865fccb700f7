package icon

import (
	"context"
	"net/netip"
)

// HoldRedrawer takes the only place for drawing in the process, until leave is called.
func HoldRedrawer() (leave func()) {
	leave, err := process.turns.Enter(context.Background(), "", netip.Addr{})
	if err != nil {
		panic(err)
	}
	return leave
}

// Waiting returns the number of pictures that wait to be drawn.
func Waiting() int { return process.turns.Waiting() }
