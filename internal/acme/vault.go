package acme

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"

	"gatehouse.example/storage"
)

// Vault is the storage of a [Manager] in a store: every process over the store shares it. Each change
// is one conditional write of one record, so it is whole or not there, in a cluster too.
//
// A record is a folder: all files of one certificate, or of the accounts at one authority, with the
// lock that guards them. So whoever writes proves in the same write that the lock is still theirs. A
// certificate and its key come in two calls; they wait in the record until they fit together, and
// then replace the pair before.
type Vault struct {
	// Lease is how long a lock stays with a holder of whom nothing is seen. [NewVault] sets a minute.
	// Set it in tests, before the first use.
	Lease time.Duration

	store     *storage.Store
	authority string // as certmagic writes it in paths
	sleep     func(ctx context.Context, d time.Duration) error
	now       func() time.Time

	mu   sync.Mutex
	held map[string]*lease // by id of the record
}

// NewVault returns the storage for a directory (its URL) in a store with master keys.
func NewVault(store *storage.Store, directory string) *Vault {
	issuer := certmagic.ACMEIssuer{CA: directory}
	return &Vault{Lease: leaseTime, store: store, authority: certmagic.StorageKeys.Safe(issuer.IssuerKey()), sleep: sleep, now: time.Now, held: map[string]*lease{}}
}

// folder is what a record holds.
type folder struct {
	Files map[string]file `json:"files,omitempty"`
	// Waiting are a certificate and a key that do not fit together yet.
	Waiting map[string]file `json:"waiting,omitempty"`
	// Holder is a random text of who holds the lock, another one each time, empty for nobody.
	Holder string `json:"holder,omitempty"`
}

// file is one file of a folder.
type file struct {
	Data []byte    `json:"data"`
	At   time.Time `json:"at"`
}

// shortLife is the life of records that nobody needs later: answers to challenges, and locks that
// guard no file.
const shortLife = time.Hour

// place is where a file is: the record, and the name in it.
type place struct{ id, name string }

// The first parts of the paths that certmagic uses.
const (
	certificates = "certificates" // certificates/AUTHORITY/NAME/FILE
	atAuthority  = "acme"         // acme/AUTHORITY/users/ACCOUNT/FILE, acme/AUTHORITY/challenge_tokens/FILE
	challenges   = "challenge_tokens"
	lockAlone    = "lock"
)

// placeOf returns the place of a path, which need not be a file.
func placeOf(key string) (place, error) {
	parts := strings.Split(key, "/")
	switch {
	case len(parts) >= 3 && parts[0] == certificates, len(parts) >= 3 && parts[0] == atAuthority && parts[2] != challenges:
		return place{path.Join(parts[:3]...), path.Join(parts[3:]...)}, nil
	case len(parts) == 4 && parts[0] == atAuthority:
		return place{key, parts[3]}, nil
	}
	return place{}, fmt.Errorf("acme: there is no place for %q", key)
}

// lasting reports whether a record has no end.
func lasting(id string) bool {
	return !strings.HasPrefix(id, lockAlone+"/") && !strings.Contains(id, "/"+challenges+"/")
}

// pair reports whether a file is a half of a certificate with its key.
func (p place) pair() bool {
	return strings.HasPrefix(p.id, certificates+"/") && (path.Ext(p.name) == ".crt" || path.Ext(p.name) == ".key")
}

// read returns a folder, empty if there is none, and its record.
func (v *Vault) read(ctx context.Context, id string) (folder, storage.ACMERecord, error) {
	var f folder
	r, err := v.store.ACMERecord(ctx, id)
	if errors.Is(err, storage.ErrNotFound) {
		return f, storage.ACMERecord{}, nil
	}
	if err == nil {
		err = json.Unmarshal(r.Content, &f)
	}
	return f, r, err
}

// write replaces the record of a folder if it is the one that was read.
func (v *Vault) write(ctx context.Context, id string, f folder, r storage.ACMERecord) (storage.ACMERecord, error) {
	var err error
	if r.Content, err = json.Marshal(f); err != nil {
		return r, err
	}
	if !lasting(id) {
		r.Expires = v.store.Now().Add(shortLife)
	}
	return v.store.SwapACMERecord(ctx, id, r)
}

// changeAttempts bounds the attempts to change a record that others keep changing.
const changeAttempts = 16

