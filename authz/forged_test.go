package authz_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/storage"
	"gatehouse.example/storage/storagetest"
)

// rawItem returns the item under a key. putRaw replaces it, as an attacker can who has the
// password of the store and no master key.
func (h *harness) rawItem(key string) storage.Item {
	h.t.Helper()
	item, err := h.meter.Backend.Get(h.t.Context(), key)
	if err != nil {
		h.t.Fatalf("%s: %v", key, err)
	}
	return item
}

func (h *harness) putRaw(key string, item storage.Item) {
	h.t.Helper()
	if err := h.meter.Backend.Delete(h.t.Context(), key); err != nil { // a put of the same operation would do nothing
		h.t.Fatal(err)
	}
	change := storage.Put{Key: key, Data: item.Data, If: storage.Always, Operation: item.Version}
	if _, err := h.meter.Backend.Put(h.t.Context(), change); err != nil {
		h.t.Fatal(err)
	}
}

// only returns the only key of a kind of record.
func (h *harness) only(kind string) string {
	h.t.Helper()
	keys, _, err := h.meter.Scan(h.t.Context(), "gatehouse:"+kind+":", "", 10)
	if err != nil || len(keys) != 1 {
		h.t.Fatalf("records of kind %s: %v, %v", kind, keys, err)
	}
	return keys[0]
}

const (
	recordHead   = 13 // of a sealed record: version, expiry, name of the master key
	recordHeader = 29 // and its MAC
)

// forgeries returns the records that can be made of a record without the master key. other is
// an item of the same kind under another id, stranger an item of another kind.
func forgeries(t *testing.T, other, stranger storage.Item) map[string]func(storage.Item) storage.Item {
	data := func(change func(data []byte) []byte) func(storage.Item) storage.Item {
		return func(i storage.Item) storage.Item {
			i.Data = change(slices.Clone(i.Data))
			return i
		}
	}
	return map[string]func(storage.Item) storage.Item{
		"written by hand, as before there were seals": data(func(d []byte) []byte {
			return append(append([]byte{1}, d[1:9]...), d[recordHeader:]...)
		}),
		"a letter changed":            data(func(d []byte) []byte { d[len(d)-3] ^= 1; return d }),
		"a member added":              data(func(d []byte) []byte { return append(d[:len(d)-1], `,"disabled":false}`...) }),
		"cut":                         data(func(d []byte) []byte { return d[:len(d)/2] }),
		"cut to its header":           data(func(d []byte) []byte { return d[:recordHeader] }),
		"cut to a part of its header": data(func(d []byte) []byte { return d[:recordHead] }),
		"nothing":                     data(func([]byte) []byte { return nil }),
		"of an unknown form":          data(func(d []byte) []byte { d[0] = 3; return d }),
		"without a MAC":               data(func(d []byte) []byte { clear(d[recordHead:recordHeader]); return d }),
		"under an unknown master key": data(func(d []byte) []byte { d[9] ^= 1; return d }),
		"with another end": data(func(d []byte) []byte {
			binary.BigEndian.PutUint64(d[1:], binary.BigEndian.Uint64(d[1:])+uint64(24*time.Hour/time.Millisecond))
			return d
		}),
		"of another operation": func(i storage.Item) storage.Item { i.Version[3] ^= 1; return i },
		"moved here":           func(storage.Item) storage.Item { return other },
		"of another kind":      func(storage.Item) storage.Item { return stranger },
	}
}

// forgedCase is a record, another one that can replace it, and a request that reads it.
type forgedCase struct {
	key     string
	other   storage.Item
	request func() reply
}

