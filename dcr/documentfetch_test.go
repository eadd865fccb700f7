package dcr_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"gatehouse.example/dcr"
	"gatehouse.example/internal/webtest"
	"gatehouse.example/safefetch"
)

// TestDocumentAnswers: only 200 with JSON is a document. Temporary failures have their own
// error, and no failure is kept for longer than failureTime.
func TestDocumentAnswers(t *testing.T) {
	type header = map[string]string
	for name, tt := range map[string]struct {
		status int
		header header
		want   string // "" for what may pass
	}{
		"not found":       {404, nil, "404"},
		"gone":            {410, nil, "410"},
		"created":         {201, header{"Content-Type": "application/json"}, "201"},
		"moved":           {301, header{"Location": "/other.json"}, "301"},
		"found":           {302, header{"Location": "https://other.example.com/"}, "302"},
		"not modified":    {304, nil, "304"},
		"a page":          {200, header{"Content-Type": "text/html"}, "JSON"},
		"no type":         {200, header{"Content-Type": ""}, "JSON"},
		"text":            {200, header{"Content-Type": "text/plain"}, "JSON"},
		"too many":        {429, nil, ""},
		"too slow":        {408, nil, ""},
		"server error":    {500, nil, ""},
		"bad gateway":     {502, nil, ""},
		"compressed":      {200, header{"Content-Type": "application/json", "Content-Encoding": "gzip"}, ""},
		"cut short":       {200, header{"Content-Type": "application/json", "Content-Length": "9999"}, ""},
		"more specific":   {200, header{"Content-Type": "application/client+json; charset=utf-8"}, "-"},
		"JSON in capital": {200, header{"Content-Type": "Application/JSON"}, "-"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReader(t, nil)
			id := r.web.URL("client.example.com", "/client.json")
			body := published(id, nil)
			r.web.Document(r.web.URL("client.example.com", "/other.json"), body)
			r.web.Serve(id, func(w http.ResponseWriter, _ *http.Request) {
				for name, value := range tt.header {
					w.Header()[name] = []string{value}
				}
				w.Header().Set("Cache-Control", "max-age=86400")
				w.WriteHeader(tt.status)
				if tt.status != http.StatusNotModified {
					_, _ = w.Write([]byte(body))
				}
			})
			switch tt.want {
			case "-":
				r.resolve(t, id)
				return
			case "":
				r.unreachable(t, id)
			default:
				r.refuses(t, id, tt.want)
			}
			r.web.Document(id, body)
			if _, err := r.Resolve(t.Context(), id); err == nil || r.web.Hits(id) != 1 {
				t.Errorf("%v after %d requests, want the answer of the first for a moment", err, r.web.Hits(id))
			}
			r.clock.advance(5 * time.Second)
			r.resolve(t, id)
			if n := r.web.Hits(r.web.URL("client.example.com", "/other.json")); n != 0 || r.web.Hits(id) != 2 {
				t.Errorf("%d followed, %d asked", n, r.web.Hits(id))
			}
		})
	}
}

// TestDocumentNetwork: every failure to connect has the same error, and no connection reaches
// an address that is not public.
func TestDocumentNetwork(t *testing.T) {
	web := webtest.New(t)
	slow := web.URL("slow.example.com", "/client.json")
	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) })
	web.Serve(slow, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("{"))
		_ = http.NewResponseController(w).Flush()
		<-hold
	})
	lookup := func(addresses ...string) func(*safefetch.Config) {
		return func(c *safefetch.Config) {
			c.InsecureAllowLoopback = false
			c.LookupNetIP = func(context.Context, string, string) ([]netip.Addr, error) {
				if len(addresses) == 0 {
					return nil, errors.New("no such host")
				}
				var found []netip.Addr
				for _, a := range addresses {
					found = append(found, netip.MustParseAddr(a))
				}
				return found, nil
			}
		}
	}
	texts := map[string]bool{}
	for name, tt := range map[string]struct {
		id     string
		change func(*safefetch.Config)
	}{
		"loopback":         {web.URL("client.example.com", "/client.json"), lookup("127.0.0.1")},
		"loopback, 6":      {web.URL("client.example.com", "/client.json"), lookup("::1")},
		"loopback, mapped": {web.URL("client.example.com", "/client.json"), lookup("::ffff:127.0.0.1")},
		"private":          {"https://client.example.com/client.json", lookup("10.0.0.1")},
		"link local":       {"https://client.example.com/client.json", lookup("169.254.169.254")},
		"one is private":   {"https://client.example.com/client.json", lookup("192.0.2.1", "192.168.0.1")},
		"no such name":     {"https://client.example.com/client.json", lookup()},
		"localhost":        {web.URL("localhost", "/client.json"), lookup("127.0.0.1")},
		"local name":       {web.URL("printer.local", "/client.json"), lookup("127.0.0.1")},
		"no listener":      {"https://client.example.com:9/client.json", nil},
		"wrong authority":  {web.URL("client.example.com", "/client.json"), func(c *safefetch.Config) { c.RootCAs = nil }},
		"slow":             {slow, func(c *safefetch.Config) { c.Timeout = 300 * time.Millisecond }},
	} {
		t.Run(name, func(t *testing.T) {
			before := web.Connections.Load()
			r := reader{web: web, fixture: newFixture(t, func(c *dcr.Config) {
				c.Documents, c.Fetcher = dcr.Documents{Trust: dcr.TrustAsk}, web.Fetcher(tt.change)
			})}
			texts[r.unreachable(t, tt.id).Error()] = true
			if !strings.Contains(r.log.String(), "reason=") {
				t.Errorf("log %q", r.log)
			}
			if n := web.Connections.Load() - before; n != 0 && name != "slow" && name != "wrong authority" {
				t.Errorf("%d connections", n)
			}
		})
	}
	if len(texts) != 1 {
		t.Errorf("errors tell reasons apart: %v", texts)
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}
