// Package settings sets flags that kong has parsed from all sources of settings: the command
// line, the environment and a YAML file. A flag beats the environment, the environment beats the
// file, the file beats the default. The package depends on no command, and the only setting that
// it refers to by name is config, which names the file.
//
// A [Document] is a YAML file. It reports every mistake with its line; an unknown key and a key
// that is set twice are mistakes. Values that may contain a secret ([Secret], [MasterKeys],
// [StoreURL], [ProxyURL]) print without it, in every format and in logs. [SecretRisks] reports
// secrets that other users of this machine can read.
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

// Environment has the variables of this program in the environment of the process. An empty
// variable counts as not set.
type Environment map[string]string

// Prefix is the beginning of the name of every variable.
const Prefix = "AUTHZ_"

// NewEnvironment returns the variables of this program in environ, which has the form of
// [os.Environ].
func NewEnvironment(environ []string) Environment {
	env := Environment{}
	for _, pair := range environ {
		if name, value, _ := strings.Cut(pair, "="); strings.HasPrefix(name, Prefix) && value != "" {
			env[name] = value
		}
	}
	return env
}

// Variable returns the name of the environment variable of a flag.
func Variable(flag string) string {
	return Prefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// UnknownVariables returns a warning for each variable that is not the variable of one of the
// flags. Unknown variables are no mistakes, because other programs may use the same prefix.
func (env Environment) UnknownVariables(flags []string) []string {
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

// injected reports whether a variable is one that Kubernetes sets in every container for a
// service with the name authz.
func injected(name string) bool {
	return strings.HasPrefix(name, Prefix+"SERVICE_") || name == Prefix+"PORT" || strings.HasPrefix(name, Prefix+"PORT_")
}

// nearest returns the first name in known with the smallest edit distance to name, "" if known
// is empty.
func nearest(name string, known []string) string {
	best, least := "", -1
	for _, candidate := range known {
		if d := distance(name, candidate); least < 0 || d < least {
			best, least = candidate, d
		}
	}
	return best
}

// distance returns the Levenshtein distance in bytes. It keeps two rows of the matrix.
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
