package trail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Verifying configures [Verify].
type Verifying struct {
	// Keys are the keys that the chains may be under. With any, a chain without a key is a fault.
	Keys []Key
	// Heads has the heads of the chains; nil for none. Without them a cut-off end does not show, nor
	// that a whole trail is missing.
	Heads Heads
	// All makes a fault of each trail that has a head and is not among the files.
	All bool
}

// Fault is something wrong with a file.
type Fault struct {
	// File and Line are where it is; Line is 0 for the file as a whole.
	File string `json:"file"`
	Line int    `json:"line,omitempty"`
	// What is "changed", "missing", "reordered", "repeated", "cut-off", "unreadable", "unkeyed",
	// "unknown-key" or "other-chain".
	What string `json:"what"`
	// Said is a sentence.
	Said string `json:"said"`
}

// Verified is the result of [Verify].
type Verified struct {
	Chains []VerifiedChain `json:"chains"`
	Faults []Fault         `json:"faults"`
	// More is the number of faults beyond those that are listed.
	More int `json:"more,omitempty"`
	// NotGiven are the heads of trails of which no file was given.
	NotGiven []PlacedHead `json:"not_given,omitempty"`
}

// VerifiedChain is one chain in the files.
type VerifiedChain struct {
	Chain string   `json:"chain"`
	Files []string `json:"files"`
	Host  string   `json:"host"`
	Keyed bool     `json:"keyed"`
	// First and Last are the numbers of its first and last line in the files, Lines how many of
	// them are good.
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	Lines int    `json:"lines"`
	// End says how its end is known: "closed" by a last line, "head" by a head that is not before
	// the last line, or "unknown". Notes are sentences about what is no fault.
	End   string   `json:"end"`
	Notes []string `json:"notes,omitempty"`
}

// maxFaults bounds the faults that are listed.
const maxFaults = 1000

// Verify checks files, in any order; those whose names end with ".gz" are read uncompressed. Files of one chain are checked as one, in the order of their
// lines. The error is about a file that cannot be read; what is wrong with the content of files is
// in the result.
func Verify(ctx context.Context, o Verifying, paths ...string) (Verified, error) {
	v := &verifier{Verifying: o, ended: map[string]*chainState{}, given: map[string]bool{}, out: Verified{Chains: []VerifiedChain{}, Faults: []Fault{}}}
	files, err := inOrder(paths)
	if err != nil {
		return Verified{}, err
	}
	for i, f := range files {
		if i == 0 || files[i-1].chain != f.chain {
			if err := v.endChain(ctx); err != nil {
				return v.out, err
			}
		}
		if err := v.read(ctx, f); err != nil {
			return v.out, err
		}
	}
	if err := v.endChain(ctx); err != nil {
		return v.out, err
	}
	v.relate()
	return v.out, v.others(ctx)
}

// chainFile is a file with the place of its first line.
type chainFile struct {
	path, chain string
	seq         uint64
	began       time.Time
	about       *About
}

// inOrder returns the files by chain and by their first line.
func inOrder(paths []string) ([]chainFile, error) {
	var files []chainFile
	for _, path := range paths {
		l, err := first(path)
		if err != nil && !errors.Is(err, errForeign) {
			return nil, fmt.Errorf("trail: %w", err)
		}
		f := chainFile{path: path, seq: l.Seq, began: l.Time, about: l.About}
		if l.About != nil {
			f.chain = l.About.Chain
		}
		files = append(files, f)
	}
	slices.SortStableFunc(files, func(a, b chainFile) int {
		return cmp.Or(cmp.Compare(a.chain, b.chain), cmp.Compare(a.seq, b.seq), cmp.Compare(a.path, b.path))
	})
	return files, nil
}

// verifier checks one chain after another.
type verifier struct {
	Verifying
	out   Verified
	state *chainState // of the chain that is read, nil between two
	ended map[string]*chainState
	order []*chainState   // of ended
	given map[string]bool // the hosts and paths that the files name
}

func (v *verifier) fault(f Fault) {
	if len(v.out.Faults) >= maxFaults {
		v.out.More++
		return
	}
	v.out.Faults = append(v.out.Faults, f)
}

// read checks the lines of a file.
func (v *verifier) read(ctx context.Context, f chainFile) error {
	in, err := openTrail(f.path)
	if err != nil {
		return fmt.Errorf("trail: %w", err)
	}
	defer in.Close()
	if f.chain == "" {
		v.fault(Fault{File: f.path, Line: 1, What: "missing", Said: "the file does not begin with a line about its chain: its first lines are missing, or it is no audit trail"})
	}
	if v.state == nil {
		if v.state, err = v.newState(ctx, f); err != nil {
			return err
		}
	}
	s := v.state
	s.file, s.out.Files = f.path, append(s.out.Files, f.path)
	for l, err := range linesOf(in) {
		if err != nil {
			return fmt.Errorf("trail: %s: %w", f.path, err)
		}
		v.line(s, l)
	}
	v.noTorn(s)
	return ctx.Err()
}

// newState begins a chain with its first file.
func (v *verifier) newState(ctx context.Context, f chainFile) (*chainState, error) {
	s := &chainState{next: f.seq, began: f.began, out: VerifiedChain{Chain: f.chain, First: f.seq}}
	if f.about == nil || f.chain == "" {
		s.key = v.keyOf(f.path)
		return s, nil
	}
	s.out.Host, s.place = f.about.Host, f.about.File
	if f.about.Why == WhyContinued {
		s.note("its first %d lines are in earlier files, which were not given", f.seq-1)
	}
	if v.Heads == nil || f.about.File == "" {
		return s, nil
	}
	head, err := v.Heads.AuditHead(ctx, f.about.Host, f.about.File)
	if err != nil && !errors.Is(err, ErrNoHead) {
		return nil, fmt.Errorf("trail: %w", err)
	}
	s.head, s.hasHead = head, err == nil
	return s, nil
}

// keyOf returns the key of the first line of a file that does not name it, nil for none.
func (v *verifier) keyOf(path string) *Key {
	l, err := first(path)
	for i := range v.Keys {
		if err == nil && l.genuine(&v.Keys[i]) {
			return &v.Keys[i]
		}
	}
	return nil
}
