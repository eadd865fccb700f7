package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/storage"
	"gatehouse.example/storage/file"
	"gatehouse.example/storage/file/local"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/transfer"
)

// storeOptions say how a store is opened.
type storeOptions struct {
	create bool // as a server, which makes the file of a store that is not there
	warn   func(sentence string)
	say    func(sentence string) // how far a long start is
	// restore lets a verb open a backup, as a server may, and is told what that means.
	restore func(sentence string)
}

// openBackend opens the store that a URL names, unless it takes part in a copy.
func openBackend(ctx context.Context, url settings.StoreURL, o storeOptions) (storage.Backend, error) {
	backend, err := openUnguarded(ctx, url, o)
	if err != nil || url.Embedded() {
		return backend, err
	}
	guarded, err := transfer.Guard(ctx, backend)
	if err != nil {
		return nil, errors.Join(copyProblem(err), backend.Close())
	}
	return guarded, nil
}

// openUnguarded opens a store without looking whether it takes part in a copy.
func openUnguarded(ctx context.Context, url settings.StoreURL, o storeOptions) (storage.Backend, error) {
	path, err := url.File()
	switch {
	case err != nil:
		return nil, fmt.Errorf("store: %w", err)
	case path != "":
		if o.create {
			return openOwnFile(path, o)
		}
		return openSharedFile(ctx, path, o)
	}
	backend, err := redis.Open(ctx, redis.Options{URL: string(url), OnWarning: o.warn})
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	return backend, nil
}

// ownFile is a store in a file that this process has open, and shares with others of its machine.
type ownFile struct {
	storage.Backend
	share *local.Server // nil if nobody else can reach it
}

func (f ownFile) Close() error {
	if f.share == nil {
		return f.Backend.Close()
	}
	return errors.Join(f.share.Close(), f.Backend.Close())
}

// openOwnFile opens the store of a server, and makes it if it is not there.
func openOwnFile(path string, o storeOptions) (storage.Backend, error) {
	backend, err := file.Open(file.Options{Path: path, Create: true, Restore: true, Progress: checking(path, time.Now, o.say)})
	if err != nil {
		return nil, fileProblem(path, true, err)
	}
	adviseOnBackup(path, backend, o.warn)
	share, err := local.Serve(path, backend)
	if err != nil {
		o.warn("other commands cannot use the store while this server runs: " + err.Error())
	}
	return ownFile{backend, share}, nil
}

// A server that starts has the file open for a moment before it can be reached.
const (
	shareAttempts = 5
	sharePause    = 100 * time.Millisecond
)

// openSharedFile opens the store for a verb: at the server that has the file open, or else the file.
func openSharedFile(ctx context.Context, path string, o storeOptions) (storage.Backend, error) {
	for attempt := 1; ; attempt++ {
		shared, unshared := local.Open(ctx, path)
		if unshared == nil {
			return shared, nil
		}
		own, err := file.Open(file.Options{Path: path, Restore: o.restore != nil})
		switch {
		case err == nil:
			adviseOnBackup(path, own, o.restore)
			return own, nil
		case !errors.Is(err, file.ErrInUse):
			return nil, fileProblem(path, false, err)
		case !errors.Is(unshared, local.ErrNoServer):
			return nil, fmt.Errorf("store: another process has %s open and cannot be used: %w", path, unshared)
		case attempt == shareAttempts:
			return nil, fileProblem(path, false, err)
		}
		select {
		case <-time.After(sharePause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// adviseOnBackup says what it means that a file was a backup until now.
func adviseOnBackup(path string, backend *file.Backend, warn func(sentence string)) {
	if of := backend.Restored(); !of.IsZero() {
		warn(fmt.Sprintf("the store %s was a backup of %s, and goes on from there: everybody is signed out and codes are refused, but what was revoked, removed or changed since then is as it was before: "+
			"unless you know that nobody else has tokens, end every grant with authz grant revoke --all", path, moment(of)))
	}
}

// missing is the error of a verb for a store that is not there.
type missing struct{ path string }

func (m missing) Error() string {
	return fmt.Sprintf("store: there is no %s, and only servers make one: start the server first, or name its store with --store", m.path)
}

func (missing) Unwrap() error { return fs.ErrNotExist }

// fileProblem says what a person can do about a file that cannot be opened.
func fileProblem(path string, create bool, err error) error {
	backup := new(file.BackupError)
	switch {
	case errors.As(err, &backup):
		return fmt.Errorf("store: %s is a backup of %s that no server has opened yet: start authz serve with it, or end every grant in it before that with authz grant revoke --all", path, moment(backup.Moment))
	case errors.Is(err, fs.ErrNotExist) && create:
		return fmt.Errorf("store: the folder of %s does not exist: make it, with permissions 700, for the user of the server", path)
	case errors.Is(err, fs.ErrNotExist):
		return missing{path}
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("store: %s: this user may not open it: run the command as the user of the server", path)
	case errors.Is(err, file.ErrInUse) && create:
		return fmt.Errorf("store: another process has %s open: a store in a file has one server at a time", path)
	case errors.Is(err, file.ErrInUse):
		return fmt.Errorf("store: another process has %s open and cannot be reached: run the command as the user of the server or as root, on its machine, or wait until it has started (a server reads the whole file first), or stop that process", path)
	case errors.Is(err, errors.ErrUnsupported):
		return fmt.Errorf("store: %w", errNoFiles)
	}
	return fmt.Errorf("store: %w", err)
}
