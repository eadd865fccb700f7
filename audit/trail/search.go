package trail

import (
	"fmt"
	"slices"
	"time"

	"gatehouse.example/audit"
)

// Filter selects lines. Fields that are zero select all.
type Filter struct {
	Kinds        []audit.Kind
	Person       audit.Person
	Client       audit.Client
	Grant        audit.Grant
	Token        audit.Token
	Resource     audit.Resource
	Since, Until time.Time // Until is not included
}

// Matches reports whether a line is selected.
func (f Filter) Matches(l Line) bool {
	return (len(f.Kinds) == 0 || slices.Contains(f.Kinds, l.Kind)) &&
		same(f.Person, l.Person) && same(f.Client, l.Client) && same(f.Grant, l.Grant) && same(f.Token, l.Token) &&
		(f.Resource == "" || slices.Contains(l.Resources, f.Resource)) &&
		(f.Since.IsZero() || !l.Time.Before(f.Since)) && (f.Until.IsZero() || l.Time.Before(f.Until))
}

func same[T ~string](want, got T) bool { return want == "" || want == got }

// Found is a line and the file in which it is.
type Found struct {
	File string `json:"file"`
	Line
}

// Search calls found for the lines that are selected, file by file, until it returns an error.
func Search(f Filter, paths []string, found func(Found) error) error {
	for _, path := range paths {
		if err := each(path, func(l Line) error {
			if !f.Matches(l) {
				return nil
			}
			return found(Found{path, l})
		}); err != nil {
			return err
		}
	}
	return nil
}

func each(path string, do func(Line) error) error {
	in, err := openTrail(path)
	if err != nil {
		return fmt.Errorf("trail: %w", err)
	}
	defer in.Close()
	for l, err := range Lines(in) {
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if err := do(l); err != nil {
			return err
		}
	}
	return nil
}

// Trace returns what was done with a grant, from the files of any number of servers, by time. An
// operation that does not name its grant belongs to it by its access token, of which the
// authorization server wrote the id when it issued it.
func Trace(grant audit.Grant, paths []string) ([]Found, error) {
	tokens := map[audit.Token]bool{}
	err := Search(Filter{Grant: grant}, paths, func(l Found) error {
		if l.Token != "" {
			tokens[l.Token] = true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var out []Found
	err = Search(Filter{}, paths, func(l Found) error {
		if l.Grant == grant || l.Grant == "" && l.Token != "" && tokens[l.Token] {
			out = append(out, l)
		}
		return nil
	})
	slices.SortStableFunc(out, func(a, b Found) int { return a.Time.Compare(b.Time) })
	return out, err
}
