package dcr_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/dcr"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// sink is a backend that only counts writes.
type sink struct {
	storage.Backend
	writes int
}

func (s *sink) Room() storage.Room { return storage.RoomEnough }

func (s *sink) Put(_ context.Context, put storage.Put) (storage.Item, error) {
	s.writes++
	return storage.Item{Data: put.Data, Version: put.Operation}, nil
}

// bodies adds requests of real clients, and malformed ones, to a fuzz target.
func bodies(f *testing.F) {
	files, err := filepath.Glob("testdata/clients/*.json")
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds: ", err)
	}
	for _, file := range files {
		seed, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(seed))
	}
	f.Add(`{"redirect_uris":["javascript:x"],"REDIRECT_URIS":["https://a.example.com/"]}`)
	f.Add(`{"redirect_uris":["com.example.app:/cb"],"jwks":{"keys":[{"kty":"EC"}]},"client_name":"\u202e"}`)
	f.Add(with(`"client_name#de":"\u202e","client_uri#zh-Hant":"https://a.example.com/","client_name\u0023x-y":"z"`))
	f.Add(with(assertions(`"token_endpoint_auth_signing_alg":"ES256","jwks":` + keyP256)))
	f.Add(with(assertions(`"jwks_uri":"https://client.example.com/jwks"`)))
	f.Add(with(`"software_statement":"` + statement(f, jose.EdDSA, publisher, "", claims{"client_name": "x", "tos_uri#de": "https://a.example.com/"}) + `"`))
	f.Add(with(`"client_secret":"x","registration_access_token":"y","dpop_bound_access_tokens":true,"software_statement":"a.b.c"`))
}

// fuzzed are clients for a fuzz target. Their secrets are the same each time that dice is
// reset, so that the same input takes the same paths.
func fuzzed(f *testing.F, backend storage.Backend) (clients *dcr.Clients, store *storage.Store, reset func()) {
	dice := rand.NewChaCha8([32]byte{})
	now := func() time.Time { return start }
	store, err := storage.New(backend, storage.Options{Now: now, Rand: dice})
	if err != nil {
		f.Fatal(err)
	}
	config := dcr.Config{Store: store, Endpoint: registerURL, Scopes: []string{"notes:read"}, Logger: slog.New(slog.DiscardHandler), Now: now}
	trusting(publisher.Public())(&config)
	if clients, err = dcr.New(config); err != nil {
		f.Fatal(err)
	}
	return clients, store, func() { dice.Seed([32]byte{}) }
}

var refusalCodes = []string{"invalid_redirect_uri", "invalid_client_metadata", "invalid_software_statement", "unapproved_software_statement"}

// memory is a backend without goroutines and lists, for one user.
type memory struct {
	storage.Backend
	items map[string]storage.Item
}

func (m *memory) Room() storage.Room { return storage.RoomEnough }

func (m *memory) Get(_ context.Context, key string) (storage.Item, error) {
	item, ok := m.items[key]
	if !ok {
		return item, storage.ErrNotFound
	}
	return item, nil
}

func (m *memory) Put(_ context.Context, put storage.Put) (storage.Item, error) {
	if item := m.items[put.Key]; item.Version != put.If.Version() {
		return item, storage.ErrConflict
	}
	m.items[put.Key] = storage.Item{Data: put.Data, Version: put.Operation}
	return m.items[put.Key], nil
}

