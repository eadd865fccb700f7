package doctor

import (
	"slices"
	"strings"
)

// A cause has followers: findings that only repeat it. holds tells whether it is one at a server.
type cause struct {
	id        string
	holds     func(*walk) bool
	followers []string // prefixes of IDs
}

// causes are faults that show at many questions.
var causes = []cause{
	// a proxy in front of everything
	{"sign-in-page", func(w *walk) bool { return w.resource() == nil }, []string{
		"open", "wrong-", "unsigned-", "unknown-", "stream-", "revisions-", "challenge-", "resource-", "metadata-", "server-metadata-", "cors-",
	}},
	{"resource-metadata-locked", func(w *walk) bool { return w.resource() == nil }, []string{"server-metadata-", "cors-"}},
	{"metadata-redirected-away", func(w *walk) bool { return w.resource() == nil }, []string{"server-metadata-", "resource-metadata-redirected"}},
	{"resource-metadata-missing", func(*walk) bool { return true }, []string{"server-metadata-missing", "server-metadata-locked"}},
}

// explain leaves out what only repeats another finding, and stops nobody.
func (r *Report) explain(w *walk) {
	for _, c := range causes {
		if !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.ID == c.id }) || !c.holds(w) {
			continue
		}
		r.Findings = slices.DeleteFunc(r.Findings, func(f Finding) bool {
			repeats := slices.ContainsFunc(c.followers, func(prefix string) bool { return strings.HasPrefix(f.ID, prefix) })
			return repeats && f.ID != c.id && (len(f.Clients) == 0 || !slices.Contains(played, f.ID))
		})
	}
}
