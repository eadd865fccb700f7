package acme

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/caddyserver/certmagic"

	"gatehouse.example/storage"
)

const (
	// leaseTime is [Vault.Lease] unless a test sets another one.
	leaseTime = time.Minute
	// beats is how many signs of life a holder gives in this time.
	beats = 4
	// pollTime is the time between two looks of somebody who waits.
	pollTime = time.Second
)

// errLost refuses a write under a lock that somebody else has taken over.
var errLost = errors.New("acme: the lock was taken over by another process: nothing was written")

// lease is a lock that this process took.
type lease struct {
	holder string
	stop   context.CancelFunc
}

// guarded returns the record with the lock of a name: the one with the files that the lock guards, so
// that one write can depend on it.
func (v *Vault) guarded(name string) string {
	if host, ok := strings.CutPrefix(name, "issue_cert_"); ok {
		return path.Join(certificates, v.authority, certmagic.StorageKeys.Safe(host))
	}
	if strings.HasPrefix(name, "register_acme_account") {
		return path.Join(atAuthority, v.authority, "users")
	}
	return path.Join(lockAlone, certmagic.StorageKeys.Safe(name))
}

// Lock implements [certmagic.Locker]. A lock is free when nobody holds it, or when its record has not
// changed for the time of a lease, as the clock of who waits measures it: clocks of different processes
// are not compared.
func (v *Vault) Lock(ctx context.Context, name string) error {
	id := v.guarded(name)
	var seen storage.Version
	var since time.Time
	for {
		f, r, err := v.read(ctx, id)
		if err != nil {
			return err
		}
		if r.Version() != seen {
			seen, since = r.Version(), v.now()
		}
		if f.Holder == "" || v.now().Sub(since) >= v.Lease {
			switch err := v.take(ctx, id, f, r); {
			case err == nil:
				return nil
			case !errors.Is(err, storage.ErrConflict):
				return err
			}
			continue // somebody was faster
		}
		if err := v.sleep(ctx, pollTime); err != nil {
			return err
		}
	}
}

// take makes this process the holder of a lock if its record is still the one that was read.
func (v *Vault) take(ctx context.Context, id string, f folder, r storage.ACMERecord) error {
	f.Holder = rand.Text()
	if _, err := v.write(ctx, id, f, r); err != nil {
		return err
	}
	beating, stop := context.WithCancel(context.WithoutCancel(ctx))
	v.mu.Lock()
	if stale := v.held[id]; stale != nil { // of this process, which the store kept from showing that it lives
		stale.stop()
	}
	v.held[id] = &lease{f.Holder, stop}
	v.mu.Unlock()
	go v.beat(beating, id)
	return nil
}

// beat shows from time to time that the holder of a lock is alive, until ctx ends or the lock is lost.
func (v *Vault) beat(ctx context.Context, id string) {
	for v.sleep(ctx, v.Lease/beats) == nil {
		if err := v.change(ctx, id, func(f *folder) error { return v.holds(id, f) }); errors.Is(err, errLost) {
			return
		}
	}
}

// Unlock implements [certmagic.Locker]. A lock that was lost is left to who has it.
func (v *Vault) Unlock(ctx context.Context, name string) error {
	return v.release(ctx, v.guarded(name))
}

func (v *Vault) release(ctx context.Context, id string) error {
	err := v.change(ctx, id, func(f *folder) error {
		err := v.holds(id, f)
		f.Holder = ""
		return err
	})
	v.mu.Lock()
	defer v.mu.Unlock()
	if lease := v.held[id]; lease != nil {
		lease.stop()
		delete(v.held, id)
	}
	if errors.Is(err, errLost) {
		return nil
	}
	return err
}

// Close gives up the locks that are still held, so that nobody has to wait until they are stale.
func (v *Vault) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), v.store.WriteTime())
	defer cancel()
	v.mu.Lock()
	var ids []string
	for id := range v.held {
		ids = append(ids, id)
	}
	v.mu.Unlock()
	var errs []error
	for _, id := range ids {
		errs = append(errs, v.release(ctx, id))
	}
	return errors.Join(errs...)
}

// holds returns errLost unless this process holds the lock in a folder.
func (v *Vault) holds(id string, f *folder) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if lease := v.held[id]; lease == nil || lease.holder != f.Holder {
		return errLost
	}
	return nil
}

// mayWrite returns an error if a write needs a lock that this process does not hold. Halves of a
// certificate need it always. Other files need it if this process took it: certmagic writes when to renew
// a certificate, and forgets an account, without one.
func (v *Vault) mayWrite(p place, f *folder) error {
	v.mu.Lock()
	claimed := v.held[p.id] != nil
	v.mu.Unlock()
	if !claimed && !p.pair() {
		return nil
	}
	if err := v.holds(p.id, f); err != nil {
		return fmt.Errorf("%s: %w", path.Join(p.id, p.name), err)
	}
	return nil
}

// fit reports whether a key belongs to a certificate, both in PEM.
func fit(cert, key []byte) bool {
	_, err := tls.X509KeyPair(cert, key)
	return err == nil
}

// sleep waits for a time, or returns the error of a context that ends before.
func sleep(ctx context.Context, d time.Duration) error {
	wait := time.NewTimer(d)
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-wait.C:
		return nil
	}
}
