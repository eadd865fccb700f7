package storage_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/storagetest"
)

// golden is a record as the first release of encoding version 1 wrote it.
type golden struct {
	Kind string `json:"kind"`
	ID   string `json:"id"` // what the record is read by
	Key  string `json:"key"`
	Data []byte `json:"data"`
	// Version is the operation that wrote it, if its seal is over that.
	Version []byte `json:"version,omitempty"`
	// Want is the record in plain JSON. One that has expired is there and not found.
	Want json.RawMessage `json:"want"`
	Over bool            `json:"over,omitempty"`
	// RefreshTokens of a grant, by generation, and its code.
	RefreshTokens []string `json:"refresh_tokens,omitempty"`
	Code          string   `json:"code,omitempty"`
}

// goldenFiles are files of testdata that never change: a record that was stored once must be
// readable by every later program. A new encoding version gets its own file, and so does a record
// with new fields that decide on requests.
var goldenFiles = []string{"records-v1.json", "keyset-v1-states.json", "records-v1-lineage.json", "records-v1-clients.json", "records-v1-access.json", "records-v2.json", "records-v2-people.json", "records-v2-resources.json", "records-v2-activity.json", "records-v2-providers.json", "records-v2-audit.json", "records-v2-acme.json", "records-v2-grants.json", "records-v2-spent.json"}

func goldens(t *testing.T, file string) []golden {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	var records []golden
	if err := json.Unmarshal(data, &records); err != nil {
		t.Fatal(err)
	}
	return records
}

// storeGoldens puts the records of one file into a backend.
func storeGoldens(t *testing.T, backend storage.Backend, file string) []golden {
	t.Helper()
	records := goldens(t, file)
	if !slices.ContainsFunc(records, func(r golden) bool { return r.Kind == "keyset" }) {
		// They were stored beside a key set that says that records are not sealed.
		change := storage.Put{Key: "gatehouse:keyset:signing", Data: []byte("\x01\x00\x00\x00\x00\x00\x00\x00\x00{\"keys\":[]}"), Operation: storage.Version{1}}
		if _, err := backend.Put(t.Context(), change); err != nil {
			t.Fatal(err)
		}
	}
	for i, record := range records {
		change := storage.Put{Key: record.Key, Data: record.Data, Operation: storage.Version{byte(i + 1)}}
		copy(change.Operation[:], record.Version)
		if _, err := backend.Put(t.Context(), change); err != nil {
			t.Fatal(err)
		}
	}
	return records
}

