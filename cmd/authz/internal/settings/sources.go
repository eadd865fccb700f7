package settings

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Rank orders the sources: the higher one wins.
type Rank int

// The sources, the weakest first.
const (
	ByDefault Rank = iota
	ByFile
	ByEnvironment
	ByFlag
)

// Origin is where the value of a setting comes from.
type Origin struct {
	Rank  Rank
	Where string // as people are told: --flag, AUTHZ_VARIABLE, file:line
}

// Sources is where the values of flags come from.
type Sources struct {
	given map[string]bool // flags on the command line; kong has set them
	env   Environment
	// File is the file that the flag or variable config names, nil without one.
	File *Document
}

// FindSources finds the sources for flags that were parsed along a path, and whose file may
// have the keys known. There are none if the file cannot be read or is not YAML; any other
// mistake in it comes with them.
func FindSources(path []*kong.Path, flags []*kong.Flag, env Environment, known []string) (*Sources, error) {
	s := &Sources{given: map[string]bool{}, env: env}
	for _, step := range path {
		if step.Flag != nil {
			s.given[step.Flag.Name] = true
		}
	}
	name := env[Variable("config")]
	for _, flag := range flags {
		if flag.Name == "config" && s.given["config"] {
			name = flag.Target.String()
		}
	}
	if name == "" {
		return s, nil
	}
	data, err := ReadAtMost(name, 1<<20)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	s.File, err = ReadDocument(name, data, known)
	if s.File == nil {
		return nil, err
	}
	return s, err
}

// Fill sets every flag that was not on the command line from the environment, else from
// the file, and then reads secrets from the files that name them. It returns where
// each value comes from, and every mistake.
func (s *Sources) Fill(flags []*kong.Flag) (map[string]Origin, error) {
	var errs []error
	origins := map[string]Origin{}
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
func (s *Sources) set(flag *kong.Flag) (Origin, error) {
	if s.given[flag.Name] {
		return Origin{ByFlag, "--" + flag.Name}, nil
	}
	if text, ok := s.env[Variable(flag.Name)]; ok {
		from := Origin{ByEnvironment, Variable(flag.Name)}
		return from, assign(flag, strings.Split(text, ","), text, from)
	}
	if s.File != nil {
		if value, ok := s.File.Values[flag.Name]; ok {
			from := Origin{ByFile, fmt.Sprintf("%s:%d", s.File.name, value.Line)}
			return from, s.File.assign(flag, value, from)
		}
	}
	return Origin{ByDefault, "default"}, nil
}

// assign gives a flag its value: the list if it takes several, else the text.
func assign(flag *kong.Flag, list []string, text string, from Origin) error {
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
		if from.Rank == ByFile {
			reason = flag.Name + ": " + reason
		}
		return fmt.Errorf("%s: %s", from.Where, reason)
	}
	return nil
}

// readSecret reads a secret from the file that its twin names, unless the secret itself
// comes from a stronger source. Both in one source contradict each other.
func readSecret(flag, twin *kong.Flag, origins map[string]Origin) error {
	own, from := origins[flag.Name], origins[twin.Name]
	switch {
	case from.Rank == ByDefault || from.Rank < own.Rank:
		return nil
	case from.Rank == own.Rank:
		return fmt.Errorf("%s and %s are both set (%s, %s): keep one", flag.Name, twin.Name, own.Where, from.Where)
	}
	name := twin.Target.String()
	text, err := SecretFrom(name)
	if err != nil {
		return fmt.Errorf("%s: %w", from.Where, err)
	}
	origins[flag.Name] = from
	return assign(flag, nil, text, Origin{from.Rank, from.Where + ": " + name})
}
