// Package people says who a person is now: the groups of which they are a member, and what
// resources may be told about them. Decisions about what a person may use rest on it.
//
// A membership in a group of this server counts while the group of that name is the one that
// the person joined. The groups that a provider named count under the id of the provider, as
// PROVIDER/GROUP, while the provider is configured. So no provider can speak for a group of this
// server, or of another provider.
//
// A person's record is read whenever it is asked for. The ids of groups are remembered for at
// most [MaxAge], so that they cost no round trip. The package refuses to conclude anything from a
// store that does not answer: its errors go up unchanged.
package people

import (
	"context"
	"maps"
	"slices"
	"time"

	"gatehouse.example/authz/internal/account"
	"gatehouse.example/storage"
)

// MaxAge is for how long a group that was read counts as it was.
const MaxAge = 5 * time.Second

// Person is who somebody is now.
type Person struct {
	// Name is the name on record.
	Name string
	// FullName and Email are what a provider stated, or nothing. They count while what it says does.
	FullName, Email string
	// Groups are the groups of which the person is a member, in order: a group of this server by
	// its name, that of a provider as PROVIDER/GROUP.
	Groups []string
}

// In reports whether the person is a member of a group.
func (p Person) In(group string) bool {
	_, in := slices.BinarySearch(p.Groups, group)
	return in
}

// Config configures [New].
type Config struct {
	Store *storage.Store
	Now   func() time.Time
	// Groups are the groups of the configuration, with the names of their members. A group of the
	// store with the same name has those members too.
	Groups map[string][]string
	// Counts reports whether what a provider said about an identity counts: whether the provider
	// is configured, and is still the one of that identity.
	Counts func(storage.Identity) bool
}

// Directory knows who people are now. It is safe for concurrent use.
type Directory struct {
	store  *storage.Store
	counts func(storage.Identity) bool
	listed map[string][]string // groups of the configuration by person
	groups *groups
	hints  *hints
}

// New returns a Directory.
func New(cfg Config) *Directory {
	d := &Directory{store: cfg.Store, counts: cfg.Counts, listed: map[string][]string{}, groups: newGroups(cfg.Now), hints: newHints(maxHints)}
	for group, people := range cfg.Groups {
		for _, name := range people {
			d.listed[name] = append(d.listed[name], group)
		}
	}
	return d
}

// Of returns who a person is, from a record that was read just now. It reads the groups that are
// not known.
func (d *Directory) Of(ctx context.Context, user storage.User) (Person, error) {
	ids, err := d.ids(ctx, memberships(user))
	if err != nil {
		return Person{}, err
	}
	p := Person{Name: user.Name, Groups: slices.Clone(d.listed[user.Name])}
	if slices.ContainsFunc(user.Identities, d.counts) { // else nobody vouches for them now
		p.FullName, p.Email = user.FullName, user.Email
	}
	for _, m := range counted(user) {
		if id := ids[m.Group]; id != "" && id == m.ID {
			p.Groups = append(p.Groups, m.Group)
		}
	}
	for _, identity := range user.Identities {
		p.Groups = append(p.Groups, d.named(identity)...)
	}
	slices.Sort(p.Groups)
	p.Groups = slices.Compact(p.Groups)
	return p, nil
}

// named returns the groups that a provider named, under its id.
func (d *Directory) named(identity storage.Identity) []string {
	if !d.counts(identity) {
		return nil
	}
	var out []string
	for _, group := range identity.Groups {
		full := identity.Provider + "/" + group
		if provider, _, ok := account.OfProvider(full); ok && provider == identity.Provider {
			out = append(out, full)
		}
	}
	return out
}

// counted returns the memberships of a record, of which those above the bound do not count.
func counted(user storage.User) []storage.Membership {
	return user.Groups[:min(len(user.Groups), account.MaxGroups)]
}

// memberships returns the groups of this server that a record names.
func memberships(user storage.User) []string {
	names := make([]string, 0, len(counted(user)))
	for _, m := range counted(user) {
		names = append(names, m.Group)
	}
	return names
}

// ids returns the ids of groups, "" where there is none. It reads those that are not known in one
// round trip.
func (d *Directory) ids(ctx context.Context, names []string) (map[string]string, error) {
	ids, unknown := d.groups.look(names)
	if len(unknown) == 0 {
		return ids, nil
	}
	before := d.groups.now()
	h, err := d.store.Holder(ctx, "", unknown)
	if err != nil {
		return nil, err
	}
	d.groups.learn(before, h.Groups)
	maps.Copy(ids, h.Groups)
	return ids, nil
}

// Missing returns those of the groups of this server that neither the configuration nor the store
// has, in their order, and those of all that both have.
func Missing(ctx context.Context, store *storage.Store, configured map[string][]string, names []string) (missing, twice []string, err error) {
	asked := slices.Clone(names)
	for name := range configured {
		asked = append(asked, name)
	}
	slices.Sort(asked)
	asked = slices.Compact(asked)
	if len(asked) == 0 {
		return nil, nil, nil
	}
	h, err := store.Holder(ctx, "", asked)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range asked {
		_, listed := configured[name]
		switch stored := h.Groups[name] != ""; {
		case !listed && !stored:
			missing = append(missing, name)
		case listed && stored:
			twice = append(twice, name)
		}
	}
	return missing, twice, nil
}
