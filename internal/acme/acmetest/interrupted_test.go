package acmetest

import (
	"encoding/base64"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gatehouse.example/internal/acme"
	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/redis/redistest"
	"gatehouse.example/storage/storagetest"
)

// finalize begins the path at which Pebble issues.
const finalize = "/finalize-order/"

// hold keeps the first request that reaches a path until it is let go. Reached is closed when it is there.
func (a *authority) hold(path string) (reached <-chan struct{}, proceed func()) {
	there, free := make(chan struct{}), make(chan struct{})
	first := sync.OnceFunc(func() {
		close(there)
		<-free
	})
	before := func(r *http.Request) bool {
		if r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, path) {
			first()
		}
		return r.Context().Err() == nil // who asked may be gone
	}
	a.before.Store(&before)
	return there, sync.OnceFunc(func() { close(free) })
}

// A process that is killed while it orders, at the moment when the authority would issue: another one
// takes the lock when its lease has ended, orders with the same account, and gets the certificate.
func TestOrderOfAKilledProcessIsTakenOver(t *testing.T) {
	a := newAuthority(t, 90*24*time.Hour)
	store := redistest.Start(t, redistest.Config{})
	issuing, proceed := a.hold(finalize)
	t.Cleanup(proceed)
	addr, kill := a.worker(t, store.URL())
	a.https.leads.Store(addr)
	<-issuing
	other, _ := a.worker(t, store.URL())
	kill()
	a.https.leads.Store(other)
	proceed()
	until(t, "the other process presents a certificate", func() bool { _, err := shake(other, name); return err == nil })
	if orders, accounts := a.orders.Load(), a.accounts.Load(); orders != 2 || accounts != 1 {
		t.Errorf("%d orders by %d accounts", orders, accounts)
	}
}

// A server that is stopped while it orders ends at once and gives up the lock: the next one need not
// wait for the end of the lease, which here is longer than the test.
func TestStopDuringAnOrder(t *testing.T) {
	a := newAuthority(t, 90*24*time.Hour)
	store := a.store(t)
	issuing, proceed := a.hold(finalize)
	t.Cleanup(proceed)
	lasting := func(v *acme.Vault) { v.Lease = time.Hour }
	first := a.run(t, store, lasting)
	<-issuing
	first.stop()
	next := a.run(t, store, lasting)
	proceed()
	until(t, "the next one presents a certificate", func() bool { return next.serial() != "" })
	if accounts := a.accounts.Load(); accounts != 1 {
		t.Errorf("%d accounts", accounts)
	}
}

// A store that takes nothing from the moment when the authority issues: the certificate is written when the
// store takes it, and there is no second order. While it is full the certificate in use is presented.
func TestStoreStallsDuringAnOrder(t *testing.T) {
	a := newAuthority(t, 90*24*time.Hour)
	store := a.store(t)
	issuing, proceed := a.hold(finalize)
	t.Cleanup(proceed)
	s := a.run(t, store, nil)
	<-issuing
	before := a.faults.Puts()
	a.faults.SetRoom(storage.RoomNone)
	proceed()
	until(t, "it tries to write again and again", func() bool { return a.faults.Puts() > before+1 })
	a.faults.SetDown(true)
	a.faults.SetRoom(storage.RoomEnough)
	a.faults.SetDown(false)
	until(t, "there is a certificate", func() bool { return s.serial() != "" })
	if orders := a.orders.Load(); orders != 1 {
		t.Errorf("%d orders", orders)
	}
	number := s.serial()
	a.faults.SetRoom(storage.RoomNone)
	if got := s.serial(); got != number || len(s.Missing()) > 0 {
		t.Errorf("with a full store it presents %q, before %q", got, number)
	}
}

// Several names have a certificate each, by one account. One that the authority refuses keeps no other
// from having its own.
func TestSeveralNames(t *testing.T) {
	a := newAuthority(t, 90*24*time.Hour)
	const second = "mcp.example.com"
	s := a.run(t, a.store(t), nil, second, refused)
	until(t, "both have certificates", func() bool {
		one, err := shake(s.addr, name)
		two, other := shake(s.addr, second)
		return err == nil && other == nil && one.VerifyHostname(name) == nil && two.VerifyHostname(second) == nil && one.VerifyHostname(second) != nil
	})
	if _, err := shake(s.addr, refused); err == nil {
		t.Error("the refused name has a certificate")
	}
	if missing := s.Missing(); len(missing) != 1 || missing[0] != refused || !s.Expires().Equal(time.Unix(0, 0)) {
		t.Errorf("missing are %v, the first end is %s", missing, s.Expires())
	}
	if accounts := a.accounts.Load(); accounts != 1 {
		t.Errorf("%d accounts", accounts)
	}
}

