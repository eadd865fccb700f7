package safefetch_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse.example/safefetch"
)

// clocked runs inside a bubble and returns how long get took there, for an address if one
// is named.
func clocked(f *safefetch.Fetcher, r safefetch.Request, requester ...string) (time.Duration, *safefetch.Response, error) {
	started := time.Now()
	ctx := context.Background()
	for _, addr := range requester {
		ctx = from(addr)
	}
	response, err := f.Get(ctx, r)
	return time.Since(started), response, err
}

// TestAnswers are what a public server may say, byte by byte. None of them takes time,
// however long their body would be.
func TestAnswers(t *testing.T) {
	json := []string{"application/json", "application/*+json"}
	const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	for name, c := range map[string]struct {
		answer string
		accept []string
		want   error
	}{
		"plain":                {ok("{}", "Content-Type: application/json"), json, nil},
		"suffix":               {ok("{}", "Content-Type: APPLICATION/x+JSON; a=b"), json, nil},
		"bare suffix":          {ok("{}", "Content-Type: application/+json"), json, safefetch.ErrMediaType},
		"another type":         {ok("{}", "Content-Type: text/html"), json, safefetch.ErrMediaType},
		"no type":              {ok("{}"), json, safefetch.ErrMediaType},
		"two types":            {ok("{}", "Content-Type: application/json", "Content-Type: text/html"), json, safefetch.ErrMediaType},
		"broken type":          {ok("{}", "Content-Type: application/json;;="), json, safefetch.ErrMediaType},
		"any subtype":          {ok("", "Content-Type: image/png"), []string{"image/*"}, nil},
		"any type":             {ok("", "Content-Type: image/png"), []string{"*/*"}, nil},
		"no type asked":        {ok(""), nil, nil},
		"identity":             {ok("", "Content-Encoding: Identity"), nil, nil},
		"brotli":               {ok("", "Content-Encoding: br"), nil, safefetch.ErrMalformed},
		"two codings":          {ok("", "Content-Encoding: identity", "Content-Encoding: gzip"), nil, safefetch.ErrMalformed},
		"chunked":              {chunked + "3\r\nabc\r\n0\r\n\r\n", nil, nil},
		"broken chunk":         {chunked + "x\r\nabc\r\n0\r\n\r\n", nil, safefetch.ErrMalformed},
		"unended chunks":       {chunked + "3\r\nabc\r\n", nil, safefetch.ErrMalformed},
		"padded chunks":        {chunked + strings.Repeat("1;"+strings.Repeat("x", 1000)+"\r\na\r\n", 100), nil, safefetch.ErrMalformed},
		"until the end":        {"HTTP/1.0 200 OK\r\n\r\nabc", nil, safefetch.ErrMalformed},
		"two lengths":          {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nabc", nil, safefetch.ErrMalformed},
		"early hints":          {"HTTP/1.1 103 Early\r\n\r\n" + ok(""), nil, nil},
		"endless hints":        {strings.Repeat("HTTP/1.1 103 Early\r\n\r\n", 6) + ok(""), nil, safefetch.ErrMalformed},
		"switching protocols":  {"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n", nil, safefetch.ErrStatus},
		"unasked not modified": {"HTTP/1.1 304 Not Modified\r\n\r\n", nil, safefetch.ErrStatus},
		"no content":           {"HTTP/1.1 204 No Content\r\n\r\n", nil, safefetch.ErrStatus},
		"not found":            {"HTTP/1.1 404 Not Found\r\nContent-Length: 999999999\r\n\r\n", nil, safefetch.ErrStatus},
		"not HTTP":             {"SSH-2.0-OpenSSH_9.2\r\n", nil, safefetch.ErrMalformed},
		"HTTP/2":               {"\x00\x00\x12\x04\x00\x00\x00\x00\x00\r\n\r\n", nil, safefetch.ErrMalformed},
		"nothing":              {"", nil, safefetch.ErrMalformed},
		"endless header":       {"HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 1<<16), nil, safefetch.ErrTooLarge},
		"endless line":         {"HTTP/1.1 200 " + strings.Repeat("x", 1<<16), nil, safefetch.ErrTooLarge},
		"endless chunk":        {chunked + "ffffff\r\n" + strings.Repeat("x", 1<<17), nil, safefetch.ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newStage(t, says(c.answer)).fetcher(t, safefetch.Config{})
				took, _, err := clocked(f, safefetch.Request{URL: "https://client.example.com/", Accept: c.accept})
				expectErr(t, name, err, c.want)
				if took != 0 {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

// TestNothingIsDrained ends a fetch as soon as the answer is of no use, while its body
// would go on.
func TestNothingIsDrained(t *testing.T) {
	for answer, want := range map[string]error{
		"HTTP/1.1 404 Not Found\r\nContent-Length: 1000\r\n\r\nx": safefetch.ErrStatus,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" +
			"10001\r\n" + strings.Repeat("x", 1<<16+1) + "\r\n": safefetch.ErrTooLarge,
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newStage(t, func(c net.Conn) {
				says(answer)(c)
				io.Copy(io.Discard, c)
			}).fetcher(t, safefetch.Config{})
			took, _, err := clocked(f, safefetch.Request{URL: "https://client.example.com/"})
			expectErr(t, answer[:20], err, want)
			if took != 0 {
				t.Errorf("%.20s took %v", answer, took)
			}
		})
	}
}

func TestReasonsAreShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newStage(t, says(ok("", "Content-Encoding: "+strings.Repeat("x", 10_000)))).fetcher(t, safefetch.Config{})
		_, err := get(f, "https://client.example.com/")
		expectErr(t, "coding", err, safefetch.ErrMalformed)
		if n := len(safefetch.Reason(err)); n > 400 {
			t.Errorf("a reason of %d bytes", n)
		}
	})
}

// TestOneAttempt counts connections after an answer that broke: net/http would ask again.
func TestOneAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, says(""))
		f := s.fetcher(t, safefetch.Config{LookupNetIP: answers("93.184.216.34", "93.184.216.35")})
		_, err := get(f, "https://client.example.com/")
		expectErr(t, "nothing", err, safefetch.ErrMalformed)
		if got := s.dialled(); len(got) != 1 {
			t.Errorf("dialled %v", got)
		}
	})
}

