package safefetch_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/safefetch"
)

// nameServer answers questions for IPv4 addresses over UDP (RFC 1035 section 4), the n-th
// question for a name with its n-th address, later ones with the last.
type nameServer struct {
	conn *net.UDPConn

	mu    sync.Mutex
	zone  map[string][]netip.Addr
	asked map[string]int
}

func newNameServer(t *testing.T, zone map[string][]netip.Addr) *nameServer {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	n := &nameServer{conn: conn, zone: zone, asked: map[string]int{}}
	var serving sync.WaitGroup
	serving.Go(n.serve)
	t.Cleanup(func() { conn.Close(); serving.Wait() })
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
	t.Cleanup(func() { net.DefaultResolver = before })
	return n
}

func (n *nameServer) serve() {
	query := make([]byte, 512)
	for {
		size, from, err := n.conn.ReadFromUDPAddrPort(query)
		if err != nil {
			return
		}
		if answer := n.answer(query[:size]); answer != nil {
			_, _ = n.conn.WriteToUDPAddrPort(answer, from)
		}
	}
}

// answer returns a header, the question, and one address if there is one.
func (n *nameServer) answer(query []byte) []byte {
	const header, typeA = 12, 1
	var labels []string
	at := header
	for at < len(query) && query[at] > 0 {
		end := at + 1 + int(query[at])
		labels, at = append(labels, string(query[at+1:end])), end
	}
	question := query[header : at+5]
	addr, ok := n.address(strings.Join(labels, "."), binary.BigEndian.Uint16(question[len(question)-4:]) == typeA)
	out := append([]byte{}, query[:2]...)
	out = append(out, 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0) // a response without errors
	out = append(out, question...)
	if ok {
		out[7] = 1
		out = append(out, 0xc0, header, 0, typeA, 0, 1, 0, 0, 0, 0, 0, 4) // the name above, class IN, no time to live
		out = append(out, addr.AsSlice()...)
	}
	return out
}

func (n *nameServer) address(name string, v4 bool) (netip.Addr, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	addrs := n.zone[strings.ToLower(name)]
	if !v4 || len(addrs) == 0 {
		return netip.Addr{}, false
	}
	n.asked[name]++
	return addrs[min(n.asked[name], len(addrs))-1], true
}

func (n *nameServer) questions(name string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked[name]
}

// TestNameServer asks a name server through the resolver of the system: its addresses are
// checked, and the checked address is dialled, also if every answer is another one.
func TestNameServer(t *testing.T) {
	s := newSink(t)
	dns := newNameServer(t, map[string][]netip.Addr{
		"rebind.example.com": parse("93.184.216.34", "127.0.0.1"),
		"inside.example.com": parse("127.0.0.1"),
		"cloud.example.com":  parse("169.254.169.254"),
		"home.example.com":   parse("192.168.1.1"),
	})
	f := fetcher(t, safefetch.Config{Floor: 1, Timeout: 2 * time.Second})
	var dialled []netip.AddrPort
	f.SetDial(func(_ context.Context, to netip.AddrPort) (net.Conn, error) {
		dialled = append(dialled, to)
		return nil, errors.New("no such host")
	})
	at := func(host string) string { return "https://" + host + ":" + s.port + "/" }
	_, err := get(f, at("rebind.example.com"))
	expectErr(t, "public first", err, safefetch.ErrRefused)
	if want := "[93.184.216.34:" + s.port + "]"; fmt.Sprint(dialled) != want || dns.questions("rebind.example.com") != 1 {
		t.Errorf("dialled %v after %d questions, want %s after 1", dialled, dns.questions("rebind.example.com"), want)
	}
	dialled = nil
	f.SetDial(func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		dialled = append(dialled, to)
		return f.Dial(ctx, to)
	})
	for _, host := range []string{"rebind.example.com", "inside.example.com", "cloud.example.com", "home.example.com", "unknown.example.com"} {
		_, err := get(f, at(host))
		expectErr(t, host, err, safefetch.ErrRefused)
	}
	if len(dialled) > 0 {
		t.Errorf("dialled %v", dialled)
	}
	if dns.questions("inside.example.com") == 0 {
		t.Error("the name server was not asked")
	}
}