func forgedCases(t *testing.T, h *harness) map[string]forgedCase {
	native, other, web := testClients()["native"], testClients()["other"], testClients()["web"]
	refreshable := h.tokens(native)
	grant := "gatehouse:grant:" + h.grantOfToken(refreshable.refresh).ID
	elsewhere := h.rawItem("gatehouse:grant:" + h.grantOfToken(h.tokens(other).refresh).ID)
	refresh := func() reply {
		answer := h.toToken(native, refreshing(native, refreshable.refresh))
		if answer.status == http.StatusOK {
			refreshable.refresh = answer.member(t, "refresh_token")
		}
		return answer
	}
	keys, _, err := h.meter.Scan(t.Context(), "gatehouse:session:", "", 10)
	if err != nil {
		t.Fatal(err)
	}
	signedIn := h.newBrowser()
	signedIn.walk(asks(web), "deny")
	now, _, err := h.meter.Scan(t.Context(), "gatehouse:session:", "", 10)
	if err != nil || len(now) != len(keys)+1 {
		t.Fatalf("sessions %v, %v", now, err)
	}
	session := slices.DeleteFunc(slices.Clone(now), func(key string) bool { return slices.Contains(keys, key) })[0]
	reach := func(b *browser, c testClient) reply {
		b.open(h.issuer + "/authorize?" + asks(c).Encode())
		for range 3 {
			if b.last.status == http.StatusSeeOther && strings.HasPrefix(b.last.header.Get("Location"), h.issuer+"/") {
				b.follow()
			}
		}
		return b.last
	}
	writer := h.addPerson("writer")
	return map[string]forgedCase{
		"grant":   {grant, elsewhere, refresh},
		"user":    {"gatehouse:user:" + personName, h.rawItem("gatehouse:user:" + writer.Name), func() reply { return reach(signedIn, web) }},
		"session": {session, h.rawItem(keys[0]), func() reply { return reach(signedIn, web) }},
		"client": {"gatehouse:client:" + web.ID, h.rawItem("gatehouse:client:" + other.ID),
			func() reply { return reach(h.newBrowser(), web) }},
	}
}

// A record that was written with the password of the store and without a master key is
// neither accepted nor treated as missing: the answer is 503, the log and the readiness probe
// report it, and nothing is written in its place. After its removal everything works again.
func TestForgedRecords(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{config: func(c *authz.Config) { c.SessionIdle = 12 * time.Hour }})
	client := h.rawItem("gatehouse:client:" + testClients()["brief"].ID)
	for kind, c := range forgedCases(t, h) {
		for what, forge := range forgeries(t, c.other, client) {
			if kind == "user" && what == "a member added" {
				what = "a subject swapped"
				forge = func(i storage.Item) storage.Item {
					at := bytes.Index(i.Data, []byte(`"sub":"`))
					i.Data = slices.Clone(i.Data)
					copy(i.Data[at+7:], "AAAAAAAAAAAAAAAAAAAAAA")
					return i
				}
			}
			h.clock.advance(6 * time.Minute)
			genuine := h.rawItem(c.key)
			forged := forge(genuine)
			h.putRaw(c.key, forged)
			before := h.logged("level=ERROR msg=\"a record in the store is forged", c.key)
			answer := c.request()
			if answer.status != http.StatusServiceUnavailable || answer.header.Get("Retry-After") == "" {
				t.Errorf("%s %s: %s", kind, what, answer)
			}
			if h.logged("level=ERROR msg=\"a record in the store is forged", c.key) != before+1 {
				t.Errorf("%s %s: the log raises no alarm, or more than one", kind, what)
			}
			if err := h.handler.Load().Ready(t.Context()); !errors.Is(err, storage.ErrForged) {
				t.Errorf("%s %s: the server is ready: %v", kind, what, err)
			}
			if got := h.rawItem(c.key); got.Version != forged.Version || !bytes.Equal(got.Data, forged.Data) {
				t.Errorf("%s %s: it was written over", kind, what)
			}
			h.putRaw(c.key, genuine)
			h.clock.advance(5 * time.Minute)
			if answer := c.request(); answer.status != http.StatusOK {
				t.Errorf("%s, after it was %s and is no more: %s", kind, what, answer)
			}
			if err := h.handler.Load().Ready(t.Context()); err != nil {
				t.Errorf("%s, after it was %s: the server is not ready: %v", kind, what, err)
			}
		}
	}
}

