package acme

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/storagetest"
)

const (
	directory = "https://ca.example.com/directory"
	host      = "auth.example.com"
	lockName  = "issue_cert_" + host
	folderOf  = "certificates/ca.example.com-directory/" + host + "/"
)

// shared is a store that several vaults use.
type shared struct {
	*storage.Store
	faults *storagetest.Faults
	now    time.Time
}

func open(t *testing.T) *shared {
	t.Helper()
	backend, err := redis.Open(t.Context(), redis.Options{URL: "embedded:"})
	if err != nil {
		t.Fatal(err)
	}
	s := &shared{faults: storagetest.NewFaults(backend), now: time.Now()}
	if s.Store, err = storage.New(s.faults, storage.Options{Issuer: "https://" + host, MasterKeys: [][]byte{make([]byte, 32)}, WriteTime: time.Minute}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// vault is one process over the store, which shows no sign of life by itself. Its waiting is one step
// of the clock.
func (s *shared) vault(wait func()) *Vault {
	v := NewVault(s.Store, directory)
	v.now = func() time.Time { return s.now }
	v.sleep = func(ctx context.Context, d time.Duration) error {
		if d == leaseTime/beats {
			<-ctx.Done()
			return ctx.Err()
		}
		s.now = s.now.Add(d)
		wait()
		return ctx.Err()
	}
	return v
}

// made returns a certificate and its key in PEM.
func made(t *testing.T, number int64) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(number), DNSNames: []string{host}, NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})
}

func must(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) || want == nil && err != nil {
		t.Fatalf("%s: %v; want %v", what, err, want)
	}
}

// file returns what is in the folder of the name, empty for nothing.
func (s *shared) file(t *testing.T, name string) string {
	t.Helper()
	data, err := s.vault(func() {}).Load(t.Context(), folderOf+name)
	if err != nil {
		must(t, "Load", err, fs.ErrNotExist)
	}
	return string(data)
}

// A lock of a holder who shows signs of life is never taken; that of a dead one is, after a minute in
// which nothing was seen of it.
func TestLockOfTheDeadIsTakenOver(t *testing.T) {
	s, ctx := open(t), t.Context()
	first := s.vault(func() {})
	must(t, "Lock", first.Lock(ctx, lockName), nil)
	steps := 0
	second := s.vault(func() {
		if steps++; steps <= 300 && steps%50 == 0 { // alive for five minutes, at long intervals
			must(t, "a sign of life", first.change(ctx, strings.TrimSuffix(folderOf, "/"), func(f *folder) error { return first.holds(strings.TrimSuffix(folderOf, "/"), f) }), nil)
		}
	})
	must(t, "Lock of the second", second.Lock(ctx, lockName), nil)
	if steps != 300+int(leaseTime/pollTime) {
		t.Errorf("the lock was taken over after %d s; the holder was seen last after 300", steps)
	}
}

// Clocks of processes are not compared: one whose clock is a day ahead waits as long as any other.
func TestClocksAreNotCompared(t *testing.T) {
	s, ctx := open(t), t.Context()
	must(t, "Lock", s.vault(func() {}).Lock(ctx, lockName), nil)
	for _, ahead := range []time.Duration{24 * time.Hour, -24 * time.Hour} {
		waited := 0
		other := s.vault(func() { waited++ })
		other.now = func() time.Time { return s.now.Add(ahead) }
		must(t, "Lock of one with another clock", other.Lock(ctx, lockName), nil)
		if waited != int(leaseTime/pollTime) {
			t.Errorf("a clock that is %s ahead: the lock was taken after %d s", ahead, waited)
		}
	}
}

// Whoever lost a lock writes nothing, neither while the next one holds it nor when that one is
// done, and cannot release it.
func TestLateWriterIsRefused(t *testing.T) {
	s, ctx := open(t), t.Context()
	late, next := s.vault(func() {}), s.vault(func() {})
	oldCert, oldKey := made(t, 1)
	newCert, newKey := made(t, 2)
	must(t, "Lock", late.Lock(ctx, lockName), nil)
	must(t, "Lock of the next", next.Lock(ctx, lockName), nil) // a minute later
	tries := func(when string) {
		must(t, when+": Store of a certificate", late.Store(ctx, folderOf+host+".crt", oldCert), errLost)
		must(t, when+": Store of a key", late.Store(ctx, folderOf+host+".key", oldKey), errLost)
		must(t, when+": Store of a description", late.Store(ctx, folderOf+host+".json", []byte("late")), errLost)
		must(t, when+": Delete", late.Delete(ctx, folderOf+host+".crt"), errLost)
	}
	tries("while another holds the lock")
	must(t, "Store", next.Store(ctx, folderOf+host+".crt", newCert), nil)
	must(t, "Store", next.Store(ctx, folderOf+host+".key", newKey), nil)
	must(t, "Store", next.Store(ctx, folderOf+host+".json", []byte("next")), nil)
	tries("while another holds the lock")
	must(t, "Unlock", next.Unlock(ctx, lockName), nil)
	tries("after the other has released it")
	must(t, "Unlock of the late one", late.Unlock(ctx, lockName), nil)
	must(t, "Store without a lock", late.Store(ctx, folderOf+host+".key", oldKey), errLost)
	if s.file(t, host+".crt") != string(newCert) || s.file(t, host+".key") != string(newKey) || s.file(t, host+".json") != "next" {
		t.Error("the files are not those of the last holder")
	}
}

