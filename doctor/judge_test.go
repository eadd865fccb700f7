package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestJudge checks to which addresses an examination connects.
func TestJudge(t *testing.T) {
	names := map[string]string{
		"public.example.com": "93.184.216.34", "other.example.com": "93.184.216.35", "inside.example.com": "10.0.0.5",
		"neighbour.example.com": "10.0.0.6", "alias.example.com": "10.0.0.5", "both.example.com": "93.184.216.34 127.0.0.1",
		"cloud.example.com": "169.254.169.254", "mapped.example.com": "::ffff:127.0.0.1",
	}
	lookup := func(_ context.Context, host string) (addrs []netip.Addr, err error) {
		for a := range strings.FieldsSeq(names[strings.ToLower(strings.TrimSuffix(host, "."))]) {
			addrs = append(addrs, netip.MustParseAddr(a))
		}
		return addrs, nil
	}
	for _, c := range []struct {
		target, host, allowed string
		want                  bool
	}{
		{"public.example.com", "public.example.com", "", true},
		{"public.example.com", "PUBLIC.example.com.", "", true},
		{"public.example.com", "other.example.com", "", true},
		{"public.example.com", "inside.example.com", "", false},
		{"public.example.com", "both.example.com", "", false},
		{"public.example.com", "cloud.example.com", "", false},
		{"public.example.com", "mapped.example.com", "", false},
		{"public.example.com", "localhost", "", false},
		{"public.example.com", "127.0.0.1", "", false},
		{"public.example.com", "::1", "", false},
		{"public.example.com", "inside.example.com", "inside.example.com", true},
		{"public.example.com", "cloud.example.com", "inside.example.com", false},
		{"inside.example.com", "inside.example.com", "", true},
		{"inside.example.com", "alias.example.com", "", true},
		{"inside.example.com", "10.0.0.5", "", true},
		{"inside.example.com", "neighbour.example.com", "", false},
		{"inside.example.com", "neighbour.example.com", "neighbour.example.com", true},
		{"inside.example.com", "127.0.0.1", "", false},
		{"inside.example.com", "cloud.example.com", "", false},
		{"inside.example.com", "public.example.com", "", false},
		{"127.0.0.1", "127.0.0.1", "", true},
		{"127.0.0.1", "localhost", "", true},
		{"127.0.0.1", "127.0.0.2", "", false},
		{"127.0.0.1", "inside.example.com", "", false},
		{"localhost", "::1", "", true},
		{"both.example.com", "both.example.com", "", true},
	} {
		j := newJudge(c.target, Options{Lookup: lookup, AllowHosts: []string{c.allowed}})
		if _, err := j.addresses(context.Background(), c.target); err != nil {
			t.Fatalf("%s itself: %v", c.target, err)
		}
		addrs, err := j.addresses(context.Background(), c.host)
		var no *forbidden
		if got := len(addrs) > 0; got != c.want || !c.want && !errors.As(err, &no) {
			t.Errorf("%s leads to %s (allowed %q): %v, %v", c.target, c.host, c.allowed, addrs, err)
		}
	}
}

// TestAddressesRace: an address that answers nothing, and one that refuses, leave time for the others,
// as with clients. A connection that comes too late is closed.
func TestAddressesRace(t *testing.T) {
	good, late := netip.MustParseAddr("93.184.216.34"), netip.MustParseAddr("93.184.216.36") // late takes a second
	silent, closed := netip.MustParseAddr("2606:2800:220:1::1"), netip.MustParseAddr("93.184.216.35")
	for _, c := range []struct {
		addrs []netip.Addr
		want  string
	}{
		{[]netip.Addr{good}, "connected after 100ms"},
		{[]netip.Addr{silent, good}, "connected after 350ms"},
		{[]netip.Addr{silent, silent, good}, "connected after 600ms"},
		{[]netip.Addr{closed, good}, "connected after 100ms"},
		{[]netip.Addr{silent, closed, good}, "connected after 350ms"},
		{[]netip.Addr{late, good}, "connected after 350ms"},
		{[]netip.Addr{closed, closed}, "refused after 0s"},
		{[]netip.Addr{silent, closed}, "context deadline exceeded after 8s"},
		{[]netip.Addr{silent}, "context deadline exceeded after 8s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var open atomic.Int32
			j := newJudge("public.example.com", Options{Lookup: func(context.Context, string) ([]netip.Addr, error) { return slices.Clone(c.addrs), nil }})
			j.connect = func(ctx context.Context, _, address string) (net.Conn, error) {
				takes := map[string]time.Duration{good.String(): 100 * time.Millisecond, late.String(): time.Second}
				switch host, _, _ := net.SplitHostPort(address); host {
				case closed.String():
					return nil, errors.New("refused")
				case silent.String():
					<-ctx.Done()
					return nil, ctx.Err()
				default: // it ignores ctx, as a connection that is made at the same moment
					time.Sleep(takes[host])
					open.Add(1)
					near, _ := net.Pipe()
					return counted{near, &open}, nil
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			begin := time.Now()
			conn, err := j.dial(ctx, "tcp", "public.example.com:443")
			got := fmt.Sprintf("connected after %s", time.Since(begin))
			if err != nil {
				got = fmt.Sprintf("%v after %s", err, time.Since(begin))
			}
			if got != c.want {
				t.Errorf("%v: %s, want %s", c.addrs, got, c.want)
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if n := open.Load(); conn != nil && n != 1 || conn == nil && n != 0 {
				t.Errorf("%v: %d connections are open", c.addrs, n)
			}
		})
	}
}

// counted is a connection that counts how many are open.
type counted struct {
	net.Conn
	open *atomic.Int32
}

func (c counted) Close() error {
	c.open.Add(-1)
	return c.Conn.Close()
}

// TestRebinding: the name of a public target stays public, whatever a later lookup says.
func TestRebinding(t *testing.T) {
	answers := []string{"93.184.216.34", "127.0.0.1"}
	j := newJudge("public.example.com", Options{Lookup: func(context.Context, string) ([]netip.Addr, error) {
		a := netip.MustParseAddr(answers[0])
		answers = answers[1:]
		return []netip.Addr{a}, nil
	}})
	if _, err := j.addresses(context.Background(), "public.example.com"); err != nil {
		t.Fatal(err)
	}
	if addrs, err := j.addresses(context.Background(), "public.example.com"); err == nil {
		t.Errorf("a second lookup leads to %v", addrs)
	}
}

// TestClean: nothing that commands a terminal is shown, and nothing is shown without end.
func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"plain text, déjà vu 日本": "plain text, déjà vu 日本",
		"\x1b[31mred\x07":        `\x1b[31mred\x07`,
		"a\r\nb\tc\x7f":          `a\x0d\x0ab\x09c\x7f`,
		"\u202eright\u2066":      `\u202eright\u2066`,
		"\xff\xfe\uFFFD":         `\xff\xfe` + "\uFFFD",
		"\u009b31m\u2028\ue000":  `\u009b31m\u2028\ue000`,
	} {
		if got := clean(text); got != want {
			t.Errorf("clean(%q) = %q, want %q", text, got, want)
		}
	}
	if n := len(clean(strings.Repeat("\x1b", 10_000))); n > maxSaw+10 {
		t.Errorf("%d bytes", n)
	}
}