// TestB4TheEnd lets every step of a fetch take for ever. Each ends when the patience does,
// and all at the timeout.
func TestB4TheEnd(t *testing.T) {
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

// TestRefusalsTakeTheSameTime measures refusals by what they depend on.
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

// TestJitter wants different times from equal refusals.
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

// counting is a play that counts requests, and how many there are at a time.
type counting struct {
	mu                      sync.Mutex
	requests, running, most int
	takes                   time.Duration
}

func (p *counting) play(c net.Conn) {
	if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
		return
	}
	p.change(1)
	defer p.change(-1)
	time.Sleep(p.takes)
	io.WriteString(c, ok("x"))
}

func (p *counting) change(by int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running += by
	p.requests += max(by, 0)
	p.most = max(p.most, p.running)
}

// seen returns how many requests there were, and how many at a time.
func (p *counting) seen() (requests, most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests, p.most
}

func TestOneFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &counting{takes: 900 * time.Millisecond}
		f := newStage(t, p.play).fetcher(t, safefetch.Config{})
		var wait sync.WaitGroup
		request := safefetch.Request{URL: "https://client.example.com/"}
		for range 50 {
			wait.Go(func() {
				r, err := f.Get(context.Background(), request)
				if err != nil || string(r.Body) != "x" {
					t.Errorf("%v: %s", r, safefetch.Reason(err))
					return
				}
				if r.Header.Get("ETag") != "" {
					t.Error("sees the header of another")
				}
				r.Body[0] = 'y' // what one caller does, no other sees
				r.Header.Set("ETag", "z")
			})
		}
		conditional := request
		conditional.IfNoneMatch = `"1"`
		wait.Go(func() { f.Get(context.Background(), conditional) })
		wait.Wait()
		if n, _ := p.seen(); n != 2 {
			t.Errorf("%d requests, want one and one that is conditional", n)
		}
		f.Get(context.Background(), request)
		if n, _ := p.seen(); n != 3 {
			t.Errorf("%d requests, want 3: nothing is kept", n)
		}
	})
}

