package doctor_test

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse.example/doctor"
)

// onNetwork serves a description on loopback: both servers have one address.
func onNetwork(t *testing.T, start func(http.Handler) *httptest.Server, change func(*stable)) (string, *httptest.Server) {
	t.Helper()
	var s *stable
	server := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := s.routes[r.Method+" "+s.origin()+r.URL.Path]; h != nil {
			h(w, r)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)
	s = healthy(server.URL+"/mcp", server.URL)
	change(s)
	s.open()
	return s.target, server
}

func (s *stable) origin() string {
	origin, _ := splitURL(s.target)
	return origin
}

func found(r *doctor.Report, id string) *doctor.Finding {
	for i := range r.Findings {
		if r.Findings[i].ID == id {
			return &r.Findings[i]
		}
	}
	return nil
}

// TestNetwork examines servers on loopback: a healthy one, one that names a private address, and
// one that names a server that does not exist.
func TestNetwork(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*stable)
		want   []string
	}{
		"healthy": {func(*stable) {}, nil},
		"names a machine of the network": {resource("authorization_servers", []string{"http://10.255.255.1"}),
			[]string{"plain-http", "address-not-asked"}},
		"names the metadata of a cloud": {resource("authorization_servers", []string{"http://169.254.169.254/latest"}),
			[]string{"plain-http", "address-not-asked"}},
		"names nothing that listens": {resource("authorization_servers", []string{"http://127.0.0.1:1"}), []string{"unreachable"}},
	} {
		t.Run(name, func(t *testing.T) {
			target, _ := onNetwork(t, httptest.NewServer, c.change)
			report, err := doctor.Check(context.Background(), target, doctor.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got := above(report); !slices.Equal(got, c.want) {
				t.Errorf("found %v, want %v: %+v", got, c.want, report.Findings)
			}
		})
	}
}

// quietTLS starts a server that logs nothing: a refused certificate is part of the test.
func quietTLS(h http.Handler) *httptest.Server {
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	return server
}

// TestTLS examines a server with TLS: with a certificate that is not trusted, and with one that
// ends soon.
func TestTLS(t *testing.T) {
	target, server := onNetwork(t, quietTLS, func(*stable) {})
	report, err := doctor.Check(context.Background(), target, doctor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := above(report); !slices.Equal(got, []string{"tls-invalid"}) {
		t.Errorf("found %v", got)
	}
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	end := server.Certificate().NotAfter
	report, err = doctor.Check(context.Background(), target, doctor.Options{Roots: roots})
	if err != nil || len(above(report)) > 0 {
		t.Errorf("trusted: %v, %v", err, report)
	}
	soon := func() time.Time { return end.Add(-48 * time.Hour) }
	report, err = doctor.Check(context.Background(), target, doctor.Options{Roots: roots, Now: soon})
	if err != nil || found(report, "tls-ends-soon") == nil {
		t.Errorf("ends soon: %v, %v", err, report)
	}
}

// TestNothing: what cannot be asked is an error, not a finding.
func TestNothing(t *testing.T) {
	for target, want := range map[string]error{
		"http://127.0.0.1:1/mcp": doctor.ErrNothing, "notes.example.com": doctor.ErrTarget, "ftp://notes.example.com": doctor.ErrTarget,
		"https://": doctor.ErrTarget, "https://ada:secret@notes.example.com/": doctor.ErrTarget, "https://notes.example.com/#x": doctor.ErrTarget, "": doctor.ErrTarget,
	} {
		report, err := doctor.Check(context.Background(), target, doctor.Options{})
		if !errors.Is(err, want) || report != nil {
			t.Errorf("%q: %v", target, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%v", err)
		}
	}
}

// slowly answers after a time, as far as the client waits.
type slowly struct {
	inner http.RoundTripper
	after time.Duration
	count int
}

func (s *slowly) RoundTrip(r *http.Request) (*http.Response, error) {
	s.count++
	select {
	case <-time.After(s.after):
		return s.inner.RoundTrip(r)
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// TestSlow: a slow server is named, and an examination ends in time.
func TestSlow(t *testing.T) {
	for _, c := range []struct {
		after time.Duration
		want  []string
		err   error
	}{
		{6 * time.Second, []string{"slow", "not-finished"}, nil},
		{time.Second, nil, nil},
		{time.Minute, nil, doctor.ErrNothing},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := healthy(notes, issuer).open()
			begin := time.Now()
			report, err := doctor.Check(context.Background(), s.target, doctor.Options{Transport: &slowly{inner: s, after: c.after}, Now: func() time.Time { return now }})
			if took := time.Since(begin); took > doctor.MaxTime {
				t.Errorf("after %s each, it took %s", c.after, took)
			}
			if !errors.Is(err, c.err) {
				t.Fatalf("after %s: %v", c.after, err)
			}
			for _, id := range c.want {
				if found(report, id) == nil {
					t.Errorf("after %s: no %s in %v", c.after, id, above(report))
				}
			}
		})
	}
}

// TestBounds: a server that names many others costs no more requests than the bound.
func TestBounds(t *testing.T) {
	s := healthy(notes, issuer)
	many := []string{}
	for _, name := range strings.Fields("a b c d e f g h") {
		many = append(many, "https://"+name+".example.org/tenant")
	}
	s.resource["authorization_servers"] = many
	transport := &slowly{inner: s.open()}
	report, err := doctor.Check(context.Background(), s.target, doctor.Options{Transport: transport, Now: func() time.Time { return now }})
	if err != nil || transport.count > doctor.MaxRequests {
		t.Errorf("%d requests, %v", transport.count, err)
	}
	if f := found(report, "resource-several-servers"); f == nil || len(f.Saw) > 500 {
		t.Errorf("%+v", f)
	}
	if n := len(report.Findings); n > 40 {
		t.Errorf("%d findings", n)
	}
}
