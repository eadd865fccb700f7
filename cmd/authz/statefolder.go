package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/internal/owner"
)

// defaultStore returns the store of a server outside --dev for which none is named: the file
// gatehouse.db in the folder that systemd prepared, in /var/lib/gatehouse for root, and in the
// state folder of any other user (XDG Base Directory Specification).
func defaultStore() (settings.StoreURL, error) {
	folder, err := stateFolder(os.Getenv, os.Geteuid(), runtime.GOOS)
	if err != nil {
		return "", fmt.Errorf("store is not set, and there is no default: %w", err)
	}
	return settings.StoreURL("file:" + filepath.Join(folder, "gatehouse.db")), nil
}

// stateOfUser is the origin of the default store.
var stateOfUser = settings.Origin{Rank: settings.ByDefault, Where: "the state folder of this user"}

// fileSystems are the systems on which a store may be a file.
var fileSystems = []string{"linux", "darwin", "freebsd"}

// errNoFiles is the error of a store in a file on any other system.
var errNoFiles = errors.New("a store in a file needs a Unix system (Linux, macOS or FreeBSD): name a Redis, for example --store redis://127.0.0.1:6379")

// stateFolder returns the folder for the state of this user.
func stateFolder(getenv func(string) string, user int, system string) (string, error) {
	first, _, _ := strings.Cut(getenv("STATE_DIRECTORY"), ":") // systemd.exec(5): several are separated by colons
	home := getenv("HOME")
	switch state := getenv("XDG_STATE_HOME"); {
	case !slices.Contains(fileSystems, system):
		return "", errNoFiles
	case filepath.IsAbs(first):
		return first, nil
	case user == 0:
		return "/var/lib/gatehouse", nil
	case filepath.IsAbs(state): // a relative one is ignored, as the specification says
		return filepath.Join(state, "gatehouse"), nil
	case !filepath.IsAbs(home):
		return "", errors.New("this user has no home folder: name a store with --store file:PATH")
	case system == "darwin":
		return filepath.Join(home, "Library", "Application Support", "gatehouse"), nil
	}
	return filepath.Join(home, ".local", "state", "gatehouse"), nil
}

// makeStateFolder makes the folder of the default store, which only its user may enter. One that is
// there must belong to this user or root, and others must not write to it. If they may enter it,
// doubt says so: the file itself is closed to them.
func makeStateFolder(url settings.StoreURL) (doubt string, err error) {
	path, err := url.File()
	if err != nil {
		return "", err
	}
	folder := filepath.Dir(path)
	if err := makeFolders(folder, syncFolder); err != nil {
		return "", fmt.Errorf("store: the folder for %s cannot be made: %w: name another place with --store file:PATH", path, err)
	}
	info, err := os.Stat(folder)
	if err != nil {
		return "", fmt.Errorf("store: %w", err)
	}
	return judgeFolder(folder, info, os.Geteuid())
}

// judgeFolder returns an error or a doubt about the folder of the default store.
func judgeFolder(folder string, info fs.FileInfo, me int) (doubt string, err error) {
	mode := info.Mode().Perm()
	user, known := owner.Of(info)
	switch {
	case !info.IsDir():
		return "", fmt.Errorf("store: %s is not a folder: name another place with --store file:PATH", folder)
	case known && user != me && user != 0:
		return "", fmt.Errorf("store: the folder %s belongs to the user %d, and this process runs as %d: run it as that user, or name another place with --store file:PATH", folder, user, me)
	case mode&0o022 != 0:
		return "", fmt.Errorf("store: the folder %s has the permissions %o, so others may replace files in it: run chmod 700 %s", folder, mode, folder)
	case mode&0o055 != 0:
		return fmt.Sprintf("the folder %s has the permissions %o: others may enter it or list its files, though not read the store: run chmod 700 %s, or set StateDirectoryMode=0700 if systemd makes it", folder, mode, folder), nil
	}
	return "", nil
}

// makeFolders makes a folder and those above it that are missing, from the top. Each survives a
// crash before the next one is made, so a start that was killed leaves only the last one to sync.
func makeFolders(folder string, sync func(folder string) error) error {
	parent := filepath.Dir(folder)
	_, err := os.Stat(folder)
	if err == nil {
		if err := sync(parent); !errors.Is(err, fs.ErrPermission) {
			return err
		}
		return nil // this user did not make anything in a folder that it may not list
	}
	if !errors.Is(err, fs.ErrNotExist) || parent == folder {
		return err
	}
	if err := makeFolders(parent, sync); err != nil {
		return err
	}
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return sync(parent)
}

// syncFolder makes the names in a folder survive a crash.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