// serve starts the authorization server over a store.
func (a *authority) serve(t *testing.T, store string, more ...string) *running {
	t.Helper()
	args := []string{"serve", "--issuer", "https://" + name, "--store", store, "--registration", "closed", "--client-documents", "off",
		"--config", config(t), "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--drain", "0s",
		"--acme-names", name, "--acme-directory", a.directory(), "--acme-roots", a.roots, "--acme-agree-terms"}
	return start(t, []string{"AUTHZ_MASTER_KEYS=" + base64.StdEncoding.EncodeToString([]byte("0123456789abcdefghijklmnopqrstuv"))}, append(args, more...)...)
}

// gateway starts a gateway with a folder.
func (a *authority) gateway(t *testing.T, folder string, more ...string) *running {
	t.Helper()
	args := []string{"gateway", "--resource", "https://" + name + "/mcp", "--upstream", "http://127.0.0.1:9/mcp", "--issuer", "https://login.example.com",
		"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--drain", "0s", "--acme-names", name, "--acme-folder", folder,
		"--acme-directory", a.directory(), "--acme-roots", a.roots, "--acme-agree-terms"}
	return start(t, nil, append(args, more...)...)
}

// The authorization server by HTTP-01, with settings that are reloaded while the authority issues: the
// order goes on, and is the only one.
func TestServerByHTTPAndReloads(t *testing.T) {
	a := newAuthority(t, 90*24*time.Hour)
	issuing, proceed := a.hold(finalize)
	t.Cleanup(proceed)
	store := redistest.Start(t, redistest.Config{})
	r := a.serve(t, store.URL(), "--no-acme-tls-alpn", "--acme-http-listen", "127.0.0.1:0")
	a.http.leads.Store(r.shown["HTTP-01 on"])
	<-issuing
	for range 2 {
		out, err := exec.Command(program(t), "reload", "--admin-listen", r.shown["admin on"]).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "Nothing has changed") {
			t.Errorf("authz reload: %s, %v", out, err)
		}
	}
	proceed()
	until(t, "there is a certificate", func() bool { return r.number() != "" })
	if orders := a.orders.Load(); orders != 1 {
		t.Errorf("%d orders", orders)
	}
}

// Two gateways with one folder, by TLS-ALPN-01: one orders, the other answers the challenge, both present
// the certificate. One that is told to stop while it orders ends, and the other goes on.
func TestTwoGatewaysOneFolder(t *testing.T) {
	a := newAuthority(t, 90*24*time.Hour)
	folder := filepath.Join(t.TempDir(), "acme")
	ordering, proceed := a.hold(newOrder)
	t.Cleanup(proceed)
	first := a.gateway(t, folder)
	<-ordering
	second := a.gateway(t, folder)
	a.https.leads.Store(second.shown["listening on"])
	proceed()
	until(t, "both present a certificate", func() bool { return first.number() != "" && second.number() != "" })
	if first.number() != second.number() || a.orders.Load() != 1 || a.accounts.Load() != 1 {
		t.Errorf("%d orders by %d accounts; certificates %s and %s", a.orders.Load(), a.accounts.Load(), first.number(), second.number())
	}
}

// A program ends on SIGTERM while the authority is asked, with status 0, and the next one gets the
// certificate.
func TestSignalDuringAnOrder(t *testing.T) {
	a := newAuthority(t, 90*24*time.Hour)
	folder := filepath.Join(t.TempDir(), "acme")
	issuing, proceed := a.hold(finalize)
	t.Cleanup(proceed)
	first := a.gateway(t, folder)
	a.https.leads.Store(first.shown["listening on"])
	<-issuing
	if status := first.end(syscall.SIGTERM); status != 0 {
		t.Errorf("exit status %d: %s", status, first.stderr)
	}
	proceed()
	next := a.gateway(t, folder)
	a.https.leads.Store(next.shown["listening on"])
	until(t, "the next one presents a certificate", func() bool { return next.number() != "" })
}

// store opens a store in this process, whose faults are those of the authority.
func (a *authority) store(t *testing.T) *storage.Store {
	t.Helper()
	backend, err := redis.Open(t.Context(), redis.Options{URL: "embedded:"})
	if err != nil {
		t.Fatal(err)
	}
	a.faults = storagetest.NewFaults(backend)
	store, err := storage.New(a.faults, storage.Options{Issuer: "https://" + name, MasterKeys: [][]byte{make([]byte, 32)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}
