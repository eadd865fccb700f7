package safefetch_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"gatehouse.example/safefetch"
)

// TestErrorsTellNothing: all refusals have the same text for the requester, and the log has the
// reason.
func TestErrorsTellNothing(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {})
	closed := newPlain(t) // speaks no TLS
	errs := map[string]error{}
	fetch := func(want, url string, change func(*safefetch.Config)) {
		c := s.config
		change(&c)
		_, errs[want] = get(fetcher(t, c), url)
	}
	fetch("loopback (RFC 1122", s.url("/"), func(c *safefetch.Config) { c.InsecureAllowLoopback = false })
	fetch("no such host", s.url("/"), func(c *safefetch.Config) {
		c.LookupNetIP = func(context.Context, string, string) ([]netip.Addr, error) { return nil, errors.New("no such host") }
	})
	fetch("unknown authority", s.url("/"), func(c *safefetch.Config) { c.RootCAs = nil })
	fetch("first record does not look like", "https://127.0.0.1:"+closed+"/", func(*safefetch.Config) {})
	fetch("connection refused", "https://127.0.0.1:"+freePort(t)+"/", func(*safefetch.Config) {})
	fetch("local name", "https://redis/", func(*safefetch.Config) {})
	fetch("spelling", "https://127.1/", func(*safefetch.Config) {})
	for want, err := range errs {
		var e *safefetch.Error
		if !errors.As(err, &e) || !errors.Is(err, safefetch.ErrRefused) {
			t.Errorf("%s: %v", want, err)
			continue
		}
		if err.Error() != "safefetch: the address cannot be fetched" || errors.Unwrap(err) != safefetch.ErrRefused || e.Status != 0 {
			t.Errorf("%s: %q tells more than others", want, err)
		}
		if !strings.Contains(safefetch.Reason(err), want) {
			t.Errorf("the reason is %q, want %q", safefetch.Reason(err), want)
		}
		var out bytes.Buffer
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "err", err)
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log has %s, want %q", out.String(), want)
		}
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return portOf(l.Addr())
}
