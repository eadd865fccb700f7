package doctor

import (
	"fmt"
	"io"
)

// Way tells how far a client comes with a server.
type Way struct {
	// Client is one of [Clients], Version the version whose way was recorded.
	Client  string `json:"client"`
	Version string `json:"version"`
	// Steps are those that it would take, in their order.
	Steps []Step `json:"steps"`
	// Stops is the step at which it would stop, "" if it comes to the sign-in.
	Stops string `json:"stops,omitempty"`
	// Sees is what its user would see there.
	Sees string `json:"sees,omitempty"`
	// Finding is the ID of the finding that is the reason.
	Finding string `json:"finding,omitempty"`
}

// Step is one step of a client.
type Step struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
}

// writeWays writes how far each client comes, as a table.
func writeWays(out io.Writer, ways []Way) {
	for _, way := range ways {
		fmt.Fprintf(out, "\n%-15s %s", way.Client, way.outcome())
	}
	if len(ways) > 0 {
		fmt.Fprintln(out)
	}
}

func (w Way) outcome() string {
	if w.Stops == "" {
		return "comes to the sign-in"
	}
	return fmt.Sprintf("stops at %s (%s): %s", w.Stops, w.Finding, w.Sees)
}
