package safefetch_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse.example/safefetch"
)

// clocked runs inside a bubble and returns how long Get took there. requester is its optional
// address.
func clocked(f *safefetch.Fetcher, r safefetch.Request, requester ...string) (time.Duration, *safefetch.Response, error) {
	started := time.Now()
	ctx := context.Background()
	for _, addr := range requester {
		ctx = from(addr)
	}
	response, err := f.Get(ctx, r)
	return time.Since(started), response, err
}

// TestTheEnd: each step of a fetch that takes for ever ends after Patience, and the whole
// after Timeout.
func TestTheEnd(t *testing.T) {
	header, body := 1200*time.Millisecond, 2200*time.Millisecond // in steps of the floor
	for name, c := range map[string]struct {
		play func(net.Conn)
		want time.Duration
	}{
		"silence": {func(c net.Conn) { io.Copy(io.Discard, c) }, header},
		"a header that trickles": {func(c net.Conn) {
			trickle(c, "HTTP/1.1 200 OK\r\n", "X: y\r\n")
		}, header},
		"a status line that trickles": {func(c net.Conn) {
			trickle(c, "HTTP/1.1 200 O", "K")
		}, header},
		"a body that trickles": {func(c net.Conn) {
			trickle(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", "x")
		}, body},
		"chunks that trickle": {func(c net.Conn) {
			trickle(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n")
		}, body},
		"a body that never comes": {func(c net.Conn) {
			says("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")(c)
			io.Copy(io.Discard, c)
		}, body},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				expectTimeout(t, newStage(t, c.play).fetcher(t, safefetch.Config{}), c.want)
			})
			synctest.Test(t, func(t *testing.T) {
				expectTimeout(t, newStage(t, c.play).fetcher(t, safefetch.Config{Patience: time.Hour}), 5*time.Second)
			})
		})
	}
	t.Run("the handshake", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newStage(t, nil).fetcher(t, safefetch.Config{})
			f.SetDial(func(context.Context, netip.AddrPort) (net.Conn, error) {
				here, there := net.Pipe()
				go io.Copy(io.Discard, there)
				return here, nil
			})
			expectTimeout(t, f, header)
		})
	})
	t.Run("the lookup", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			expectTimeout(t, newStage(t, nil).fetcher(t, safefetch.Config{
				LookupNetIP: func(ctx context.Context, _, _ string) ([]netip.Addr, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				},
			}), header)
		})
	})
}

func trickle(c net.Conn, first, then string) {
	says(first)(c)
	for {
		time.Sleep(100 * time.Millisecond)
		if _, err := io.WriteString(c, then); err != nil {
			return
		}
	}
}

func expectTimeout(t *testing.T, f *safefetch.Fetcher, want time.Duration) {
	t.Helper()
	took, _, err := clocked(f, safefetch.Request{URL: "https://client.example.com/"})
	expectErr(t, "timeout", err, safefetch.ErrRefused)
	if took != want {
		t.Errorf("took %v, want %v", took, want)
	}
}

// TestDialing gives every address its share of the time, and stops at one that answers.
func TestDialing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, says(ok("")))
		f := s.fetcher(t, safefetch.Config{Patience: 5 * time.Second, LookupNetIP: answers("2606:4700::1", "2606:4700::2", "1.1.1.1", "1.1.1.2")})
		f.SetDial(func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			if to.Addr() == netip.MustParseAddr("2606:4700::2") {
				return s.dial(ctx, to)
			}
			if to.Addr().Is6() {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return nil, errors.New("refused")
		})
		took, _, err := clocked(f, safefetch.Request{URL: "https://client.example.com/"})
		if err != nil || took != 5*time.Second/4 {
			t.Errorf("took %v: %s", took, safefetch.Reason(err))
		}
	})
}

// TestRefusalsTakeTheSameTime: refusals with different causes take the same time.
func TestRefusalsTakeTheSameTime(t *testing.T) {
	after := func(d time.Duration) func(context.Context, netip.AddrPort) (net.Conn, error) {
		return func(context.Context, netip.AddrPort) (net.Conn, error) {
			time.Sleep(d)
			return nil, errors.New("refused")
		}
	}
	ms := time.Millisecond
	for name, c := range map[string]struct {
		url     string
		address string
		dial    func(context.Context, netip.AddrPort) (net.Conn, error)
		want    time.Duration
	}{
		"spelling":              {"https://127.1/", "", nil, 200 * ms},
		"local name":            {"https://redis/", "", nil, 200 * ms},
		"address":               {"https://10.0.0.1/", "", nil, 200 * ms},
		"private":               {"https://client.example.com/", "10.0.0.1", nil, 200 * ms},
		"connection refused":    {"https://client.example.com/", "8.8.8.8", after(0), 200 * ms},
		"refused after a while": {"https://client.example.com/", "8.8.8.8", after(150 * ms), 200 * ms},
		"refused at the floor":  {"https://client.example.com/", "8.8.8.8", after(200 * ms), 400 * ms},
		"refused late":          {"https://client.example.com/", "8.8.8.8", after(350 * ms), 400 * ms},
		"refused at the end":    {"https://client.example.com/", "8.8.8.8", after(4900 * ms), 5000 * ms},
		"another certificate":   {"https://other.example.com/", "8.8.8.8", nil, 200 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			for _, jitter := range []time.Duration{0, 99 * ms} {
				synctest.Test(t, func(t *testing.T) {
					f := newStage(t, says(ok(""))).fetcher(t, safefetch.Config{
						LookupNetIP: func(context.Context, string, string) ([]netip.Addr, error) { return parse(c.address), nil },
					})
					f.SetJitter(func(most time.Duration) time.Duration {
						if most != 100*ms {
							t.Errorf("jitter up to %v", most)
						}
						return jitter
					})
					if c.dial != nil {
						f.SetDial(c.dial)
					}
					took, _, err := clocked(f, safefetch.Request{URL: c.url})
					expectErr(t, name, err, safefetch.ErrRefused)
					if want := min(c.want+jitter, 5*time.Second); took != want {
						t.Errorf("took %v, want %v", took, want)
					}
				})
			}
		})
	}
}

// TestJitter: equal refusals take different times.
func TestJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fetcher(t, safefetch.Config{})
		times := map[time.Duration]bool{}
		for range 20 {
			took, _, _ := clocked(f, safefetch.Request{URL: "https://10.0.0.1/"})
			if took < 200*time.Millisecond || took > 300*time.Millisecond {
				t.Errorf("took %v", took)
			}
			times[took] = true
		}
		if len(times) < 10 {
			t.Errorf("only %d different times", len(times))
		}
	})
}

// TestRefusalWaitsForNobody: the wait for the floor ends with the caller's context.
func TestRefusalWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fetcher(t, safefetch.Config{})
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		_, err := f.Get(ctx, safefetch.Request{URL: "https://10.0.0.1/"})
		expectErr(t, "refusal", err, context.DeadlineExceeded)
	})
}