// FuzzRegister posts any body. An accepted one is stored once, and its redirect URIs
// come back byte for byte, each of them acceptable by itself. A refused one is not
// stored and gets one of the registered codes.
func FuzzRegister(f *testing.F) {
	bodies(f)
	backend := &sink{}
	clients, _, reset := fuzzed(f, backend)
	f.Fuzz(func(t *testing.T, body string) {
		reset()
		backend.writes = 0
		r := httptest.NewRequest(http.MethodPost, registerURL, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		a := serve(t, clients.Register(), r)
		if a.status == http.StatusCreated {
			assertFaithful(t, a, body, backend.writes)
			return
		}
		if backend.writes != 0 || !slices.Contains(refusalCodes, a.text("error")) || (a.status != http.StatusBadRequest && a.status != http.StatusRequestEntityTooLarge) {
			t.Fatalf("status %d %s, %d writes", a.status, a.raw, backend.writes)
		}
	})
}

// FuzzReplace puts any body as an update of a client. The client keeps its id, the token of
// the request stays valid, and a refused body changes nothing. Registration accepts every body
// that an update accepts, with the same result.
func FuzzReplace(f *testing.F) {
	bodies(f)
	backend := &memory{}
	clients, store, reset := fuzzed(f, backend)
	f.Fuzz(func(t *testing.T, body string) {
		reset()
		backend.items = map[string]storage.Item{}
		fix := &fixture{Clients: clients, store: store}
		m := fix.register(t, "")
		before := fix.stored(t, m.id)
		named := strings.Replace(body, "{", `{"client_id":"`+m.id+`",`, 1)
		a := fix.put(t, m.id, named, m.bearer())
		after := fix.stored(t, m.id)
		if after.ID != before.ID || after.Source != before.Source || after.Disabled || !after.Created.Equal(before.Created) || !after.Expires.Equal(before.Expires) {
			t.Fatalf("before %+v, after %+v", before, after)
		}
		if a.status != http.StatusOK {
			if !slices.Contains(refusalCodes, a.text("error")) || !reflect.DeepEqual(before, after) {
				t.Fatalf("status %d %s, after %+v", a.status, a.raw, after)
			}
		} else if registered := fix.post(t, named); registered.status != http.StatusCreated || registered.list("redirect_uris") != a.list("redirect_uris") || len(registered.body) < len(a.body) {
			t.Fatalf("updated %s, registered %s", a.raw, registered.raw)
		}
		if got := fix.get(t, m.id, m.bearer()); got.status != http.StatusOK {
			t.Fatalf("the token does not work any more: %s", got.raw)
		}
	})
}

func assertFaithful(t *testing.T, a answer, body string, writes int) {
	t.Helper()
	var sent map[string]json.RawMessage
	var asked []string
	if a.body["software_statement"] != nil { // it may say something else
		body = a.raw
	}
	if json.Unmarshal([]byte(body), &sent) != nil || json.Unmarshal(sent["redirect_uris"], &asked) != nil {
		t.Fatalf("accepted %q", body)
	}
	var unique []string
	for _, uri := range asked {
		if !slices.Contains(unique, uri) {
			unique = append(unique, uri)
		}
		if _, err := metadata.ParseRedirect(uri); err != nil {
			t.Fatalf("accepted %q: %v", uri, err)
		}
	}
	if got := a.list("redirect_uris"); got != strings.Join(unique, " ") || writes != 1 {
		t.Fatalf("registered %q with %d writes, asked for %q", got, writes, asked)
	}
	for _, member := range []string{"client_id", "registration_client_uri", "registration_access_token", "token_endpoint_auth_method"} {
		if a.text(member) == "" {
			t.Fatalf("no %s in %s", member, a.raw)
		}
	}
	if (a.body["jwks"] != nil && a.text("token_endpoint_auth_method") != "private_key_jwt") || a.list("response_types") != "code" || !strings.HasPrefix(a.list("grant_types"), "authorization_code") {
		t.Fatalf("registered %s", a.raw)
	}
}

// FuzzAssertion: only the assertion that was signed is accepted, and AssertionClientID
// returns the client that signed it.
func FuzzAssertion(f *testing.F) {
	x := newFixture(f, nil)
	s := newSigner(f, "ES256")
	client := s.client()
	good := s.good(f, start)
	for _, seed := range []string{good, "", "..", "e30.e30.e30", good + "=", strings.ToUpper(good), good[1:], good[:len(good)-1], s.sign(f, s.claims(start), map[string]any{"typ": nil, "crit": []string{"x"}})} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		id, named := dcr.AssertionClientID(raw)
		err := x.Authenticate(t.Context(), client, raw, audiences)
		if err == nil && (raw != good || !named || id != s.id) {
			t.Fatalf("accepted %q of %q", raw, id)
		}
		if err != nil && !errors.Is(err, dcr.ErrAssertion) {
			t.Fatal(err)
		}
	})
}

// FuzzDocument: the client of an accepted document has the address as its id, acceptable
// redirect URIs and no secret, and its digest is the same each time.
func FuzzDocument(f *testing.F) {
	const address = "https://client.example.com/client.json"
	x := newFixture(f, func(c *dcr.Config) { c.Documents = dcr.Documents{} })
	files, err := filepath.Glob("testdata/documents/*.json")
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds: ", err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		var sent struct {
			ID string `json:"client_id"`
		}
		_ = json.Unmarshal(raw, &sent)
		f.Add(strings.ReplaceAll(string(raw), sent.ID, address))
	}
	f.Add(published(address, map[string]any{"client_secret": "s"}))
	f.Add(published(address, map[string]any{"jwks": map[string]any{"keys": []any{map[string]any{"kty": "oct", "k": "a"}}}, "client_name#de": "\u202e"}))
	f.Fuzz(func(t *testing.T, body string) {
		c, err := x.ReadDocument(address, []byte(body))
		if err != nil {
			if c.ID != "" {
				t.Fatalf("refused and a client: %+v", c)
			}
			return
		}
		if c.ID != address || c.Source != storage.ClientDocument || c.Secret != nil || c.Metadata.ClientName == "" || len(c.Metadata.RedirectURIs) == 0 {
			t.Fatalf("client %+v", c)
		}
		for _, uri := range c.Metadata.RedirectURIs {
			if _, err := metadata.ParseRedirect(uri); err != nil {
				t.Fatal(err)
			}
		}
		for _, method := range dcr.AuthMethods(c) {
			if method != "none" && method != "private_key_jwt" || method == "private_key_jwt" && c.Metadata.JWKS == nil && c.Metadata.JWKSURI == "" {
				t.Fatalf("methods %q of %+v", dcr.AuthMethods(c), c)
			}
		}
		for _, link := range []string{c.Metadata.ClientURI, c.Metadata.LogoURI} {
			if link != "" && !strings.HasPrefix(strings.ToLower(link), "https://client.example.com") {
				t.Fatalf("link %q", link)
			}
		}
		again, err := x.ReadDocument(address, []byte(body))
		if err != nil || dcr.Digest(again) != dcr.Digest(c) || !slices.Contains(c.Metadata.GrantTypes, "authorization_code") {
			t.Fatalf("read again: %v", err)
		}
	})
}
