package local

import (
	"errors"
	"net"
	"syscall"
)

// userOf returns the user who connected (unix(7), SO_PEERCRED).
func userOf(conn net.Conn) (int, error) {
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, errors.New("not a local connection")
	}
	raw, err := unix.SyscallConn()
	if err != nil {
		return 0, err
	}
	var peer *syscall.Ucred
	var asked error
	if err := raw.Control(func(fd uintptr) {
		peer, asked = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if asked != nil {
		return 0, asked
	}
	return int(peer.Uid), nil
}
