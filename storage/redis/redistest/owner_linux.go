package redistest

import (
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// owners decides which sockets of this machine belong to some processes. The kernel lists sockets
// with their inodes, and for each process the inodes of its open files.
type owners struct {
	pids []int

	mu     sync.Mutex
	looked time.Time
	inodes map[string]string // of sockets by their two addresses, in the kernel's notation
	ours   map[string]bool   // the inodes of the open files of the processes
}

func ownersOf(pids []int) *owners { return &owners{pids: pids} }

// sameTime is how long a listing stays valid: soon another socket may have the port of one that
// was closed.
const sameTime = 20 * time.Millisecond

// have reports whether one of the processes has the IPv4 socket with these two addresses. Sockets
// with different remote addresses may share a port, so it takes both.
func (o *owners) have(dialler, dialled net.Addr) bool {
	socket := kernelAddr(dialler) + " " + kernelAddr(dialled)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.inodes[socket] == "" || time.Since(o.looked) > sameTime {
		o.look()
	}
	return o.ours[o.inodes[socket]]
}

// kernelAddr returns an address in the kernel's notation: in the byte order of the machine, here
// little-endian, except for the port.
func kernelAddr(a net.Addr) string {
	addr := a.(*net.TCPAddr)
	ip := addr.IP.To4()
	return fmt.Sprintf("%s:%04X", strings.ToUpper(hex.EncodeToString([]byte{ip[3], ip[2], ip[1], ip[0]})), addr.Port)
}

func (o *owners) look() {
	o.looked = time.Now()
	o.inodes, o.ours = map[string]string{}, map[string]bool{}
	table, _ := os.ReadFile("/proc/net/tcp")
	for line := range strings.Lines(string(table)) {
		if columns := strings.Fields(line); len(columns) > 9 && columns[9] != "0" {
			o.inodes[columns[1]+" "+columns[2]] = columns[9]
		}
	}
	for _, pid := range o.pids {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		for _, file := range files {
			target, _ := os.Readlink(file)
			if inode, ok := strings.CutPrefix(target, "socket:["); ok {
				o.ours[strings.TrimSuffix(inode, "]")] = true
			}
		}
	}
}
