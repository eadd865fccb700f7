package acme

import (
	"fmt"
	"os"
	"runtime"

	"github.com/caddyserver/certmagic"
)

// NewFolder returns the storage in a folder that only this user can enter, for programs without a
// store. Its files are not sealed. Processes of one machine may share it.
func NewFolder(path string) (Storage, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("acme-folder: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("acme-folder: %w", err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("acme-folder %s: others may enter it, and private keys are in it: chmod 700 %[1]s", path)
	}
	return &certmagic.FileStorage{Path: path}, nil
}
