package icon_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/internal/fair"
	"gatehouse.example/message/icon"
	"gatehouse.example/safefetch"
)

// shop is a Getter with a picture for every address, each of another size.
type shop struct {
	t     testing.TB
	asked atomic.Int32
	fail  atomic.Pointer[error]
	body  func(url string) []byte
}

func (s *shop) Get(_ context.Context, r safefetch.Request) (*safefetch.Response, error) {
	s.asked.Add(1)
	if err := s.fail.Load(); err != nil {
		return nil, *err
	}
	return &safefetch.Response{Header: http.Header{"Content-Type": {"image/png"}}, Body: s.body(r.URL)}, nil
}

// unique returns a PNG that no other call returns.
func unique(t testing.TB) []byte {
	n := serial.Add(1)
	return append(pngOf(t, 8, 8), fmt.Sprint("behind the end: ", n)...)
}

var serial atomic.Int64

// hands is a clock that tests set.
type hands struct {
	mu sync.Mutex
	at time.Time
}

func (c *hands) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *hands) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func newAlbum(t *testing.T) (*icon.Album, *shop, *hands) {
	s := &shop{t: t, body: func(string) []byte { return unique(t) }}
	c := &hands{at: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	return icon.NewAlbum(s, c.now), s, c
}

// asks returns the context of a requester at an address.
func asks(addr string) context.Context {
	return fair.WithRequester(context.Background(), netip.MustParseAddr(addr))
}

func at(host, path string) icon.Source {
	return icon.Source{URL: "https://" + host + path, Page: "https://" + host + "/"}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

func settled(t *testing.T, a *icon.Album) {
	t.Helper()
	eventually(t, "nothing is on its way", func() bool { return a.Pending() == 0 })
}

// TestNobodyWaitsForAPicture: Want and Ready do not wait while a picture is drawn, and a network
// with very many pictures does not keep those of others from being drawn.
func TestNobodyWaitsForAPicture(t *testing.T) {
	album, shop, _ := newAlbum(t)
	leave := icon.HoldRedrawer()
	for i := range 100 {
		album.Want(asks("192.0.2.1"), at(fmt.Sprintf("h%d.example.com", i), "/icon.png"), fmt.Sprint(i))
	}
	eventually(t, "all are fetched", func() bool { return shop.asked.Load() == 100 })
	eventually(t, "those beyond the bound are turned away", func() bool { return album.Pending() == 32 })
	honest := at("client.example.org", "/logo.png")
	album.Want(asks("198.51.100.1"), honest, "honest")
	eventually(t, "it waits instead of one of the many", func() bool { return shop.asked.Load() == 101 && album.Pending() == 32 })
	if _, ok := album.Ready(honest); ok {
		t.Error("a picture is ready that was not drawn")
	}
	leave()
	settled(t, album)
	if p, ok := album.Ready(honest); !ok || len(p.PNG) == 0 || p.Digest == "" {
		t.Error("the honest picture was not drawn")
	}
}

// TestSameBytesAreDrawnOnce: the same bytes at many addresses, accepted or refused, are drawn
// once: results are there while nothing can be drawn.
func TestSameBytesAreDrawnOnce(t *testing.T) {
	for name, test := range map[string]struct {
		data []byte
		good bool
	}{
		"good": {unique(t), true},
		"bad":  {append(unique(t)[:60], fmt.Sprint(serial.Add(1))...), false},
	} {
		t.Run(name, func(t *testing.T) {
			album, shop, _ := newAlbum(t)
			shop.body = func(string) []byte { return test.data }
			first := at("a.example.com", "/icon.png")
			album.Want(asks("192.0.2.1"), first, "a")
			settled(t, album)
			leave := icon.HoldRedrawer()
			defer leave()
			for i := range 20 {
				other := at(fmt.Sprintf("b%d.example.com", i), "/icon.png")
				album.Want(asks("192.0.2.1"), other, fmt.Sprint("b", i))
				settled(t, album)
				if _, ok := album.Ready(other); ok != test.good {
					t.Fatalf("ready %t, want %t", ok, test.good)
				}
			}
		})
	}
}

// TestPicturesHaveALimit: fetches are limited by owner, host and network, for any addresses and
// any answers of the host.
func TestPicturesHaveALimit(t *testing.T) {
	for name, test := range map[string]struct {
		want func(album *icon.Album, i int)
		most int32
	}{
		"one client": {func(a *icon.Album, i int) {
			a.Want(asks(fmt.Sprintf("192.0.%d.%d", i/256, i%256)), at(fmt.Sprintf("h%d.example.com", i), "/logo.png"), "client")
		}, 5},
		"one host": {func(a *icon.Album, i int) {
			a.Want(asks(fmt.Sprintf("192.0.%d.%d", i/256, i%256)), at("victim.example.com", fmt.Sprintf("/%d", i)), fmt.Sprint(i))
		}, 30},
		"one network": {func(a *icon.Album, i int) {
			a.Want(asks("192.0.2.1"), at(fmt.Sprintf("h%d.example.com", i), "/logo.png"), fmt.Sprint(i))
		}, 300},
		"one address": {func(a *icon.Album, i int) { a.Want(asks("192.0.2.1"), at("victim.example.com", "/"), "client") }, 1},
	} {
		for answer, fails := range map[string]bool{"a picture": false, "nothing": true} {
			t.Run(name+" "+answer, func(t *testing.T) {
				album, shop, _ := newAlbum(t)
				if err := error(&safefetch.Error{Err: safefetch.ErrStatus}); fails {
					shop.fail.Store(&err)
				}
				for i := range 350 {
					test.want(album, i)
					settled(t, album)
				}
				if n := shop.asked.Load(); n != test.most {
					t.Errorf("%d fetches, want %d", n, test.most)
				}
			})
		}
	}
}

// TestAlbumForgets: a picture is kept for an hour, a refusal for ten minutes, a failed fetch for
// one, and ErrBusy not at all.
func TestAlbumForgets(t *testing.T) {
	broken := error(&safefetch.Error{Err: safefetch.ErrRefused})
	busy := error(&safefetch.Error{Err: safefetch.ErrBusy})
	for name, test := range map[string]struct {
		fail error
		body string
		life time.Duration
	}{
		"a picture": {nil, "", time.Hour},
		"text":      {nil, "text", 10 * time.Minute},
		"no answer": {broken, "", time.Minute},
		"no turn":   {busy, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			album, shop, clock := newAlbum(t)
			if test.body != "" {
				shop.body = func(string) []byte { return []byte(test.body) }
			}
			if test.fail != nil {
				shop.fail.Store(&test.fail)
			}
			want := func() int32 {
				album.Want(asks("192.0.2.1"), at("a.example.com", "/icon.png"), "a")
				settled(t, album)
				return shop.asked.Load()
			}
			want()
			if test.life > 0 {
				clock.pass(test.life - 1)
				if n := want(); n != 1 {
					t.Errorf("asked %d times before %v", n, test.life)
				}
				clock.pass(1)
			}
			if n := want(); n != 2 {
				t.Errorf("asked %d times after %v", n, test.life)
			}
		})
	}
}