// Of many who wait for a lock that becomes stale one takes it, and the next waits for its release.
func TestOneTakesALock(t *testing.T) {
	s, ctx := open(t), t.Context()
	must(t, "Lock", s.vault(func() {}).Lock(ctx, lockName), nil)
	id := strings.TrimSuffix(folderOf, "/")
	one, other := s.vault(func() {}), s.vault(func() {})
	f, r, err := one.read(ctx, id)
	must(t, "read", err, nil)
	must(t, "take", one.take(ctx, id, f, r), nil)
	must(t, "take by another that read the same", other.take(ctx, id, f, r), storage.ErrConflict)
	must(t, "Unlock", one.Unlock(ctx, lockName), nil)
	must(t, "Lock", other.Lock(ctx, lockName), nil)
	must(t, "Close", other.Close(), nil)
	waited := 0
	must(t, "Lock after Close", s.vault(func() { waited++ }).Lock(ctx, lockName), nil)
	if waited > 0 {
		t.Errorf("a lock that was given up is free after %d s", waited)
	}
}

// Who reads a free lock that another takes before them waits for the release of that one.
func TestOneIsFaster(t *testing.T) {
	s, ctx := open(t), t.Context()
	other, waited, first := s.vault(func() {}), 0, true
	one := s.vault(func() {
		if waited++; waited == 3 {
			must(t, "Unlock", other.Unlock(ctx, lockName), nil)
		}
	})
	must(t, "Lock", other.Lock(ctx, lockName), nil)
	must(t, "Unlock", other.Unlock(ctx, lockName), nil)
	one.now = func() time.Time { // asked between reading and taking
		if first {
			first = false
			must(t, "Lock of the faster one", other.Lock(ctx, lockName), nil)
		}
		return s.now
	}
	must(t, "Lock", one.Lock(ctx, lockName), nil)
	if waited != 3 {
		t.Errorf("the lock was taken after %d s; it was released after 3", waited)
	}
}

// A holder shows that it lives, each quarter of a lease, until it gives the lock up.
func TestHolderShowsThatItLives(t *testing.T) {
	s, ctx := open(t), t.Context()
	id := strings.TrimSuffix(folderOf, "/")
	v, beat, ended := s.vault(func() {}), make(chan time.Duration), make(chan struct{})
	v.sleep = func(ctx context.Context, d time.Duration) error {
		select {
		case beat <- d:
			return nil
		case <-ctx.Done():
			close(ended)
			return ctx.Err()
		}
	}
	must(t, "Lock", v.Lock(ctx, lockName), nil)
	var seen []storage.Version
	for range 3 { // who sleeps again has shown it
		if d := <-beat; d != leaseTime/4 {
			t.Errorf("a sign of life after %s", d)
		}
		_, r, err := v.read(ctx, id)
		must(t, "read", err, nil)
		seen = append(seen, r.Version())
	}
	if seen[0] == seen[2] {
		t.Error("the record is the same after two quarters of a lease")
	}
	must(t, "Unlock", v.Unlock(ctx, lockName), nil)
	<-ended
}

// Whoever lost the lock of the accounts writes none, and a name that guards no files has a lock of its own.
func TestOtherLocks(t *testing.T) {
	s, ctx := open(t), t.Context()
	const accounts, account = "register_acme_account_ops@example.com", "acme/ca.example.com-directory/users/ops@example.com/ops@example.com.key"
	late, next := s.vault(func() {}), s.vault(func() {})
	for _, name := range []string{accounts, "anything"} {
		must(t, "Lock", late.Lock(ctx, name), nil)
		began := s.now
		must(t, "Lock of the next", next.Lock(ctx, name), nil)
		if waited := s.now.Sub(began); waited != leaseTime {
			t.Errorf("%s was taken after %s", name, waited)
		}
	}
	must(t, "Store of the late one", late.Store(ctx, account, []byte("late")), errLost)
	must(t, "Store", next.Store(ctx, account, []byte("next")), nil)
	if kept, err := late.Load(ctx, account); err != nil || string(kept) != "next" {
		t.Errorf("the account is %q, %v", kept, err)
	}
}

