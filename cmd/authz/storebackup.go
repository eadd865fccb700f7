package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/alecthomas/kong"

	"gatehouse.example/storage"
	"gatehouse.example/storage/file"
)

// storeBackup copies a store in a file. It needs neither the issuer nor a master key, because it
// opens no record, unless verbs are recorded.
type storeBackup struct {
	storeSettings
	File string `arg:"" help:"The file to make."`
	JSON bool   `name:"json" help:"Print what the backup is as JSON."`
}

// Run makes the backup and prints what it is.
func (v *storeBackup) Run(ctx context.Context, p *program, k *kong.Context) error {
	if _, err := p.loadStore(k); err != nil {
		return err
	}
	store, err := v.source(ctx, p)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := p.recordActAt(ctx, v.actSettings, v.sealSettings, store, true); err != nil {
		return err
	}
	source, ok := store.(file.Source)
	if !ok {
		return errors.New("the store cannot be copied")
	}
	line := p.statusLine()
	what, err := file.Backup(ctx, v.File, source, line.share("done"))
	line.clear()
	if err != nil {
		return notBackedUp(v.File, err)
	}
	made := foundIn(v.File, what)
	if v.JSON {
		return p.printJSON(made)
	}
	_, err = io.WriteString(p.stdout, made.sentences()+"it was read back from the disk; the server that is started with it goes on from that moment\n")
	return err
}

// source opens the store to copy: at the server that has it open, or else the file.
func (v *storeBackup) source(ctx context.Context, p *program) (storage.Backend, error) {
	path, named, err := v.locate()
	switch {
	case err != nil:
		return nil, err
	case path == "":
		return nil, usageError{errors.New("store: this verb copies a store in a file: Redis makes its own copies, see Backups in docs/operations.md; authz store copy moves a store and is no backup")}
	}
	fmt.Fprintf(p.stderr, "authz: the store is %s\n", wordOf(path))
	store, err := openSharedFile(ctx, path, storeOptions{})
	if errors.Is(err, fs.ErrNotExist) && !named {
		return nil, usageError{err}
	}
	return store, err
}

// notBackedUp says what a person can do about a backup that was not made.
func notBackedUp(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%s exists: a backup never replaces a file, so name another one", path)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the folder of %s does not exist", path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s cannot be made: this user may not write to %s", path, filepath.Dir(path))
	}
	return err
}
