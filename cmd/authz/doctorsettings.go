package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"gatehouse.example/cmd/authz/internal/settings"
)

// alternatives are the flags of which one is used. What comes from the environment gives way to what
// is on the command line.
var alternatives = [][]string{{"token", "token-file", "sign-in"}, {"json", "sarif", "junit"}}

// fill sets the flags that are not on the command line from the environment. The doctor reads no
// file: what is in that of a server is for the server.
func (v *doctorVerb) fill(p *program, k *kong.Context) error {
	from, err := p.sourcesWithoutFile(k)
	if err != nil {
		return err
	}
	origins := map[string]settings.Origin{}
	var mistakes []error
	for _, flag := range k.Selected().Flags { // one by one, as the doctor reads token-file itself
		origin, err := from.Fill([]*kong.Flag{flag})
		mistakes = append(mistakes, err)
		maps.Copy(origins, origin)
	}
	for _, names := range alternatives {
		mistakes = append(mistakes, v.choose(k.Selected().Flags, names, origins))
	}
	if v.URL != "" && origins["server"].Rank == settings.ByEnvironment {
		v.Server = ""
	}
	return errors.Join(mistakes...)
}

// choose clears those of several flags that another one beats. Two of one source are a mistake.
func (v *doctorVerb) choose(flags []*kong.Flag, names []string, origins map[string]settings.Origin) error {
	best := settings.ByDefault
	var set []*kong.Flag
	for _, flag := range flags {
		if slices.Contains(names, flag.Name) && !flag.Target.IsZero() {
			set = append(set, flag)
			best = max(best, origins[flag.Name].Rank)
		}
	}
	var kept []string
	for _, flag := range set {
		if origins[flag.Name].Rank < best {
			flag.Target.SetZero()
			continue
		}
		kept = append(kept, origins[flag.Name].Where)
	}
	if len(kept) > 1 {
		return fmt.Errorf("%s cannot be used together: keep one", strings.Join(kept, " and "))
	}
	return nil
}