// A certificate is replaced together with its key, in whatever order they come, and never deleted.
func TestCertificateAndKeyAreReplacedTogether(t *testing.T) {
	cert1, key1 := made(t, 1)
	cert2, key2 := made(t, 2)
	for name, order := range map[string][]string{"certificate first": {".crt", ".key"}, "key first": {".key", ".crt"}} {
		t.Run(name, func(t *testing.T) {
			s, ctx := open(t), t.Context()
			v := s.vault(func() {})
			must(t, "Lock", v.Lock(ctx, lockName), nil)
			stores := func(files map[string][]byte, ends ...string) {
				for _, end := range ends {
					must(t, "Store", v.Store(ctx, folderOf+host+end, files[end]), nil)
				}
			}
			stores(map[string][]byte{".crt": cert1, ".key": key1}, order...)
			next := map[string][]byte{".crt": cert2, ".key": key2}
			stores(next, order[0])
			if s.file(t, host+".crt") != string(cert1) || s.file(t, host+".key") != string(key1) {
				t.Error("half of a new pair is in use")
			}
			must(t, "Delete", v.Delete(ctx, folderOf+host+order[0]), nil)
			must(t, "Delete", v.Delete(ctx, folderOf+host+order[1]), nil)
			if s.file(t, host+".crt") != string(cert1) || s.file(t, host+".key") != string(key1) {
				t.Error("a whole pair was deleted")
			}
			stores(next, order...)
			if s.file(t, host+".crt") != string(cert2) || s.file(t, host+".key") != string(key2) {
				t.Error("the new pair is not in use")
			}
		})
	}
}

// While the store does not answer or takes nothing, what was issued waits for it.
func TestWhatWasIssuedWaitsForTheStore(t *testing.T) {
	s, ctx := open(t), t.Context()
	waited := 0
	v := s.vault(func() {
		if waited++; waited == 3 {
			s.faults.SetDown(false)
		}
	})
	must(t, "Lock", v.Lock(ctx, lockName), nil)
	s.faults.SetDown(true)
	must(t, "Store", v.Store(ctx, folderOf+host+".json", []byte("{}")), nil)
	if s.file(t, host+".json") != "{}" || waited != 3 {
		t.Errorf("%q after %d s", s.file(t, host+".json"), waited)
	}
	s.faults.SetRoom(storage.RoomNone) // full, or read-only
	waited = 0
	v = s.vault(func() {
		if waited++; waited == 3 {
			s.faults.SetRoom(storage.RoomEnough)
		}
	})
	must(t, "Store into a full store", v.Store(ctx, folderOf+host+".json", []byte("{\"full\":1}")), nil)
	if s.file(t, host+".json") != "{\"full\":1}" || waited != 3 {
		t.Errorf("%q after %d s", s.file(t, host+".json"), waited)
	}
	s.faults.SetDown(true)
	must(t, "Store of an answer", v.Store(ctx, "acme/ca.example.com-directory/challenge_tokens/"+host+".json", []byte("{}")), storage.ErrUnavailable)
}

// A vault has the paths that certmagic uses, and no others.
func TestPaths(t *testing.T) {
	s, ctx := open(t), t.Context()
	v := s.vault(func() {})
	const users = "acme/ca.example.com-directory/users"
	for _, account := range []string{"ann@example.com", "ops@example.com"} {
		for _, end := range []string{".json", ".key"} {
			must(t, "Store", v.Store(ctx, users+"/"+account+"/"+account+end, []byte(account)), nil)
		}
	}
	found, err := v.List(ctx, users, false)
	if want := []string{users + "/ann@example.com", users + "/ops@example.com"}; err != nil || !slices.Equal(found, want) {
		t.Errorf("accounts %v, %v", found, err)
	}
	if all, err := v.List(ctx, users, true); err != nil || len(all) != 4 {
		t.Errorf("files of accounts %v, %v", all, err)
	}
	account, err := v.Stat(ctx, users+"/ann@example.com")
	if err != nil || account.IsTerminal || account.Modified.IsZero() {
		t.Errorf("an account: %+v, %v", account, err)
	}
	must(t, "Delete", v.Delete(ctx, users+"/ann@example.com/ann@example.com.key"), nil)
	if v.Exists(ctx, users+"/ann@example.com/ann@example.com.key") || !v.Exists(ctx, users+"/ann@example.com") {
		t.Error("deleting the key of an account deletes something else")
	}
	for _, none := range []string{"certificates", "ocsp/" + host, "rw_test_1", "acme/x", ""} {
		if err := v.Store(ctx, none, nil); err == nil {
			t.Errorf("there is a place for %q", none)
		}
	}
}
