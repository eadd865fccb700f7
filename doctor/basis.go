package doctor

import (
	"fmt"
	"io"
	"strings"
)

// Basis is how well the way of a client is known.
type Basis string

// The bases.
const (
	// Runs: the program itself was run at servers with one fault each, and stopped where its way does.
	Runs Basis = "runs"
	// Reports: the program was not run. Its way follows documents of its maker, recordings, and
	// reports of others.
	Reports Basis = "reports"
)

// writeBases says below the table which ways were compared with the program, and when.
func writeBases(out io.Writer, ways []Way) {
	for _, b := range []struct {
		basis Basis
		text  string
	}{
		{Runs, "compared with the program itself"},
		{Reports, "from reports only, the program was not run"},
	} {
		var names []string
		for _, way := range ways {
			if way.Basis == b.basis {
				names = append(names, fmt.Sprintf("%s %s (%s)", way.Client, way.Version, way.Dated))
			}
		}
		if len(names) > 0 {
			fmt.Fprintf(out, "%s: %s: %s\n", b.basis, b.text, strings.Join(names, ", "))
		}
	}
}
