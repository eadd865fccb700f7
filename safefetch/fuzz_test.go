package safefetch_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"gatehouse.example/safefetch"
)

// FuzzGet fetches any URL with any answer of the DNS. Every name that is looked up has a dot,
// and every address that is dialled belongs to the name or stands in the URL, has the port of
// the URL, and is public by expectPublic.
func FuzzGet(f *testing.F) {
	for _, host := range []string{
		"example.com", "example.com:8443", "2130706433", "0x7f.1", "127.1", "127.0.0.1.", "%31", "１２７.0.0.1", "[::1]", "[::ffff:10.0.0.1]",
		"[fe80::1%25lo]", "user@10.0.0.1", "a\\@b", "localhost", "8.8.8.8", "[2606:4700::1]:22", "[64:ff9b::a00:1]", "a.b:0", "EXAMPLE.com",
	} {
		f.Add("https://"+host+"/x", []byte{8, 8, 8, 8})
	}
	f.Add("https://example.com/", []byte{10, 0, 0, 1})
	f.Add("https://example.com/", netip.MustParseAddr("64:ff9b::7f00:1").AsSlice())
	f.Add("https://example.com/", append(netip.MustParseAddr("2606:4700::1").AsSlice(), 127, 0, 0, 1))
	f.Fuzz(func(t *testing.T, raw string, dns []byte) {
		answer := addresses(dns)
		fetcher, err := safefetch.New(safefetch.Config{Floor: 1, LookupNetIP: func(_ context.Context, _, host string) ([]netip.Addr, error) {
			if !strings.Contains(host, ".") || strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "" {
				t.Errorf("looked up %q", host)
			}
			return answer, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		fetcher.SetDial(func(_ context.Context, to netip.AddrPort) (net.Conn, error) {
			expectPublic(t, to.Addr())
			expectNamed(t, raw, to, answer)
			return nil, errors.New("no")
		})
		_, err = fetcher.Get(context.Background(), safefetch.Request{URL: raw})
		if !errors.Is(err, safefetch.ErrRequest) && !errors.Is(err, safefetch.ErrRefused) {
			t.Errorf("%q: %v", raw, err)
		}
	})
}

// addresses reads each sixteen bytes as an IPv6 address, and then each four of the rest as an
// IPv4 address.
func addresses(b []byte) []netip.Addr {
	var addrs []netip.Addr
	for ; len(b) >= 16; b = b[16:] {
		addrs = append(addrs, netip.AddrFrom16([16]byte(b[:16])))
	}
	for ; len(b) >= 4; b = b[4:] {
		addrs = append(addrs, netip.AddrFrom4([4]byte(b[:4])))
	}
	return addrs
}

// expectPublic checks an address in another way than the table: by package netip, and by hand.
func expectPublic(t *testing.T, a netip.Addr) {
	t.Helper()
	if b := a.As16(); a.Is6() && strings.HasPrefix(a.String(), "64:ff9b::") && [6]byte(b[4:10]) == [6]byte{} {
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.Is4In6() || a.Zone() != "" {
		t.Errorf("dialled %s", a)
	}
	b := a.As16()
	if a.Is4() && (b[12] == 0 || b[12] >= 224 || b[12] == 100 && b[13]>>6 == 1 || b[12] == 198 && b[13]>>1 == 9) {
		t.Errorf("dialled %s", a)
	}
	if a.Is6() && (b[0]>>5 != 1 || b[0] == 0x20 && b[1] == 2 || b[0] == 0x20 && b[1] == 1 && b[2] < 2) {
		t.Errorf("dialled %s", a)
	}
}

func expectNamed(t *testing.T, raw string, to netip.AddrPort, answer []netip.Addr) {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatalf("%q is no URL", raw)
	}
	if literal, err := netip.ParseAddr(u.Hostname()); err == nil {
		answer = []netip.Addr{literal}
	}
	for _, a := range answer {
		if a.Unmap() == to.Addr() && (u.Port() == "" && to.Port() == 443 || u.Port() == netipPort(to)) {
			return
		}
	}
	t.Errorf("%q with %v dialled %s", raw, answer, to)
}

func netipPort(to netip.AddrPort) string {
	_, port, _ := net.SplitHostPort(to.String())
	return port
}