// TestLeaving lets callers give up while others wait, and then all.
func TestLeaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &counting{takes: time.Second}
		f := newStage(t, p.play).fetcher(t, safefetch.Config{Patience: 5 * time.Second})
		request := safefetch.Request{URL: "https://client.example.com/"}
		first, leave := context.WithCancel(context.Background())
		var wait sync.WaitGroup
		wait.Go(func() {
			_, err := f.Get(first, request)
			expectErr(t, "who left", err, context.Canceled)
		})
		synctest.Wait()
		wait.Go(func() {
			if took, _, err := clocked(f, request); err != nil || took != time.Second {
				t.Errorf("who stayed: %v after %v", err, took)
			}
		})
		synctest.Wait()
		leave()
		wait.Wait()
		if n, _ := p.seen(); n != 1 {
			t.Errorf("%d requests, want 1", n)
		}

		brief, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		_, err := f.Get(brief, request)
		expectErr(t, "alone", err, context.DeadlineExceeded)
		// Who comes after everybody left gets a fetch of his own, and an answer.
		if took, _, err := clocked(f, request); err != nil || took != time.Second {
			t.Errorf("who came later: %s after %v", safefetch.Reason(err), took)
		}
		_, err = f.Get(brief, request)
		expectErr(t, "too late", err, context.DeadlineExceeded)
		if n, _ := p.seen(); n != 3 {
			t.Errorf("%d requests, want none for a context that is over", n)
		}
	})
}

// TestBoardingLate wants a flight to be forgotten by itself alone: the first, which heeds
// no context, ends while the second is under way.
func TestBoardingLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lookups atomic.Int32
		f := newStage(t, says(ok(""))).fetcher(t, safefetch.Config{
			Patience: 5 * time.Second,
			LookupNetIP: func(context.Context, string, string) ([]netip.Addr, error) {
				lookups.Add(1)
				time.Sleep(time.Second)
				return parse("93.184.216.34"), nil
			}})
		request := safefetch.Request{URL: "https://client.example.com/"}
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		f.Get(ctx, request)
		var wait sync.WaitGroup
		for _, pause := range []time.Duration{0, 800 * time.Millisecond} {
			wait.Go(func() {
				time.Sleep(pause)
				if _, err := f.Get(context.Background(), request); err != nil {
					t.Error(safefetch.Reason(err))
				}
			})
		}
		wait.Wait()
		if n := lookups.Load(); n != 2 {
			t.Errorf("%d lookups, want 2", n)
		}
		for range 20 {
			f.Get(ctx, request)
		}
		synctest.Wait()
		if n := lookups.Load(); n != 2 {
			t.Errorf("%d lookups for contexts that are over", n-2)
		}
	})
}

// TestAbandonedFetchEnds looks at the other end of a fetch that nobody waits for.
func TestAbandonedFetchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed time.Time
		f := newStage(t, func(c net.Conn) {
			io.Copy(io.Discard, c)
			closed = time.Now()
		}).fetcher(t, safefetch.Config{})
		started := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		f.Get(ctx, safefetch.Request{URL: "https://client.example.com/"})
		synctest.Wait()
		if got := closed.Sub(started); got != 300*time.Millisecond {
			t.Errorf("the connection ended after %v", got)
		}
	})
}

// TestRefusalWaitsForNobody ends a caller's wait for the floor with his context.
func TestRefusalWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fetcher(t, safefetch.Config{})
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		_, err := f.Get(ctx, safefetch.Request{URL: "https://10.0.0.1/"})
		expectErr(t, "refusal", err, context.DeadlineExceeded)
	})
}
