package local

import "golang.org/x/sys/unix"

// peersKnown says that the system tells who connected.
const peersKnown = true

// peer returns the user at the other end of a socket (unix(7), SO_PEERCRED).
func peer(fd int) (int, error) {
	who, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, err
	}
	return int(who.Uid), nil
}
