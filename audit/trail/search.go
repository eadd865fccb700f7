package trail

import (
	"cmp"
	"errors"
	"fmt"
	"os"
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

// ErrUnread means that files have lines that cannot be read, so that events may be missing in what
// was found. [Verify] says what is wrong with the files.
var ErrUnread = errors.New("trail: events may be missing")

// Search calls found for the lines that are selected, file by file, until it returns an error. If
// lines of a file cannot be read, Search goes on, and its error in the end wraps [ErrUnread]; a line
// in the middle of which a process ended is none of them.
func Search(f Filter, paths []string, found func(Found) error) error {
	var unread error
	for _, path := range paths {
		err := each(path, func(l Line) error {
			if !f.Matches(l) {
				return nil
			}
			return found(Found{path, l})
		})
		if err != nil && !errors.Is(err, ErrUnread) {
			return err
		}
		unread = errors.Join(unread, err)
	}
	return unread
}

// each calls do for the lines of a file that can be read.
func each(path string, do func(Line) error) error {
	in, err := openTrail(path)
	if err != nil {
		return fmt.Errorf("trail: %w", err)
	}
	defer in.Close()
	var u unread
	for l, err := range linesOf(in) {
		if err != nil {
			return fmt.Errorf("trail: %s: %w", path, err)
		}
		if u.count(l); l.err != nil {
			continue
		}
		if err := do(l.Line); err != nil {
			return err
		}
	}
	return u.result(path)
}

// unread counts the lines of a file that cannot be read.
type unread struct {
	lines, first, good int
	last               placed // the line before
}

func (u *unread) count(l placed) {
	if explained := l.err == nil && l.About != nil && l.About.Torn == u.last.size; u.last.err != nil && !explained {
		u.add()
	}
	if l.err == nil {
		u.good++
	}
	u.last = l
}

func (u *unread) add() {
	u.lines++
	u.first = cmp.Or(u.first, u.last.number)
}

// result returns an error if lines of the file could not be read, and that is not because a process
// ended, or is writing.
func (u unread) result(path string) error {
	if u.last.err != nil && !u.last.begun {
		u.add()
	}
	switch {
	case u.lines == 0:
		return nil
	case u.good == 0:
		return fmt.Errorf("%w: %s has no line of an audit trail: name another file", ErrUnread, path)
	}
	return fmt.Errorf("%w: %s has unreadable lines (how many: %d, the first from line %d on): verify the file", ErrUnread, path, u.lines, u.first)
}

// Trace returns what was done with a grant, from the files of any number of servers, by time. An
// operation that does not name its grant belongs to it by its access token, of which the
// authorization server wrote the id when it issued it. With an error that wraps [ErrUnread] it
// returns what was found all the same. The files are read twice, so they cannot be pipes.
func Trace(grant audit.Grant, paths []string) ([]Found, error) {
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
			return nil, fmt.Errorf("trail: %s is a pipe, and the files are read twice: keep its content in a file first", path)
		}
	}
	tokens := map[audit.Token]bool{}
	err := Search(Filter{Grant: grant}, paths, func(l Found) error {
		if l.Token != "" {
			tokens[l.Token] = true
		}
		return nil
	})
	if err != nil && !errors.Is(err, ErrUnread) {
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
