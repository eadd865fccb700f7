package storage

import (
	"context"
	"errors"
)

// Holder is who a grant belongs to, as far as that decides what it is good for now.
type Holder struct {
	// User is the record of the person; the zero User if there is none.
	User User
	// Groups has an entry for each group that was asked for: its id, or "" if there is no such
	// group.
	Groups map[string]string
}

// Holder reads what [Reading.Holder] asks for, in one round trip.
func (s *Store) Holder(ctx context.Context, userName string, groups []string) (Holder, error) {
	read := s.Reading()
	holder := read.Holder(userName, groups)
	if err := read.Read(ctx); err != nil {
		return Holder{}, err
	}
	return holder()
}

// together reads records of several kinds in one round trip. It must not be copied.
type together struct {
	store *Store
	wants []*want
	// room is for the first wants: as many as a page reads.
	room struct {
		wants    [5]want
		pointers [5]*want
	}
}

// want is one record that is read, and after that its version or its error, such as
// [ErrNotFound].
type want struct {
	kind, id string
	into     any
	version  Version
	err      error
}

func (t *together) add(kind, id string, into any) *want {
	if t.wants == nil {
		t.wants = t.room.pointers[:0]
	}
	var w *want
	if n := len(t.wants); n < len(t.room.wants) {
		w = &t.room.wants[n]
	} else {
		w = new(want)
	}
	*w = want{kind: kind, id: id, into: into}
	t.wants = append(t.wants, w)
	return w
}

// holder adds the records of a [Holder], and returns a function that makes it of what was read.
func (t *together) holder(userName string, groups []string) func() (Holder, error) {
	h := Holder{Groups: make(map[string]string, len(groups))}
	user, found := &want{err: ErrNotFound}, make([]Group, len(groups))
	if userName != "" {
		user = t.add(kindUser, userName, &h.User)
	}
	reads := make([]*want, len(groups))
	for i, name := range groups {
		reads[i] = t.add(kindGroup, name, &found[i])
	}
	return func() (Holder, error) {
		if user.err != nil && !errors.Is(user.err, ErrNotFound) {
			return Holder{}, user.err
		}
		h.User.version = user.version
		for i, read := range reads {
			if read.err != nil && !errors.Is(read.err, ErrNotFound) {
				return Holder{}, read.err
			}
			h.Groups[groups[i]] = found[i].ID
		}
		return h, nil
	}
}

// run reads all records. Its error is one of the whole read; each record has its own.
func (t *together) run(ctx context.Context) error {
	keys := make([]string, len(t.wants))
	for i, w := range t.wants {
		keys[i] = key(w.kind, w.id)
	}
	items, err := t.store.getMany(ctx, keys)
	if errors.Is(err, ErrRecord) {
		return t.oneByOne(ctx) // one of them is no item: only it has failed
	}
	if err != nil {
		return err
	}
	for i, w := range t.wants {
		w.version, w.err = t.store.readItem(ctx, w.kind, w.id, items[i], w.into)
	}
	return nil
}

func (t *together) oneByOne(ctx context.Context) error {
	for _, w := range t.wants {
		if w.version, w.err = t.store.read(ctx, w.kind, w.id, w.into); errors.Is(w.err, ErrUnavailable) {
			return w.err
		}
	}
	return nil
}

// readItem is read for an item that was fetched with others; the zero Item is not there.
func (s *Store) readItem(ctx context.Context, kind, id string, item Item, v any) (Version, error) {
	if item.Version == (Version{}) {
		return Version{}, ErrNotFound
	}
	if err := s.mayBePlain(ctx, kind, item); err != nil {
		return Version{}, err
	}
	return item.Version, s.decode(kind, id, item, v)
}