// A record of another issuer with the same Redis and the same master key is not accepted.
func TestRecordOfAnotherIssuer(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	token := h.tokens(c).refresh
	key := "gatehouse:grant:" + h.grantOfToken(token).ID
	h.putRaw(key, storagetest.SealAnew(t, masterKey, "https://other.example.com", key, h.rawItem(key)))
	mustRefuse(t, h.toToken(c, refreshing(c, token)), http.StatusServiceUnavailable, "temporarily_unavailable")
	h.putRaw(key, storagetest.SealAnew(t, bytes.Repeat([]byte{8}, 32), h.issuer, key, h.rawItem(key)))
	mustRefuse(t, h.toToken(c, refreshing(c, token)), http.StatusServiceUnavailable, "temporarily_unavailable")
	h.putRaw(key, storagetest.SealAnew(t, masterKey, h.issuer, key, h.rawItem(key)))
	if answer := h.toToken(c, refreshing(c, token)); answer.status != http.StatusOK {
		t.Errorf("a record with the right seal: %s", answer)
	}
}

// Forged records of single-use values are neither accepted nor treated as missing: an initial
// access token with more uses is no token, and a forged mark of an assertion does not show
// that it was used.
func TestForgedOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{config: func(c *authz.Config) { c.Registration = authz.RegistrationToken }})
	token, err := h.store.NewSecret("gate_iat_")
	if err != nil {
		t.Fatal(err)
	}
	if err := h.store.CreateInitialToken(t.Context(), storage.InitialToken{
		Token: storage.HashSecret(token), Created: h.clock.Now(), Expires: h.clock.Now().Add(time.Hour), Left: 1,
	}); err != nil {
		t.Fatal(err)
	}
	key := h.only("initial-token")
	item := h.rawItem(key)
	item.Data = bytes.Replace(item.Data, []byte(`"left":1`), []byte(`"left":9`), 1)
	h.putRaw(key, item)
	r := h.newRequest(http.MethodPost, h.issuer+"/register", nil)
	r.Body = io.NopCloser(strings.NewReader(`{"redirect_uris":["http://127.0.0.1/callback"],"token_endpoint_auth_method":"none"}`))
	r.ContentLength = -1
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	if answer := h.send(r); answer.status != http.StatusServiceUnavailable || answer.header.Get("Retry-After") == "" {
		t.Errorf("an initial access token that was changed: %s", answer)
	}

	expires := h.clock.Now().Add(time.Minute)
	if err := h.store.TakeAssertion(t.Context(), "client", "jti", expires); err != nil {
		t.Fatal(err)
	}
	key = h.only("assertion")
	for _, data := range [][]byte{nil, {1}, []byte("\x01\x00\x00\x00\x00\x00\x00\x00\x01{}"), h.rawItem("gatehouse:keyset:signing").Data} {
		h.putRaw(key, storage.Item{Data: data, Version: storage.Version{1}})
		if err := h.store.TakeAssertion(t.Context(), "client", "jti", expires); !errors.Is(err, storage.ErrForged) || errors.Is(err, storage.ErrConflict) {
			t.Errorf("an assertion whose mark is %q is taken with error %v", data, err)
		}
		if err := h.handler.Load().Ready(t.Context()); !errors.Is(err, storage.ErrForged) {
			t.Errorf("an assertion whose mark is %q: the server is ready: %v", data, err)
		}
		h.clock.advance(6 * time.Minute)
		expires = h.clock.Now().Add(time.Minute)
	}
}

// The log reports forged records once a minute, however many requests read one.
func TestAlarmIsSpared(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	token := h.tokens(c).refresh
	key := "gatehouse:grant:" + h.grantOfToken(token).ID
	item := h.rawItem(key)
	item.Data = item.Data[:len(item.Data)-1]
	h.putRaw(key, item)
	for range 3 {
		for range 10 {
			h.toToken(c, refreshing(c, token))
		}
		h.clock.advance(time.Minute)
	}
	if n := h.logged("a record in the store is forged", key); n != 3 {
		t.Errorf("%d lines in three minutes; want 3", n)
	}
	if n := h.logged("a record in the store is forged", "others=9"); n != 2 {
		t.Errorf("%d lines count those that were not logged; want 2\n%s", n, h.log)
	}
}
