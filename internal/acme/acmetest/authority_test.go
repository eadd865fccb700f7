// Package acmetest has tests of certificates from an authority, which is Pebble: servers of this
// project, as programs and in the process, order from it.
package acmetest

import (
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
	"github.com/miekg/dns"

	"gatehouse.example/storage/storagetest"
)

// patience is the time for which a test waits for what must happen.
const patience = 5 * time.Minute

// The paths of Pebble for new accounts and orders.
const (
	newAccount = "/sign-me-up"
	newOrder   = "/order-plz"
)

// refused is a name for which the authority issues nothing.
const refused = "blocked.example.com"

// authority is a running Pebble. It finds every name at one door for each challenge.
type authority struct {
	*httptest.Server
	roots            string // a file
	https, http      *door
	accounts, orders atomic.Int64
	closed           atomic.Bool                                // it answers 503
	before           atomic.Pointer[func(r *http.Request) bool] // whether a request is answered, may be nil
	faults           *storagetest.Faults                        // of the store in this process, if there is one
}

// newAuthority starts Pebble, whose certificates live for a time.
func newAuthority(t *testing.T, life time.Duration) *authority {
	t.Helper()
	t.Setenv("PEBBLE_VA_NOSLEEP", "1")
	t.Setenv("PEBBLE_WFE_NONCEREJECT", "0")
	a := &authority{https: newDoor(t), http: newDoor(t)}
	quiet := log.New(io.Discard, "", 0)
	memory := db.NewMemoryStore()
	if err := memory.AddBlockedDomain(refused); err != nil {
		t.Fatal(err)
	}
	issuing := ca.New(quiet, memory, "", "ecdsa", 0, 1, map[string]ca.Profile{"default": {Description: "The default", ValidityPeriod: uint64(life.Seconds())}})
	checking := va.New(quiet, a.http.port(t), a.https.port(t), true, resolver(t), memory)
	front := wfe.New(quiet, memory, checking, issuing, []string{"ca.example.com"}, true, false, 1, 1)
	handler := front.Handler()
	a.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.closed.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if before := a.before.Load(); before != nil && !(*before)(r) {
			return
		}
		switch {
		case r.Method == http.MethodPost && r.URL.Path == newAccount:
			a.accounts.Add(1)
		case r.Method == http.MethodPost && r.URL.Path == newOrder:
			a.orders.Add(1)
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(a.Close)
	a.roots = filepath.Join(t.TempDir(), "roots.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate().Raw})
	if err := os.WriteFile(a.roots, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

// directory returns the URL of the directory.
func (a *authority) directory() string { return a.URL + wfe.DirectoryPath }

// resolver answers that every name is this machine, and returns its address.
func resolver(t *testing.T) string {
	t.Helper()
	socket := listen(t)
	ready := make(chan struct{})
	server := &dns.Server{Listener: socket, NotifyStartedFunc: func() { close(ready) }, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, asked *dns.Msg) {
		answer := new(dns.Msg).SetReply(asked)
		if q := asked.Question[0]; q.Qtype == dns.TypeA {
			answer.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET}, A: net.IPv4(127, 0, 0, 1)}}
		}
		_ = w.WriteMsg(answer)
	})}
	go func() { _ = server.ActivateAndServe() }()
	<-ready
	t.Cleanup(func() { _ = server.Shutdown() })
	return socket.Addr().String()
}

// door is an address behind which is one server or another, as behind a balancer.
type door struct {
	net.Listener
	leads atomic.Value // to an address
}

func newDoor(t *testing.T) *door {
	t.Helper()
	d := &door{Listener: listen(t)}
	go func() {
		for {
			from, err := d.Accept()
			if err != nil {
				return
			}
			go d.pass(from)
		}
	}()
	return d
}

func (d *door) pass(from net.Conn) {
	defer from.Close()
	at, _ := d.leads.Load().(string)
	to, err := net.Dial("tcp", at)
	if err != nil {
		return
	}
	defer to.Close()
	go func() {
		_, _ = io.Copy(to, from)
		_ = to.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(from, to)
}

func (d *door) port(t *testing.T) int {
	t.Helper()
	_, text, _ := net.SplitHostPort(d.Addr().String())
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}