// readers returns a function for each kind that reads a record.
func readers(s *storage.Store) map[string]func(ctx context.Context, id string) (any, error) {
	return map[string]func(ctx context.Context, id string) (any, error){
		"client":        func(ctx context.Context, id string) (any, error) { return s.Client(ctx, id) },
		"initial-token": func(ctx context.Context, token string) (any, error) { return s.InitialToken(ctx, token) },
		"assertion": func(ctx context.Context, id string) (any, error) {
			client, jti, _ := strings.Cut(id, " ")
			err := s.TakeAssertion(ctx, client, jti, now().Add(time.Minute))
			if errors.Is(err, storage.ErrConflict) {
				return map[string]bool{"taken": true}, nil
			}
			return nil, cmp.Or(err, storage.ErrNotFound)
		},
		"acme":     func(ctx context.Context, id string) (any, error) { return s.ACMERecord(ctx, id) },
		"alias":    func(ctx context.Context, id string) (any, error) { return s.Alias(ctx, storage.AliasID(id)) },
		"resource": func(ctx context.Context, id string) (any, error) { return s.Resource(ctx, id) },
		"resource-state": func(ctx context.Context, _ string) (any, error) {
			version, err := s.ResourcesVersion(ctx)
			if err == nil && version == (storage.Version{}) {
				err = storage.ErrNotFound
			}
			return map[string]any{"version": version[:]}, err
		},
		"activity": func(ctx context.Context, id string) (any, error) {
			a, err := s.Activity(ctx, id)
			if err == nil && len(a.Events) == 0 {
				err = storage.ErrNotFound
			}
			return a, err
		},
		"group": func(ctx context.Context, id string) (any, error) { return s.Group(ctx, id) },
		"audit-head": func(ctx context.Context, file string) (any, error) {
			return s.AuditHead(ctx, "host", file)
		},
		"consent": func(ctx context.Context, client string) (any, error) { return s.Consent(ctx, "subject", client) },
		"once": func(ctx context.Context, value string) (any, error) {
			err := s.TakeOnce(ctx, "purpose", value, now().Add(time.Minute))
			if errors.Is(err, storage.ErrConflict) {
				return map[string]bool{"taken": true}, nil
			}
			return nil, cmp.Or(err, storage.ErrNotFound)
		},
		"pin": func(ctx context.Context, entry string) (any, error) {
			pins, err := s.Pins(ctx, "company", "https://login.example.com", []string{entry, "free"})
			return pins, err
		},
		"provider-session": func(ctx context.Context, sid string) (any, error) {
			err := s.JoinProviderSession(ctx, "company", sid, "another", now().Add(time.Hour))
			if errors.Is(err, storage.ErrNotFound) {
				return map[string]bool{"ended": true}, nil
			}
			return nil, cmp.Or(err, storage.ErrRecord)
		},
		"provider-token": func(ctx context.Context, id string) (any, error) { return s.ProviderToken(ctx, storage.AliasID(id)) },
		"user":           func(ctx context.Context, id string) (any, error) { return s.User(ctx, id) },
		"session":        func(ctx context.Context, id string) (any, error) { return s.Session(ctx, id) },
		"transaction":    func(ctx context.Context, id string) (any, error) { return s.Transaction(ctx, id) },
		"keyset":         func(ctx context.Context, _ string) (any, error) { return s.KeySet(ctx) },
		"grant":          func(ctx context.Context, id string) (any, error) { return s.Grant(ctx, id) },
	}
}

func TestGolden(t *testing.T) {
	seen := map[string]bool{}
	for _, file := range goldenFiles {
		t.Run(file, func(t *testing.T) { readGoldens(t, file, seen) })
	}
	s, _ := newStore(t)
	for kind := range readers(s) {
		if !seen[kind] {
			t.Errorf("there is no record of kind %s", kind)
		}
	}
}

