package safefetch_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/safefetch"
)

// TestHosts spells addresses and local names in every way.
func TestHosts(t *testing.T) {
	f := fetcher(t, safefetch.Config{Floor: 1, LookupNetIP: func(_ context.Context, _, host string) ([]netip.Addr, error) {
		t.Errorf("%s was looked up", host)
		return nil, errors.New("no")
	}})
	f.SetDial(func(_ context.Context, to netip.AddrPort) (net.Conn, error) {
		t.Errorf("%s was dialled", to)
		return nil, errors.New("no")
	})
	for _, host := range []string{
		"127.0.0.1", "10.0.0.1", "169.254.169.254", "0.0.0.0", "255.255.255.255", "192.168.0.1",
		"2130706433", "0x7f000001", "0X7F000001", "017700000001", "0x7f.1", "127.1", "127.0.1", "0177.0.0.1", "0x7f.0.0.1",
		"127.0.0.1.", "127.0.0.01", "127.0.0.256", "127.0.0.0.1", "1.2.3.0x4", "0x", "example.0x", "example.0xff", "example.1", "8.8.8.8.", "134744072",
		"[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:127.0.0.1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]",
		"[2002:7f00:1::]", "[2001:db8::1]", "[fe80::1]", "[fe80::1%25lo]", "[fd00:ec2::254]",
		"localhost", "LOCALHOST", "a.localhost", "localhost.", "redis", "metadata", "metadata.google.internal", "printer.local",
		"x.onion", "a.alt", "router.home.arpa", "home.arpa", "a.invalid", "example.com.", ".example.com", "a..example.com",
		"-a.example.com", "a-.example.com", "a_b.example.com", "a!b.example.com", "a,b.example.com", "example.com;x",
		strings.Repeat("a", 64) + ".example.com", strings.Repeat("a.", 126) + "com",
	} {
		_, err := get(f, "https://"+host+"/")
		expectErr(t, host, err, safefetch.ErrRefused)
	}
	for _, host := range []string{"[127.0.0.1]", "[v1.x]", "[fe80::1%25]", "[localhost]", "[]"} { // by us, or by net/url before us
		if _, err := get(f, "https://"+host+"/"); !errors.Is(err, safefetch.ErrRefused) && !errors.Is(err, safefetch.ErrRequest) {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// TestAddressesThatAreDialled checks which of the allowed addresses are dialled, in which order.
func TestAddressesThatAreDialled(t *testing.T) {
	for _, c := range []struct {
		url     string
		answers []string
		want    string
	}{
		{"https://8.8.8.8/", nil, "[8.8.8.8:443]"},
		{"https://[::ffff:8.8.8.8]/", nil, "[8.8.8.8:443]"},
		{"https://[2606:4700::1]:8443/", nil, "[[2606:4700::1]:8443]"},
		{"https://a.example.com/", []string{"::ffff:8.8.8.8"}, "[8.8.8.8:443]"},
		{"https://a.example.com/", []string{"64:ff9b::808:808"}, "[[64:ff9b::808:808]:443]"},
		{"https://a.example.com/", []string{"8.8.8.8", "8.8.8.8", "8.8.4.4", "2606:4700::1", "2606:4700::2", "1.1.1.1", "9.9.9.9"},
			"[8.8.8.8:443 [2606:4700::1]:443 8.8.4.4:443 [2606:4700::2]:443]"},
		{"https://a.example.com/", []string{"1.0.0.1", "1.0.0.2", "1.0.0.3", "1.0.0.4", "1.0.0.5"},
			"[1.0.0.1:443 1.0.0.2:443 1.0.0.3:443 1.0.0.4:443]"},
		{"https://a.example.com/", []string{"8.8.8.8", "10.0.0.1"}, "[]"},
		{"https://a.example.com/", []string{"2606:4700::1", "::ffff:10.0.0.1"}, "[]"},
		{"https://a.example.com/", []string{"1.0.0.1", "1.0.0.2", "1.0.0.3", "1.0.0.4", "10.0.0.1"}, "[]"},
		{"https://a.example.com/", []string{"2606:4700::1%eth0"}, "[]"},
		{"https://a.example.com/", []string{"7.7.7.7"}, "[]"},
		{"https://a.example.com/", []string{"64:ff9b::707:707"}, "[]"},
		{"https://a.example.com/", []string{"2606:4701::1"}, "[]"},
		{"https://a.example.com/", []string{"64:ff9b::909:909"}, "[]"},
		{"https://a.example.com/", nil, "[]"},
	} {
		dialled := []netip.AddrPort{}
		f := fetcher(t, safefetch.Config{
			Floor: 1, LookupNetIP: answers(c.answers...),
			Refuse: []netip.Prefix{netip.MustParsePrefix("7.0.0.0/8"), netip.MustParsePrefix("2606:4701::/32"), netip.MustParsePrefix("64:ff9b::909:0/112")},
		})
		f.SetDial(func(_ context.Context, to netip.AddrPort) (net.Conn, error) {
			dialled = append(dialled, to)
			return nil, errors.New("no")
		})
		_, err := get(f, c.url)
		expectErr(t, c.url, err, safefetch.ErrRefused)
		if got := fmt.Sprint(dialled); got != c.want {
			t.Errorf("%s with %v: dialled %s, want %s", c.url, c.answers, got, c.want)
		}
	}
}

// TestRebinding: the addresses of a name change between two lookups.
func TestRebinding(t *testing.T) {
	s := newSink(t)
	var lookups atomic.Int32
	f := fetcher(t, safefetch.Config{Floor: 1, Timeout: 100 * time.Millisecond,
		LookupNetIP: func(context.Context, string, string) ([]netip.Addr, error) {
			if lookups.Add(1) == 1 {
				return parse("93.184.216.34"), nil
			}
			return parse("127.0.0.1"), nil
		}})
	var dialled []netip.AddrPort
	f.SetDial(func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		dialled = append(dialled, to)
		return nil, errors.New("no such host")
	})
	u := "https://rebind.example.com:" + s.port + "/"
	_, err := get(f, u)
	expectErr(t, "public first", err, safefetch.ErrRefused)
	if want := "[93.184.216.34:" + s.port + "]"; fmt.Sprint(dialled) != want || lookups.Load() != 1 {
		t.Errorf("dialled %v after %d lookups, want %s after 1", dialled, lookups.Load(), want)
	}
	f.SetDial(f.Dial)
	_, err = get(f, u)
	expectErr(t, "loopback second", err, safefetch.ErrRefused)
}

// TestSocketIsChecked skips the check of the address, so that only that of the socket prevents a
// connection to the sink.
func TestSocketIsChecked(t *testing.T) {
	s := newSink(t)
	to := netip.MustParseAddrPort("127.0.0.1:" + s.port)
	f := fetcher(t, safefetch.Config{})
	c, err := f.Dial(context.Background(), to)
	if err == nil {
		c.Close()
	}
	expectErr(t, "the socket", err, safefetch.ErrRefused)
}

// TestLoopback allows loopback and nothing else.
func TestLoopback(t *testing.T) {
	plain := newPlain(t)
	s := serve(t, func(http.ResponseWriter, *http.Request) {})
	f := fetcher(t, s.config)
	for _, u := range []string{
		s.url("/"), "https://127.0.0.1:" + s.port + "/", "https://[::ffff:127.0.0.1]:" + s.port + "/",
		"http://127.0.0.1:" + plain + "/", "http://localhost:" + plain + "/", "http://app.localhost:" + plain + "/",
		"http://client.example.com:" + plain + "/",
	} {
		if _, err := get(f, u); err != nil {
			t.Errorf("%s: %s", u, safefetch.Reason(err))
		}
	}
	for host, addrs := range map[string][]string{
		"https://a.example.com":      {"127.0.0.1", "10.0.0.1"},
		"https://b.example.com":      {"64:ff9b::7f00:1"},
		"https://c.example.com":      {"::127.0.0.1"},
		"https://d.example.com":      {"::1%lo"},
		"http://e.example.com":       {"8.8.8.8"},
		"http://f.example.com":       {"127.0.0.1", "8.8.8.8"},
		"http://8.8.8.8":             {},
		"https://10.0.0.1":           {},
		"https://[64:ff9b::7f00:1]":  {},
		"https://metadata.internal":  {"127.0.0.1"},
		"https://127.1":              {},
		"http://169.254.169.254":     {},
		"http://[::ffff:a9fe:a9fe]/": {},
	} {
		s.config.LookupNetIP = answers(addrs...)
		f := fetcher(t, s.config)
		f.SetDial(func(_ context.Context, to netip.AddrPort) (net.Conn, error) {
			t.Errorf("%s dialled %s", host, to)
			return nil, errors.New("no")
		})
		_, err := get(f, host)
		expectErr(t, host, err, safefetch.ErrRefused)
	}
}

// TestSameOrigin compares with every part of an origin changed.
func TestSameOrigin(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {})
	f := fetcher(t, s.config)
	for other, want := range map[string]error{
		s.url("/other"):                             nil,
		"HTTPS://CLIENT.example.com:" + s.port:      nil,
		"https://client.example.com/":               safefetch.ErrRequest,
		"http://client.example.com:" + s.port + "/": safefetch.ErrRequest,
		"https://127.0.0.1:" + s.port + "/":         safefetch.ErrRequest,
		"client.example.com":                        safefetch.ErrRequest,
	} {
		_, err := f.Get(context.Background(), safefetch.Request{URL: s.url("/x"), SameOrigin: other})
		expectErr(t, other, err, want)
	}
}

// newPlain is an HTTP server on loopback without TLS.
func newPlain(t *testing.T) (port string) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), ErrorLog: quiet()}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return portOf(l.Addr())
}
