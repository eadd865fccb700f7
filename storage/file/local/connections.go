package local

import (
	"errors"
	"net"
	"os"
	"sync"
)

// connections accepts so many connections at a time, of this process's user and of root. Others
// wait until one ends.
type connections struct {
	net.Listener
	places chan struct{}
}

// Accept returns the next connection.
func (c connections) Accept() (net.Conn, error) {
	c.places <- struct{}{}
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			<-c.places
			return nil, err
		}
		if user, err := userOf(conn); err == nil && (user == 0 || user == os.Geteuid()) {
			return &placed{Conn: conn, leave: sync.OnceFunc(func() { <-c.places })}, nil
		}
		_ = conn.Close() // it is nobody's whom we know
	}
}

// placed is a connection that makes room for another one when it is closed.
type placed struct {
	net.Conn
	leave func()
}

// Close closes the connection.
func (p *placed) Close() error {
	defer p.leave()
	return p.Conn.Close()
}

// userOf returns the user who connected.
func userOf(conn net.Conn) (user int, err error) {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, errors.New("not a local connection")
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, err
	}
	var asked error
	err = raw.Control(func(fd uintptr) { user, asked = peer(int(fd)) })
	return user, errors.Join(err, asked)
}
