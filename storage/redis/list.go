package redis

import (
	"slices"
	"sort"
)

// list is a set of strings in byte order. A page costs the same wherever it begins and
// however many entries there are. The zero list is empty.
type list struct {
	pieces [][]string // in order, none of them empty
	n      int
}

// pieceLen is how many entries a piece has at most. Adding an entry moves that many.
const pieceLen = 512

// find returns the position at which an entry is or would be.
func (l *list) find(entry string) (piece, at int, found bool) {
	piece = sort.Search(len(l.pieces), func(i int) bool { return l.pieces[i][0] > entry })
	if piece == 0 {
		return 0, 0, false
	}
	at, found = slices.BinarySearch(l.pieces[piece-1], entry)
	return piece - 1, at, found
}

func (l *list) add(entry string) {
	i, at, found := l.find(entry)
	switch {
	case found:
		return
	case l.n == 0:
		l.pieces = [][]string{{entry}}
	default:
		l.pieces[i] = slices.Insert(l.pieces[i], at, entry)
	}
	l.n++
	if p := l.pieces[i]; len(p) > pieceLen {
		half := len(p) / 2
		l.pieces = slices.Insert(l.pieces, i+1, slices.Clone(p[half:]))
		l.pieces[i] = slices.Delete(p, half, len(p))
	}
}

func (l *list) remove(entry string) {
	i, at, found := l.find(entry)
	if !found {
		return
	}
	l.n--
	l.pieces[i] = slices.Delete(l.pieces[i], at, at+1)
	if len(l.pieces[i]) == 0 {
		l.pieces = slices.Delete(l.pieces, i, i+1)
	}
}

// page returns up to limit entries greater than after.
func (l *list) page(after string, limit int) (page []string) {
	if l.n == 0 || limit <= 0 {
		return nil
	}
	i, at, found := l.find(after)
	if found {
		at++
	}
	for ; i < len(l.pieces) && len(page) < limit; i, at = i+1, 0 {
		rest := l.pieces[i][at:]
		page = append(page, rest[:min(len(rest), limit-len(page))]...)
	}
	return page
}

// pageBefore returns up to limit entries less than before, the greatest first; "" begins at the
// end.
func (l *list) pageBefore(before string, limit int) (page []string) {
	if l.n == 0 {
		return nil
	}
	i := len(l.pieces) - 1
	at := len(l.pieces[i])
	if before != "" {
		i, at, _ = l.find(before)
	}
	for len(page) < limit {
		if at > 0 {
			at--
			page = append(page, l.pieces[i][at])
			continue
		}
		if i == 0 {
			break
		}
		i--
		at = len(l.pieces[i])
	}
	return page
}

// upTo returns the entries up to and including last.
func (l *list) upTo(last string) (entries []string) {
	for _, piece := range l.pieces {
		for _, entry := range piece {
			if entry > last {
				return entries
			}
			entries = append(entries, entry)
		}
	}
	return entries
}