// readGoldens reads the records of one file and adds their kinds to seen.
func readGoldens(t *testing.T, file string, seen map[string]bool) {
	s, backend := newStore(t)
	read := readers(s)
	for _, record := range storeGoldens(t, backend, file) {
		got, err := read[record.Kind](t.Context(), record.ID)
		if record.Over {
			if !errors.Is(err, storage.ErrNotFound) {
				t.Errorf("%s %s is over, and reading it returned %v, %v", record.Kind, record.ID, got, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s %s: %v", record.Kind, record.ID, err)
			continue
		}
		seen[record.Kind] = true
		if got, want := plain(t, got), plain(t, record.Want); !holds(got, want) {
			t.Errorf("%s %s is\n%v; want\n%v", record.Kind, record.ID, got, want)
		}
		switch got := got.(type) {
		case storage.Grant:
			if record.Code != "" || got.Code != nil {
				wantTokens(t, s, got, record)
			}
		case storage.KeySet:
			for _, k := range got.Keys {
				wantKey(t, s, k)
			}
		}
	}
}

// TestGoldenDecides: the later fields of records still decide what they decided when they were
// written: where a code was issued, what a failover may have lost, whose grant it is, when a
// client was used, and that a transaction is taken. Records from before have none of them, and
// are not refused for that.
func TestGoldenDecides(t *testing.T) {
	for file, carries := range map[string]bool{"records-v1.json": false, "records-v1-lineage.json": true} {
		_, backend := newStore(t)
		faults := storagetest.NewFaults(backend)
		s, err := storage.New(faults, storage.Options{Issuer: issuer, MasterKeys: [][]byte{[]byte("0123456789abcdef0123456789abcdef")}, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		faults.SetLineage("another copy of the database")
		for _, record := range storeGoldens(t, backend, file) {
			if record.Kind == "grant" {
				goldenGrant(t, s, record, carries)
			}
		}
		last := now()
		if carries {
			last = last.Add(50 * time.Hour)
		}
		for _, use := range []struct {
			after  time.Duration
			writes int
		}{{storage.UseStep - time.Second, 0}, {storage.UseStep, 1}} {
			want := use.writes
			if !carries {
				want = 1 - use.writes // the first use of a client is recorded, at whatever time
			}
			before := faults.Puts()
			if err := s.UseClient(t.Context(), "client", last.Add(use.after)); err != nil || faults.Puts()-before != want {
				t.Errorf("%s: a use after %v wrote %d times, %v; want %d", file, use.after, faults.Puts()-before, err, want)
			}
		}
	}
}

// TestGoldenAccess: the consented access is read from the record if it has pairs, and from its
// resources and scopes otherwise.
func TestGoldenAccess(t *testing.T) {
	defined := map[string]string{"notes:read": "https://notes.example.com/mcp", "tasks:read": "https://tasks.example.com/mcp"}
	defines := func(resource, scope string) bool { return scope == "profile" || defined[scope] == resource }
	for file, want := range map[string][]string{
		"records-v1.json": {"https://notes.example.com/mcp notes:read", "https://notes.example.com/mcp notes:read", "https://notes.example.com/mcp notes:read", "https://notes.example.com/mcp notes:read"},
		"records-v1-access.json": {
			"https://notes.example.com/mcp notes:read profile, https://tasks.example.com/mcp tasks:read, https://files.example.com/mcp",
			"https://tasks.example.com/mcp tasks:read, https://files.example.com/mcp",
		},
	} {
		s, backend := newStore(t)
		var got []string
		for _, record := range storeGoldens(t, backend, file) {
			switch record.Kind {
			case "grant":
				g, err := s.Grant(t.Context(), record.ID)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, g.Allowed(defines).String())
			case "transaction":
				if tr, err := s.Transaction(t.Context(), record.ID); err == nil {
					got = append(got, tr.Asked(defines).String())
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
}

// TestGoldenClients: an unused client ends, stays when it is used, and leaves its former lists; a
// removed one has the reason.
func TestGoldenClients(t *testing.T) {
	s, backend := newStore(t)
	storeGoldens(t, backend, "records-v1-clients.json")
	_, err := s.Client(t.Context(), "removed")
	var removed *storage.RemovedError
	if !errors.As(err, &removed) || !removed.At.Equal(now()) || removed.Because != "its owner deleted it" {
		t.Errorf("a removed client reads with error %v", err)
	}
	entry := fmt.Sprintf("%08x", now().Unix()) + "unused"
	lists := map[string]string{
		"gatehouse:clients:unused":                         entry + "\x00Hm1rEtfK4iDnxPGF4Kx4dQ",
		"gatehouse:software-unused:Hm1rEtfK4iDnxPGF4Kx4dQ": entry,
	}
	for index, entry := range lists {
		if err := backend.IndexAdd(t.Context(), index, entry); err != nil {
			t.Fatal(err)
		}
	}
	listed := 0
	for c, err := range s.Clients(t.Context()) {
		if listed++; err != nil || c.ID != "unused" || !c.Expires.Equal(now().Add(7*24*time.Hour)) {
			t.Errorf("a client is listed as %q until %v, %v", c.ID, c.Expires, err)
		}
	}
	if err := s.UseClient(t.Context(), "unused", now()); err != nil || listed != 1 {
		t.Errorf("%d clients are listed, and using one returned %v", listed, err)
	}
	for index := range lists {
		if n, err := backend.IndexLen(t.Context(), index); n != 0 || err != nil {
			t.Errorf("after the use %s has %d entries, %v", index, n, err)
		}
	}
	if c, err := s.Client(t.Context(), "unused"); err != nil || !c.Expires.IsZero() {
		t.Errorf("after the use the client ends at %v, %v", c.Expires, err)
	}
}

// goldenGrant checks how the lineage of a grant decides on another one.
func goldenGrant(t *testing.T, s *storage.Store, record golden, carries bool) {
	t.Helper()
	g, err := s.Grant(t.Context(), record.ID)
	if err != nil {
		t.Fatal(err)
	}
	if (g.Lineage != "" && g.UserName == "ann") != carries {
		t.Errorf("grant %s is that of %q and carries the lineage %q", g.ID, g.UserName, g.Lineage)
	}
	_, remembered, err := s.Remember(t.Context(), g, g.Generation+8)
	if want := carries && g.State == storage.GrantActive; err != nil || remembered != want {
		t.Errorf("grant %s: Remember says %t, %v; want %t", g.ID, remembered, err, want)
	}
	if g.State != storage.GrantCode {
		return
	}
	_, err = s.Redeem(t.Context(), g, life())
	if carries != errors.Is(err, storage.ErrLineage) || !carries && err != nil {
		t.Errorf("grant %s: its code is redeemed elsewhere with error %v", g.ID, err)
	}
}

// wantKey checks the private part of a key, and that a key from before there were states is
// active.
func wantKey(t *testing.T, s *storage.Store, k storage.SigningKey) {
	t.Helper()
	if k.ID == "kid" && (k.State != storage.KeyActive || !k.Activated.Equal(k.Created)) {
		t.Errorf("key %s without a state is %s since %s", k.ID, k.State, k.Activated)
	}
	if k.State == storage.KeyRetired {
		if k.Private != nil {
			t.Errorf("key %s is retired and has a private part", k.ID)
		}
		return
	}
	if private, err := s.OpenKey(k.ID, k.Private); err != nil || string(private) != "private key" {
		t.Errorf("key %s opens to %q, %v", k.ID, private, err)
	}
}

// holds reports whether got has every member of want. It may have more: later fields.
func holds(got, want any) bool {
	if items, ok := want.([]any); ok {
		has, _ := got.([]any)
		same := len(has) == len(items)
		for i := range items {
			same = same && holds(has[i], items[i])
		}
		return same
	}
	members, ok := want.(map[string]any)
	if !ok {
		return reflect.DeepEqual(got, want)
	}
	has, ok := got.(map[string]any)
	for name, value := range members {
		ok = ok && holds(has[name], value)
	}
	return ok
}

// wantTokens checks the tokens of clients.
func wantTokens(t *testing.T, s *storage.Store, g storage.Grant, record golden) {
	t.Helper()
	const verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk" // of the example in RFC 7636
	if id, ok := storage.CodeGrant(record.Code); !ok || id != g.ID || !g.ProvedBy(record.Code, verifier) || g.ProvedBy(record.Code, verifier+"A") {
		t.Errorf("grant %s does not know its code", g.ID)
	}
	for generation, token := range record.RefreshTokens {
		if got, err := s.RefreshTokenOf(g, uint32(generation)); err != nil || got != token {
			t.Errorf("grant %s has refresh token %q, %v in generation %d; want %q", g.ID, got, err, generation, token)
		}
		parsed, ok := storage.ParseRefreshToken(token)
		if genuine, err := s.Genuine(g, parsed); !ok || !genuine || err != nil {
			t.Errorf("grant %s: Genuine returned %t, %v for its token", g.ID, genuine, err)
		}
	}
}

func plain(t *testing.T, v any) (out any) {
	t.Helper()
	data, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}