// change changes a folder. The function may refuse.
func (v *Vault) change(ctx context.Context, id string, by func(*folder) error) error {
	for range changeAttempts {
		f, r, err := v.read(ctx, id)
		if err == nil {
			err = by(&f)
		}
		if err == nil {
			_, err = v.write(ctx, id, f, r)
		}
		if !errors.Is(err, storage.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("acme: %s: %w: others kept changing it", id, storage.ErrUnavailable)
}

// Store implements [certmagic.Storage]. What was issued is worth waiting for: while the store does not
// answer, Store tries again, for as long as ctx lasts.
func (v *Vault) Store(ctx context.Context, key string, value []byte) error {
	p, err := placeOf(key)
	if err != nil {
		return err
	}
	for {
		err := v.change(ctx, p.id, func(f *folder) error {
			if err := v.mayWrite(p, f); err != nil {
				return err
			}
			f.put(p, file{value, v.now().UTC()})
			return nil
		})
		if !errors.Is(err, storage.ErrUnavailable) || !lasting(p.id) {
			return err
		}
		if stopped := v.sleep(ctx, pollTime); stopped != nil {
			return err
		}
	}
}

// put adds a file.
func (f *folder) put(p place, data file) {
	if f.Files == nil {
		f.Files = map[string]file{}
	}
	if !p.pair() {
		f.Files[p.name] = data
		return
	}
	if f.Waiting == nil {
		f.Waiting = map[string]file{}
	}
	f.Waiting[p.name] = data
	base := strings.TrimSuffix(p.name, path.Ext(p.name))
	if fit(f.Waiting[base+".crt"].Data, f.Waiting[base+".key"].Data) {
		f.Files[base+".crt"], f.Files[base+".key"] = f.Waiting[base+".crt"], f.Waiting[base+".key"]
		f.Waiting = nil
	}
}

// Load implements [certmagic.Storage].
func (v *Vault) Load(ctx context.Context, key string) ([]byte, error) {
	p, err := placeOf(key)
	if err != nil {
		return nil, err
	}
	f, _, err := v.read(ctx, p.id)
	if err != nil {
		return nil, err
	}
	found, ok := f.Files[p.name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return found.Data, nil
}

// Delete implements [certmagic.Storage]. A certificate that is whole is only ever replaced: deleting
// takes back what waits for its other half.
func (v *Vault) Delete(ctx context.Context, key string) error {
	p, err := placeOf(key)
	if err != nil {
		return err
	}
	return v.change(ctx, p.id, func(f *folder) error {
		if err := v.mayWrite(p, f); err != nil {
			return err
		}
		delete(f.Waiting, p.name)
		for name := range f.Files {
			if within(name, p.name) && !strings.HasPrefix(p.id, certificates+"/") {
				delete(f.Files, name)
			}
		}
		return nil
	})
}

// within reports whether a file is at a path of its folder or below it.
func within(name, at string) bool {
	return at == "" || name == at || strings.HasPrefix(name, at+"/")
}

// Exists implements [certmagic.Storage].
func (v *Vault) Exists(ctx context.Context, key string) bool {
	_, err := v.Stat(ctx, key)
	return err == nil
}

// List implements [certmagic.Storage].
func (v *Vault) List(ctx context.Context, at string, recursive bool) ([]string, error) {
	p, err := placeOf(at)
	if err != nil {
		return nil, err
	}
	f, _, err := v.read(ctx, p.id)
	if err != nil {
		return nil, err
	}
	var found []string
	for name := range f.Files {
		if !within(name, p.name) || name == p.name {
			continue
		}
		rest := strings.TrimPrefix(strings.TrimPrefix(name, p.name), "/")
		if first, _, deeper := strings.Cut(rest, "/"); deeper && !recursive {
			rest = first
		}
		found = append(found, path.Join(at, rest))
	}
	if len(found) == 0 {
		return nil, fs.ErrNotExist
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// Stat implements [certmagic.Storage].
func (v *Vault) Stat(ctx context.Context, key string) (certmagic.KeyInfo, error) {
	info := certmagic.KeyInfo{Key: key}
	p, err := placeOf(key)
	if err != nil {
		return info, err
	}
	f, _, err := v.read(ctx, p.id)
	if err != nil {
		return info, err
	}
	found := false
	for name, file := range f.Files {
		if !within(name, p.name) {
			continue
		}
		found = true
		if file.At.After(info.Modified) {
			info.Modified = file.At
		}
		if name == p.name {
			info.Size, info.IsTerminal = int64(len(file.Data)), true
		}
	}
	if !found {
		return info, fs.ErrNotExist
	}
	return info, nil
}
