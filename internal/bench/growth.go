package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"gatehouse.example/storage"
	redisstore "gatehouse.example/storage/redis"
)

// grantBytes is what a live grant takes in Redis.
type grantBytes struct {
	Server string  `json:"server"`
	Grants int     `json:"grants"`
	People int     `json:"people"`
	Bytes  float64 `json:"bytes"`
}

// heldGrant is a grant that was stored beforehand: the client that has it, and its refresh token.
type heldGrant struct{ client, token string }

// share returns the part of one worker of the grants that were stored beforehand; none if there
// are fewer than workers.
func (t *target) share() []heldGrant {
	n := len(t.held) / max(1, t.workers)
	if n == 0 {
		return nil
	}
	from := t.given * n
	t.given++
	return t.held[from : from+n : from+n]
}

// writers is how many grants are stored at once beforehand.
const writers = 64

// preload brings each of our servers to the numbers of clients and of live grants, which are refreshed then,
// in turn, instead of one for each connection. It writes them as an exchange leaves them.
func (s *stand) preload(ctx context.Context, r *report, ours []*target, n, grants int) error {
	for i, t := range ours {
		if err := t.register(ctx, s.clients); err != nil {
			return fmt.Errorf("registering clients: %w", err)
		}
		if grants <= len(t.held) {
			continue
		}
		bytes, err := s.grow(ctx, t, s.database(n*len(s.binaries)+i), grants)
		if err != nil {
			return fmt.Errorf("storing grants: %w", err)
		}
		r.GrantBytes = append(r.GrantBytes, grantBytes{Server: t.name, Grants: grants, People: s.people, Bytes: bytes})
	}
	return nil
}

// register registers clients over HTTP until there are n. The first one is that of all operations.
func (t *target) register(ctx context.Context, n int) error {
	if len(t.clients) == 0 {
		t.clients = []string{t.client}
	}
	had := len(t.clients)
	if had >= n {
		return nil
	}
	t.clients = append(t.clients, make([]string, n-had)...)
	errs := make([]error, 16)
	var group sync.WaitGroup
	for first := range errs {
		group.Go(func() {
			w := t.wireTo(first)
			defer w.close()
			for i := had + first; i < n && errs[first] == nil; i += len(errs) {
				errs[first] = cmp.Or(ctx.Err(), insist(func() (err error) {
					t.clients[i], err = registered(w)
					return err
				}))
			}
		})
	}
	group.Wait()
	return cmp.Or(errs...)
}

// grow stores people and grants until there are enough of them, and returns what each grant that
// was added takes in Redis.
func (s *stand) grow(ctx context.Context, t *target, database string, grants int) (bytes float64, err error) {
	backend, err := redisstore.Open(ctx, redisstore.Options{URL: database, PoolSize: writers})
	if err != nil {
		return 0, err
	}
	store, err := storage.New(backend, storage.Options{Issuer: issuer, MasterKeys: [][]byte{s.key[:]}, WriteTime: answerTime})
	if err != nil {
		return 0, errors.Join(err, backend.Close())
	}
	defer store.Close()
	if len(t.people) == 0 {
		if t.people, err = addPeople(ctx, store, s.people); err != nil {
			return 0, err
		}
	}
	had := len(t.held)
	if had == 0 {
		err = t.useClients(ctx, store)
	}
	before, wrong := s.redis.info()
	if err = cmp.Or(err, wrong); err != nil {
		return 0, err
	}
	if err := t.addGrants(ctx, store, grants-had); err != nil {
		return 0, err
	}
	after, err := s.redis.info()
	return float64(after.memory-before.memory) / float64(grants-had), err
}

// useClients records that each client was used, as one is that has a grant: the first refresh would do
// it otherwise.
func (t *target) useClients(ctx context.Context, store *storage.Store) error {
	errs := make([]error, writers)
	var group sync.WaitGroup
	for w := range errs {
		group.Go(func() {
			for i := w; i < len(t.clients) && errs[w] == nil; i += writers {
				errs[w] = store.UseClient(ctx, t.clients[i], store.Now())
			}
		})
	}
	group.Wait()
	return cmp.Or(errs...)
}

// addGrants stores n more grants, many at once, the people taking turns.
func (t *target) addGrants(ctx context.Context, store *storage.Store, n int) error {
	had := len(t.held)
	t.held = append(t.held, make([]heldGrant, n)...)
	var next atomic.Int64
	next.Store(int64(had))
	errs := make([]error, writers)
	var group sync.WaitGroup
	for w := range errs {
		group.Go(func() {
			for i := int(next.Add(1) - 1); i < had+n && errs[w] == nil; i = int(next.Add(1) - 1) {
				client := t.clients[i%len(t.clients)]
				t.held[i].client = client
				t.held[i].token, errs[w] = addGrant(ctx, store, client, t.people[i%len(t.people)])
			}
		})
	}
	group.Wait()
	return cmp.Or(errs...)
}

// addPeople stores people without a password and returns their subjects.
func addPeople(ctx context.Context, store *storage.Store, n int) (subjects []string, err error) {
	for i := range n {
		subject, err := store.NewID()
		if err == nil {
			err = store.CreateUser(ctx, storage.User{Name: fmt.Sprintf("person%d", i), Subject: subject, Created: store.Now()})
		}
		if err != nil {
			return nil, err
		}
		subjects = append(subjects, subject)
	}
	return subjects, nil
}

// addGrant stores a grant whose code was redeemed, and returns its refresh token.
func addGrant(ctx context.Context, store *storage.Store, client, subject string) (string, error) {
	scopes := []string{"notes:read", "notes:write"}
	now := store.Now()
	g, _, err := store.PrepareGrant(storage.NewGrant{
		ClientID: client, Subject: subject, UserName: "person", Access: storage.Access{{Resource: resource, Scopes: scopes}},
		Resources: []string{resource}, Scopes: scopes, AuthTime: now, ClientName: "A client", From: "127.0.0.0/24",
		RedirectURI: redirect, Challenge: challenge(), Refreshable: true, CodeTTL: time.Minute,
	})
	if err == nil {
		err = store.CreateGrant(ctx, g)
	}
	if err == nil {
		g, err = store.Grant(ctx, g.ID)
	}
	if err == nil {
		g, err = store.Redeem(ctx, g, storage.Lifetime{
			Expires: now.Add(90 * 24 * time.Hour), IdleExpires: now.Add(30 * 24 * time.Hour), AccessUntil: now.Add(10 * time.Minute),
		}, resource)
	}
	if err != nil {
		return "", err
	}
	return store.RefreshTokenOf(g, g.Generation)
}
