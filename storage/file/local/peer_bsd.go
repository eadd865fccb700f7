//go:build darwin || freebsd

package local

import "golang.org/x/sys/unix"

// peersKnown says that the system tells who connected.
const peersKnown = true

// peer returns the user at the other end of a socket (unix(4), LOCAL_PEERCRED).
func peer(fd int) (int, error) {
	who, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return 0, err
	}
	return int(who.Uid), nil
}
