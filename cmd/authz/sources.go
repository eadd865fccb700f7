package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// environment is the process's environment, reduced to the variables of this program.
// A variable that is set to nothing is not set.
type environment map[string]string

// variables begin with this.
const prefix = "AUTHZ_"

func newEnvironment(environ []string) environment {
	env := environment{}
	for _, pair := range environ {
		if name, value, _ := strings.Cut(pair, "="); strings.HasPrefix(name, prefix) && value != "" {
			env[name] = value
		}
	}
	return env
}

// variable is the environment variable of a flag.
func variable(flag string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// strangers returns a sentence for each variable that looks like a setting and is
// none. They are no mistakes: other programs may use the prefix.
func (env environment) strangers(flags []string) []string {
	var variables, sentences []string
	for _, flag := range flags {
		variables = append(variables, variable(flag))
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
	return strings.HasPrefix(name, prefix+"SERVICE_") || name == prefix+"PORT" || strings.HasPrefix(name, prefix+"PORT_")
}

// rank orders the sources: the higher one wins.
type rank int

const (
	byDefault rank = iota
	byFile
	byEnvironment
	byFlag
)

// origin is where the value of a setting comes from.
type origin struct {
	rank  rank
	where string
}

// sources is where the values of flags come from.
type sources struct {
	given map[string]bool // flags on the command line; kong has set them
	env   environment
	file  *document // nil without one
}

// sourcesOf finds the sources for the flags of one verb, whose file may have the keys
// known. There are none if the file cannot be read or is not YAML; any other mistake in it
// comes with them.
func (p *program) sourcesOf(k *kong.Context, flags []*kong.Flag, known []string) (*sources, error) {
	s := &sources{given: map[string]bool{}, env: p.env}
	for _, step := range k.Path {
		if step.Flag != nil {
			s.given[step.Flag.Name] = true
		}
	}
	name := p.env[variable("config")]
	for _, flag := range flags {
		if flag.Name == "config" && s.given["config"] {
			name = flag.Target.String()
		}
	}
	if name == "" {
		return s, nil
	}
	data, err := readAtMost(name, 1<<20)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	s.file, err = readDocument(name, data, known)
	if s.file == nil {
		return nil, err
	}
	return s, err
}

// settingNames are the flags of serve that the file may set: all but config.
func settingNames(app *kong.Application) []string {
	return append([]string{"resources", "clients", "software-statements", "registry"}, fileKeys(serveFlags(app))...)
}

// fileKeys are the names of flags without that of the file.
func fileKeys(flags []*kong.Flag) []string {
	var names []string
	for _, flag := range flags {
		if flag.Name != "config" {
			names = append(names, flag.Name)
		}
	}
	return names
}

// serveFlags are the flags of serve, in the order of the struct settings.
func serveFlags(app *kong.Application) []*kong.Flag { return flagsOf(app, "serve") }

// flagsOf are the flags of a verb, in the order in which they are declared.
func flagsOf(app *kong.Application, verb string) []*kong.Flag {
	for _, node := range app.Children {
		if node.Name == verb {
			return node.Flags
		}
	}
	return nil
}

// fill sets every flag that was not on the command line from the environment, else from
// the file, and then reads secrets from the files that name them. It returns where
// each value comes from, and every mistake.
func (s *sources) fill(flags []*kong.Flag) (map[string]origin, error) {
	var errs []error
	origins := map[string]origin{}
	for _, flag := range flags {
		from, err := s.set(flag)
		if err != nil {
			errs = append(errs, err)
		}
		origins[flag.Name] = from
	}
	for _, twin := range flags {
		i := slices.IndexFunc(flags, func(f *kong.Flag) bool { return f.Name+"-file" == twin.Name })
		if i >= 0 {
			errs = append(errs, readSecret(flags[i], twin, origins))
		}
	}
	return origins, errors.Join(errs...)
}

// set sets one flag.
func (s *sources) set(flag *kong.Flag) (origin, error) {
	if s.given[flag.Name] {
		return origin{byFlag, "--" + flag.Name}, nil
	}
	if text, ok := s.env[variable(flag.Name)]; ok {
		from := origin{byEnvironment, variable(flag.Name)}
		return from, assign(flag, strings.Split(text, ","), text, from)
	}
	if s.file != nil {
		if value, ok := s.file.values[flag.Name]; ok {
			from := origin{byFile, fmt.Sprintf("%s:%d", s.file.name, value.line)}
			return from, s.file.assign(flag, value, from)
		}
	}
	return origin{byDefault, "default"}, nil
}

// assign gives a flag its value: the list if it takes several, else the text.
func assign(flag *kong.Flag, list []string, text string, from origin) error {
	if flag.IsSlice() {
		for i := range list {
			list[i] = strings.TrimSpace(list[i])
		}
		flag.Target.Set(reflect.ValueOf(list))
		return nil
	}
	err := flag.Parse(kong.ScanAsType(kong.FlagValueToken, text), flag.Target)
	if err != nil {
		reason := strings.TrimPrefix(err.Error(), "--"+flag.Name+": ")
		if from.rank == byFile {
			reason = flag.Name + ": " + reason
		}
		return fmt.Errorf("%s: %s", from.where, reason)
	}
	return nil
}

// readSecret reads a secret from the file that its twin names, unless the secret itself
// comes from a stronger source. Both in one source contradict each other.
func readSecret(flag, twin *kong.Flag, origins map[string]origin) error {
	own, from := origins[flag.Name], origins[twin.Name]
	switch {
	case from.rank == byDefault || from.rank < own.rank:
		return nil
	case from.rank == own.rank:
		return fmt.Errorf("%s and %s are both set (%s, %s): keep one", flag.Name, twin.Name, own.where, from.where)
	}
	name := twin.Target.String()
	text, err := secretFrom(name)
	if err != nil {
		return fmt.Errorf("%s: %w", from.where, err)
	}
	origins[flag.Name] = from
	return assign(flag, nil, text, origin{from.rank, from.where + ": " + name})
}

// secretFrom returns what a file holds, without the line ends behind it.
func secretFrom(name string) (string, error) {
	data, err := readAtMost(name, 1<<16)
	if err != nil {
		return "", err
	}
	text := strings.TrimRight(string(data), "\r\n")
	if text == "" {
		return "", fmt.Errorf("%s is empty", name)
	}
	return text, nil
}

// readAtMost reads a file that should be small.
func readAtMost(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, most)
	}
	return data, nil
}
