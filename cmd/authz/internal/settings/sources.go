package settings

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Rank orders the sources of settings: the higher rank wins.
type Rank int

// The ranks, the lowest first.
const (
	ByDefault Rank = iota
	ByFile
	ByEnvironment
	ByFlag
)

// Origin is the source of the value of a setting.
type Origin struct {
	Rank  Rank
	Where string // the place in words: --flag, AUTHZ_VARIABLE or file:line
}

// Sources are the sources of the values of flags.
type Sources struct {
	given map[string]bool // flags on the command line; kong has set them
	env   Environment
	// File is the file that the flag or variable config names, nil without one.
	File *Document
}

// FindSources returns the sources for the flags of a command line that was parsed along path.
// In the file only the keys known are allowed. The result is nil if the file cannot be read or
// is not YAML. For any other mistake in the file there are both sources and an error.
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

// Fill sets every flag that is not on the command line from the environment, else from the
// file. Then it reads secrets from the files that the flags with the suffix -file name. It
// returns the origin of each value by the name of the flag, and every mistake.
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

// set sets one flag and returns the origin of its value.
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

// assign sets a flag to the list if it takes several values, else to the text.
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

// readSecret sets flag to the content of the file that twin names, unless the secret itself
// comes from a source of higher rank. Both in one source are a mistake.
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
