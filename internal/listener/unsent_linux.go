package listener

import "syscall"

// notSentLowat is TCP_NOTSENT_LOWAT of tcp(7), which package syscall does not name.
const notSentLowat = 25

func setUnsent(fd uintptr, most int) {
	_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, notSentLowat, most)
}
