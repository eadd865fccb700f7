// Package settings reads what a program was told: on the command line, in the environment
// and in a file, into flags that kong has parsed. A flag beats the environment, the environment
// beats the file, the file beats the default. It knows no command and no setting by name but
// config, which names the file.
//
// A [Document] is a YAML file whose every mistake is a sentence with its line; a key that is not
// known, or is there twice, is one. Values that may hold a secret ([Secret], [MasterKeys],
// [StoreURL], [ProxyURL]) do not show it, in whatever way they are printed, and [SecretRisks]
// says which of them others on this machine can read.
//
//	sources, err := settings.FindSources(parsed.Path, flags, settings.NewEnvironment(os.Environ()), settings.FileKeys(flags))
//	if sources == nil {
//		return err
//	}
//	origins, err := sources.Fill(flags)
package settings

import (
	"fmt"
	"slices"
	"strings"
)

// Environment is the process's environment, reduced to the variables of this program.
// A variable that is set to nothing is not set.
type Environment map[string]string

// Prefix begins the names of all variables.
const Prefix = "AUTHZ_"

// NewEnvironment returns the variables among pairs such as those of [os.Environ].
func NewEnvironment(environ []string) Environment {
	env := Environment{}
	for _, pair := range environ {
		if name, value, _ := strings.Cut(pair, "="); strings.HasPrefix(name, Prefix) && value != "" {
			env[name] = value
		}
	}
	return env
}

// Variable is the environment variable of a flag.
func Variable(flag string) string {
	return Prefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// Strangers returns a sentence for each variable that looks like a setting and is
// none. They are no mistakes: other programs may use the prefix.
func (env Environment) Strangers(flags []string) []string {
	var variables, sentences []string
	for _, flag := range flags {
		variables = append(variables, Variable(flag))
	}
	for name := range env {
		if !slices.Contains(variables, name) && !injected(name) {
			sentences = append(sentences, fmt.Sprintf("the environment variable %s is not a setting: the nearest one is %s", name, nearest(name, variables)))
		}
	}
	slices.Sort(sentences)
	return sentences
}

// injected reports whether a variable is one of those that Kubernetes sets in every
// container for a service with the name authz.
func injected(name string) bool {
	return strings.HasPrefix(name, Prefix+"SERVICE_") || name == Prefix+"PORT" || strings.HasPrefix(name, Prefix+"PORT_")
}

// nearest returns the name in known that takes the fewest single-character edits to
// reach from name; the first of several, and "" when nothing is known.
func nearest(name string, known []string) string {
	best, least := "", -1
	for _, candidate := range known {
		if d := distance(name, candidate); least < 0 || d < least {
			best, least = candidate, d
		}
	}
	return best
}

// distance is the Levenshtein distance in bytes, two rows at a time.
func distance(a, b string) int {
	previous := make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := range len(a) {
		current := make([]int, len(b)+1)
		current[0] = i + 1
		for j := range len(b) {
			substitute := previous[j]
			if a[i] != b[j] {
				substitute++
			}
			current[j+1] = min(substitute, previous[j+1]+1, current[j]+1)
		}
		previous = current
	}
	return previous[len(b)]
}
