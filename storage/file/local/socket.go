package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"gatehouse.example/internal/owner"
)

const socketName = "store"

// folderOf returns the folder of the socket for a file.
func folderOf(path string) string { return path + ".socket" }

// longest is how many bytes the path of a socket may have: 107 on Linux, 103 on macOS and FreeBSD.
const longest = len(syscall.RawSockaddrUnix{}.Path) - 1

// address returns a path of the socket in a folder that is short enough for the system, and what
// must be closed when it is not used any more. Shortcut returns another path of a folder that is
// open, "" for none.
func address(folder string, shortcut func(*os.File) string) (string, *os.File, error) {
	plain := filepath.Join(folder, socketName)
	if len(plain) <= longest {
		return plain, nil, nil
	}
	opened, err := os.Open(folder)
	if err != nil {
		return "", nil, err
	}
	short := shortcut(opened)
	if _, err := os.Stat(short); short == "" || err != nil {
		_ = opened.Close() // it was only read
		return "", nil, fmt.Errorf("the path of its socket, %s, has %d bytes, and this system allows %d: give the file a shorter path", plain, len(plain), longest)
	}
	return filepath.Join(short, socketName), opened, nil
}

// listen makes the socket for the file at path, in its own folder.
func listen(path string) (net.Listener, error) {
	folder := folderOf(path)
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err := checkFolder(folder); err != nil {
		return nil, err
	}
	socket, held, err := address(folder, shortcut)
	if err != nil {
		return nil, err
	}
	err = os.Remove(socket)
	var l net.Listener
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		l, err = (&net.ListenConfig{}).Listen(context.Background(), "unix", socket)
	}
	if err != nil {
		return nil, errors.Join(err, closeHeld(held))
	}
	return holding{l, held}, nil
}

// checkFolder returns an error unless this user alone may enter the folder of the socket.
func checkFolder(folder string) error {
	info, err := os.Lstat(folder)
	if err != nil {
		return err
	}
	user, known := owner.Of(info)
	switch {
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder: remove it", folder)
	case !known || user != os.Geteuid():
		return fmt.Errorf("%s belongs to another user: remove it", folder)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s has the permissions %o, so others may enter it: run chmod 700 %s", folder, info.Mode().Perm(), folder)
	}
	return nil
}

// holding is a listener whose address is gone when a file is closed.
type holding struct {
	net.Listener
	held *os.File
}

// Close removes the socket and closes the file.
func (h holding) Close() error { return errors.Join(h.Listener.Close(), closeHeld(h.held)) }

func closeHeld(held *os.File) error {
	if held == nil {
		return nil
	}
	return held.Close()
}

// dial connects to the socket for the file at path.
func dial(ctx context.Context, path string) (net.Conn, error) {
	socket, held, err := address(folderOf(path), shortcut)
	if err != nil {
		return nil, unreached{err}
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	_ = closeHeld(held) // it was only read
	if err != nil {
		return nil, unreached{err}
	}
	return conn, nil
}

// unreached is the error of a request that was not sent, because nobody listens or this process may
// not connect.
type unreached struct{ error }

func (u unreached) Unwrap() error { return u.error }

// nobody reports whether an error means that nothing listens on a socket.
func nobody(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOTSOCK)
}

// sameOwner returns an error unless the folder of the socket belongs to whom the file belongs:
// anybody else could answer there.
func sameOwner(path string) error {
	file, err := os.Stat(path)
	if err != nil {
		return err
	}
	folder, err := os.Lstat(folderOf(path))
	if err != nil {
		return err
	}
	whose, known := owner.Of(file)
	if other, too := owner.Of(folder); !known || !too || whose != other {
		return fmt.Errorf("%s does not belong to the owner of %s: remove it when no server runs", folderOf(path), path)
	}
	return nil
}
