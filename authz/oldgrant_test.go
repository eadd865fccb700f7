package authz_test

import (
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/authz"
	"gatehouse.example/storage"
	"gatehouse.example/storage/storagetest"
)

// oldGrants stores grants in the format of the previous release, without pairs, and returns
// the tokens that their client holds, by name. The file with the grants must not be
// regenerated.
func (h *harness) oldGrants() map[string]tokens {
	h.t.Helper()
	data, err := os.ReadFile("testdata/grants-without-pairs.json")
	if err != nil {
		h.t.Fatal(err)
	}
	var records []struct {
		Name, Key, Code string
		Data            []byte
		RefreshToken    string `json:"refresh_token"`
	}
	if err := json.Unmarshal(data, &records); err != nil {
		h.t.Fatal(err)
	}
	held := map[string]tokens{}
	for i, r := range records {
		item := storagetest.SealAnew(h.t, masterKey, h.issuer, r.Key, storage.Item{Data: r.Data, Version: storage.Version{1, byte(i)}})
		change := storage.Put{Key: r.Key, Data: item.Data, Operation: item.Version}
		if _, err := h.meter.Backend.Put(h.t.Context(), change); err != nil {
			h.t.Fatal(err)
		}
		held[r.Name] = tokens{code: r.Code, refresh: r.RefreshToken}
	}
	return held
}

// withJSON returns the item of a grant with another body, as a program seals it that writes grants as
// JSON.
func (h *harness) withJSON(id string, body []byte) storage.Item {
	h.t.Helper()
	item := h.item(id)
	item.Data = slices.Concat(item.Data[:recordHeader], body)
	item.Version[0] ^= 1
	return storagetest.SealAnew(h.t, masterKey, h.issuer, "gatehouse:grant:"+id, item)
}

func jsonOf(t *testing.T, v any) []byte {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestGrantsWithoutPairs: a grant without pairs keeps its meaning: each scope counts at
// each of its resources that defines it, and a resource without scopes is granted as a whole.
// It was redeemed for all of them, so a refresh must name one.
func TestGrantsWithoutPairs(t *testing.T) {
	t.Parallel()
	c := testClients()["native"]
	for name, redeem := range map[string]func(h *harness) heldGrant{
		"refreshed": func(h *harness) heldGrant {
			return heldGrant{h: h, c: c, refresh: h.oldGrants()["several resources"].refresh}
		},
		"redeemed": func(h *harness) heldGrant {
			code := h.oldGrants()["a code for several resources"].code
			mustRefuse(t, h.toToken(c, redemption(c, code)), http.StatusBadRequest, "invalid_target")
			answer := h.toToken(c, naming(redemption(c, code), files))
			return heldGrant{h: h, c: c, refresh: answer.member(t, "refresh_token")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, setup{config: sharing})
			held := redeem(h)
			if name == "refreshed" {
				mustRefuse(t, held.token(), http.StatusBadRequest, "invalid_target")
			}
			held.mustHold(notes, []string{"notes:read", "profile"})
			held.mustHold(tasks, []string{"tasks:read", "profile"})
			held.mustHold(files, []string{})
			of := held.token(notes).member(t, "access_token")
			if r := h.post("/revoke", "token", of, "client_id", c.ID); r.status != http.StatusOK {
				t.Fatalf("revoke: %s", r)
			}
			held.mustHold(notes, nil)
			held.mustHold(tasks, []string{"tasks:read", "profile"})
			held.mustHold(files, []string{})
		})
	}
	h := newHarness(t, setup{config: sharing})
	sole := heldGrant{h: h, c: c, refresh: h.oldGrants()["one resource"].refresh}
	if answer := sole.token(); claims(t, answer.member(t, "access_token"))["aud"] != notes {
		t.Errorf("a grant for one resource: %s", answer)
	}
	sole.mustHold(notes, []string{"notes:read", "notes:write", "profile"})
}

// TestPreviousRelease: during a rolling upgrade a process of the previous release rotates a
// current grant, and writes back only the members that it knows. The remaining grant never
// allows more than the person did, and a refresh that names no resource is refused.
func TestPreviousRelease(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{config: sharing}), testClients()["native"]
	b := h.newBrowser()
	b.consentTo(asksFor(c, "notes:read tasks:read profile", notes, tasks, files))
	held := h.redeemFor(c, b.tick(notes+" notes:read", notes+" profile", tasks+" tasks:read"), notes)
	g := h.grantOfToken(held.refresh)
	var members map[string]any
	if err := json.Unmarshal(jsonOf(t, g), &members); err != nil {
		t.Fatal(err)
	}
	delete(members, "access")
	delete(members, "audience")
	h.putRaw("gatehouse:grant:"+g.ID, h.withJSON(g.ID, jsonOf(t, members)))
	mustRefuse(t, held.token(), http.StatusBadRequest, "invalid_target")
	held.mustHold(notes, []string{"notes:read"})
	held.mustHold(tasks, []string{"tasks:read"})
	held.mustHold(files, nil)
}

// TestReconfigured: scopes and resources that are no longer configured go into no token,
// and those that were added since the request are not granted by it, neither between the page
// and the decision nor later.
func TestReconfigured(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{config: sharing}), testClients()["native"]
	scopes := func(resource int, drop ...string) {
		h.cfg.Resources = slices.Clone(h.cfg.Resources)
		h.cfg.Resources[resource].Scopes = slices.DeleteFunc(slices.Clone(h.cfg.Resources[resource].Scopes), func(s authz.Scope) bool { return slices.Contains(drop, s.Name) })
		h.restart()
	}
	b := h.newBrowser()
	request := asksFor(c, "notes:read notes:write tasks:read profile", notes, tasks, files)
	b.consentTo(request)
	old := b.page
	scopes(0, "notes:write")
	if r := b.tick(notes+" notes:read", notes+" notes:write"); r.status != http.StatusBadRequest || strings.Contains(r.body, "notes:write") {
		t.Errorf("a scope that went away between page and decision: %s", r)
	}
	if strings.Contains(old.body, "notes:write") == false {
		t.Error("it was not on the page before")
	}
	held := h.redeemFor(c, b.tick(notes+" notes:read", notes+" profile", tasks+" profile", files), notes)
	access := held.token(notes).member(t, "access_token")
	scopes(0, "profile")
	held.mustHold(notes, []string{"notes:read"})
	if in := h.introspect(access).json(t); in["active"] != true || in["scope"] != "notes:read" {
		t.Errorf("a token from before: %v", in)
	}
	// Tasks has no scopes any more: a token without scopes would allow everything there.
	scopes(1, "tasks:read", "tasks:write", "profile")
	held.mustHold(tasks, nil)
	held.mustHold(files, []string{})
	h.cfg.Resources = h.cfg.Resources[:2]
	h.restart()
	held.mustHold(files, nil)
	held.mustHold(notes, []string{"notes:read"})
}
