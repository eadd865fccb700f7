package storagetest

import (
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"testing"
	"time"

	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// TestStore checks that [storage.Store] works as documented on this backend.
func TestStore(t *testing.T, open Open) {
	for _, tests := range []suite{clientTests, grantTests, otherTests} {
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, newFixture(t, open.begin(t)))
			})
		}
	}
}

// suite is tests by name.
type suite map[string]func(*testing.T, *fixture)

var clientTests = suite{
	"Client":           testClient,
	"Clients":          testClients,
	"ClientsPages":     testClientsPages,
	"ClientUse":        testClientUse,
	"BeginUse":         testBeginUse,
	"ClientUseRefused": testClientUseRefused,
	"ClientUseLost":    testClientUseLost,
	"ClientsStale":     testClientsStale,
	"Unused":           testUnused,
	"FirstUse":         testFirstUse,
	"UpdateClient":     testUpdateClient,
	"RemoveClient":     testRemoveClient,
	"RemoveLost":       testRemoveLost,
	"BoundUnused":      testBoundUnused,
	"BoundMeanwhile":   testBoundUnusedMeanwhile,
	"BoundStale":       testBoundUnusedStale,
	"Assertion":        testAssertion,
	"InitialToken":     testInitialToken,
	"InitialTokenLost": testInitialTokenLost,
}

var grantTests = suite{
	"Grant":              testGrant,
	"GrantLifetimes":     testGrantLifetimes,
	"Revoke":             testRevoke,
	"EndResource":        testEndResource,
	"EndResourceOld":     testEndResourceOld,
	"EndResourceUnsure":  testEndResourceUncertain,
	"RevokeAll":          testRevokeAll,
	"RevokeConfirmed":    testRevokeConfirmed,
	"RevokeForgotten":    testRevokeForgotten,
	"RevokeUnreadable":   testRevokeUnreadable,
	"GrantLists":         testGrantLists,
	"GrantsCounted":      testGrantsCounted,
	"GrantListsPages":    testGrantListsPages,
	"GrantListsStale":    testGrantListsStale,
	"GrantListsYoung":    testGrantListsYoung,
	"GrantListsOld":      testGrantListsOld,
	"GrantListsUnread":   testGrantListsUnread,
	"TidyGrants":         testTidyGrants,
	"Lineage":            testGrantLineage,
	"LineageBetween":     testLineageBetween,
	"LineageNone":        testLineageNone,
	"LineageCreate":      testLineageCreate,
	"LineageRestless":    testLineageRestless,
	"Remember":           testRemember,
	"RememberRefused":    testRememberRefused,
	"ConstantStorage":    testConstantStorage,
	"RevokeBeforeCreate": testRevokeBeforeCreate,
	"RefreshToken":       testRefreshToken,
	"RefreshTokenForged": testRefreshTokenForged,
	"CodeForged":         testCodeForged,
	"GrantBodies":        testGrantBodies,
	"GrantTimes":         testGrantTimes,
	"GrantSwitch":        testGrantSwitch,
	"GrantResealed":      testGrantResealed,
}

var otherTests = suite{
	"Forms":             testForms,
	"FormsHeard":        testFormsHeard,
	"FirstKeySet":       testFirstKeySet,
	"SealEveryKind":     testSealEveryKind,
	"User":              testUser,
	"UserList":          testUserList,
	"Session":           testSession,
	"SessionList":       testSessionList,
	"Pins":              testPins,
	"ProviderSessions":  testProviderSessions,
	"TakenMeanwhile":    testTakenMeanwhile,
	"ProviderAccounts":  testProviderAccounts,
	"ManyAtProvider":    testManyAtProvider,
	"ProviderTokens":    testProviderTokens,
	"Aliases":           testAliases,
	"Consents":          testConsents,
	"Resources":         testResources,
	"Holder":            testHolder,
	"HolderUnreadable":  testHolderUnreadable,
	"Transaction":       testTransaction,
	"AuditHeads":        testAuditHeads,
	"TransactionTaken":  testTransactionTaken,
	"KeySet":            testKeySet,
	"Reseal":            testReseal,
	"ResealFactor":      testResealFactor,
	"ACME":              testACME,
	"ResealBetween":     testResealBetween,
	"ResealUnreadable":  testResealUnreadable,
	"ResealBroken":      testResealBroken,
	"Vanished":          testVanished,
	"Expiry":            testExpiry,
	"NoEnd":             testNoEnd,
	"Encoding":          testEncoding,
	"Newer":             testNewer,
	"NothingInTheClear": testNothingInTheClear,
	"Sealed":            testSealed,
	"MasterKeys":        testMasterKeys,
	"LostReply":         testLostReply,
	"LostRequest":       testLostRequest,
	"LostForGood":       testLostForGood,
	"Unanswered":        testUnanswered,
	"Confirm":           testConfirm,
	"Down":              testDown,
}

func testClient(t *testing.T, f *fixture) {
	want := storage.Client{
		ID: "a client", Source: storage.ClientRegistered,
		Metadata: metadata.Client{
			RedirectURIs: []string{"https://app.example.com/callback", "cursor://anysphere/callback"},
			GrantTypes:   []string{metadata.GrantAuthorizationCode}, ClientName: "Näme <b>\x00\u2028",
		},
		Localized: map[string]string{"client_name#de": "Anwendung"}, Software: "software", Expires: f.clock.later(),
		Secret: storage.HashSecret("s"), RegistrationToken: storage.HashSecret("r"), PreviousToken: storage.HashSecret("p"), Created: f.clock.Now(),
	}
	_, err := f.Client(t.Context(), want.ID)
	wantError(t, "Client", err, storage.ErrNotFound)
	wantError(t, "CreateClient", f.CreateClient(t.Context(), want), nil)
	wantError(t, "CreateClient again", f.CreateClient(t.Context(), want), storage.ErrConflict)
	got, err := f.Client(t.Context(), want.ID)
	wantError(t, "Client", err, nil)
	wantSame(t, "Client", got, want)
	_, err = f.Client(t.Context(), "A client")
	wantError(t, "Client by another spelling", err, storage.ErrNotFound)
}

func testUser(t *testing.T, f *fixture) {
	want := storage.User{Name: "ann", Subject: "s1", Password: "$argon2id$", Created: f.clock.Now()}
	_, err := f.User(t.Context(), "ann")
	wantError(t, "User", err, storage.ErrNotFound)
	wantError(t, "CreateUser", f.CreateUser(t.Context(), want), nil)
	first, err := f.User(t.Context(), "ann")
	wantError(t, "User", err, nil)
	wantSame(t, "User", first, want)

	other := want
	other.Subject = "s2"
	wantError(t, "CreateUser with a taken name", f.CreateUser(t.Context(), other), storage.ErrConflict)
	first.Disabled = true
	wantError(t, "UpdateUser", f.UpdateUser(t.Context(), first), nil)
	first.Disabled = false
	wantError(t, "UpdateUser of what was read before", f.UpdateUser(t.Context(), first), storage.ErrConflict)
	second, err := f.User(t.Context(), "ann")
	wantError(t, "User", err, nil)
	want.Disabled = true
	wantSame(t, "User after the update", second, want)

	wantError(t, "DeleteUser", f.DeleteUser(t.Context(), "ann", second.Subject), nil)
	wantError(t, "DeleteUser again", f.DeleteUser(t.Context(), "ann", second.Subject), nil)
	wantError(t, "UpdateUser of a removed one", f.UpdateUser(t.Context(), second), storage.ErrConflict)
	_, err = f.User(t.Context(), "ann")
	wantError(t, "User after removal", err, storage.ErrNotFound)
}

func testUserList(t *testing.T, f *fixture) {
	wantUsers := func(what string, want ...string) {
		t.Helper()
		got, err := userNames(f.Users(t.Context()))
		wantError(t, what, err, nil)
		wantEntries(t, what, got, want...)
	}
	wantUsers("Users of an empty store")
	var want []string
	for i := range 250 {
		want = append(want, name("user %03d", i))
		wantError(t, "CreateUser", f.CreateUser(t.Context(), storage.User{Name: want[i]}), nil)
	}
	wantError(t, "DeleteUser", f.DeleteUser(t.Context(), want[99], ""), nil)
	want = slices.Delete(want, 99, 100)
	wantUsers("Users", want...)
	for u, err := range f.Users(t.Context()) {
		wantError(t, "Users until enough", err, nil)
		wantSame(t, "the first of Users", u.Name, want[0])
		break
	}
}

// userNames returns the names in a list of people, until its first error.
func userNames(list iter.Seq2[storage.User, error]) (names []string, err error) {
	for u, err := range list {
		if err != nil {
			return names, err
		}
		names = append(names, u.Name)
	}
	return names, nil
}

func testTransaction(t *testing.T, f *fixture) {
	want := storage.Transaction{
		ID: "t", Browser: storage.HashSecret("cookie"), ClientID: "c", RedirectURI: "http://127.0.0.1/", State: "!~ \\\"",
		Challenge: "x", Resources: []string{"https://notes.example.com/mcp"}, Scopes: []string{"notes:read"},
		ForceLogin: true, Created: f.clock.Now(), Expires: f.clock.later(),
	}
	_, err := f.Transaction(t.Context(), "t")
	wantError(t, "Transaction that is not there", err, storage.ErrNotFound)
	wantError(t, "CreateTransaction", f.CreateTransaction(t.Context(), want), nil)
	wantError(t, "CreateTransaction again", f.CreateTransaction(t.Context(), want), storage.ErrConflict)
	got, err := f.Transaction(t.Context(), "t")
	wantError(t, "Transaction", err, nil)
	wantSame(t, "Transaction", got, want)
	wantError(t, "TakeTransaction", f.TakeTransaction(t.Context(), got), nil)
	wantError(t, "TakeTransaction again", f.TakeTransaction(t.Context(), got), storage.ErrNotFound)
	_, err = f.Transaction(t.Context(), "t")
	wantError(t, "Transaction after it was taken", err, storage.ErrNotFound)
}

func testKeySet(t *testing.T, f *fixture) {
	_, err := f.KeySet(t.Context())
	wantError(t, "KeySet", err, storage.ErrNotFound)
	sealed, err := f.SealKey("k1", []byte("private"))
	wantError(t, "SealKey", err, nil)
	first := storage.KeySet{Keys: []storage.SigningKey{{
		ID: "k1", Algorithm: "ES256", Public: json.RawMessage(`{"kty":"EC"}`), Private: sealed,
		State: storage.KeyActive, Created: f.clock.Now(), Activated: f.clock.Now(),
	}}}
	wantError(t, "SwapKeySet", f.SwapKeySet(t.Context(), first), nil)
	wantError(t, "SwapKeySet of a set that was never read", f.SwapKeySet(t.Context(), first), storage.ErrConflict)
	got, err := f.KeySet(t.Context())
	wantError(t, "KeySet", err, nil)
	wantSame(t, "KeySet", got, first)
	private, err := f.OpenKey("k1", got.Keys[0].Private)
	if err != nil || string(private) != "private" {
		t.Errorf("OpenKey returned %q, %v; want what was sealed", private, err)
	}
	_, err = f.OpenKey("k2", got.Keys[0].Private)
	wantError(t, "OpenKey under another id", err, storage.ErrRecord)

	next := got
	next.Keys = append(slices.Clone(got.Keys), storage.SigningKey{ID: "k2", Public: json.RawMessage(`{}`)})
	wantError(t, "SwapKeySet", f.SwapKeySet(t.Context(), next), nil)
	wantError(t, "SwapKeySet of what was read before", f.SwapKeySet(t.Context(), next), storage.ErrConflict)
}

// ends checks the moment from which a grant is not found.
func (f *fixture) ends(t *testing.T, what, id string, after time.Duration) {
	t.Helper()
	f.clock.advance(after - time.Millisecond)
	if _, err := f.Grant(t.Context(), id); err != nil {
		t.Errorf("%s: gone before its time: %v", what, err)
	}
	f.clock.advance(time.Millisecond)
	_, err := f.Grant(t.Context(), id)
	wantError(t, what+" after its end: Grant", err, storage.ErrNotFound)
}

func testGrantLifetimes(t *testing.T, f *fixture) {
	const day = 24 * time.Hour
	g, _ := f.grant(t, true)
	f.ends(t, "a code", g.ID, time.Minute)

	g = f.active(t)
	f.ends(t, "a refreshable grant", g.ID, 30*day)

	g, _ = f.grant(t, false)
	g, err := f.Redeem(t.Context(), g, f.life())
	wantError(t, "Redeem", err, nil)
	f.ends(t, "a grant without refresh tokens", g.ID, 5*time.Minute)

	g = f.active(t)
	f.clock.advance(day)
	life := f.life()
	life.Expires = f.clock.Now().Add(time.Hour)
	_, err = f.Rotate(t.Context(), g, life)
	wantError(t, "Rotate", err, nil)
	f.ends(t, "a grant near its absolute end", g.ID, time.Hour)

	g = f.active(t)
	wantError(t, "Revoke", f.Revoke(t.Context(), g.ID, "test"), nil)
	f.ends(t, "a revoked grant", g.ID, 90*day)
}

func testRevoke(t *testing.T, f *fixture) {
	code, _ := f.grant(t, true)
	active := f.active(t)
	rotated, err := f.Rotate(t.Context(), f.active(t), f.life())
	wantError(t, "Rotate", err, nil)
	for _, g := range []storage.Grant{code, active, rotated} {
		wantError(t, "Revoke", f.Revoke(t.Context(), g.ID, "first"), nil)
		wantError(t, "Revoke again", f.Revoke(t.Context(), g.ID, "second"), nil)
		f.wantRevoked(t, g)
		if got := f.read(t, g.ID); got.RevokedBecause != "first" || got.Generation != g.Generation {
			t.Errorf("the grant says %q, generation %d; want first, %d", got.RevokedBecause, got.Generation, g.Generation)
		}
	}
	before := len(f.backend.writes())
	wantError(t, "Revoke of an unknown grant", f.Revoke(t.Context(), "unknown", "test"), nil)
	if after := len(f.backend.writes()); after != before {
		t.Error("revoking an unknown grant wrote something")
	}
}

func testRevokeAll(t *testing.T, f *fixture) {
	var ofUser, ofClient []storage.Grant
	other := f.active(t)
	for i := range 5 {
		g, _ := f.prepare(t, true)
		if i%2 == 0 {
			g.Subject = "the person"
			ofUser = append(ofUser, g)
		} else {
			g.ClientID = "the client"
			ofClient = append(ofClient, g)
		}
		wantError(t, "CreateGrant", f.CreateGrant(t.Context(), g), nil)
	}
	for i := range ofClient {
		ofClient[i] = f.read(t, ofClient[i].ID)
	}
	wantError(t, "RevokeUser", f.RevokeUser(t.Context(), "the person", "test"), nil)
	for _, g := range ofUser {
		f.wantRevoked(t, g)
	}
	for _, g := range ofClient {
		wantSame(t, "a grant of somebody else", f.read(t, g.ID), g)
	}
	for range 2 {
		wantError(t, "RevokeClient", f.RevokeClient(t.Context(), "the client", "test"), nil)
	}
	for _, g := range ofClient {
		f.wantRevoked(t, g)
	}
	wantSame(t, "a grant of nobody's", f.read(t, other.ID), other)
	wantError(t, "RevokeUser of nobody", f.RevokeUser(t.Context(), "nobody", "test"), nil)
}

// testRevokeBeforeCreate: a revocation of all grants of a person may come between the two steps
// of creating one. Such a grant must not become valid.
func testRevokeBeforeCreate(t *testing.T, f *fixture) {
	for what, revoke := range map[string]func(g storage.Grant) error{
		"RevokeUser":   func(g storage.Grant) error { return f.RevokeUser(t.Context(), g.Subject, "test") },
		"RevokeClient": func(g storage.Grant) error { return f.RevokeClient(t.Context(), g.ClientID, "test") },
	} {
		g, _ := f.prepare(t, true)
		f.faults.beforePut(func() { wantError(t, what, revoke(g), nil) })
		wantError(t, "CreateGrant after "+what, f.CreateGrant(t.Context(), g), storage.ErrConflict)
		got, err := f.Grant(t.Context(), g.ID)
		if err == nil && got.State != storage.GrantRevoked || err != nil && !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("after %s the grant is %q, %v; want revoked", what, got.State, err)
		}
		f.clock.advance(24 * time.Hour)
		_, err = f.Grant(t.Context(), g.ID)
		wantError(t, "Grant a day later", err, storage.ErrNotFound)
	}
}

// testVanished: a swap does not restore a grant that is gone.
func testVanished(t *testing.T, f *fixture) {
	code, _ := f.grant(t, true)
	codeKey := f.backend.last(t).Key
	active := f.active(t)
	activeKey := f.backend.last(t).Key
	for _, test := range []struct {
		what, key string
		change    func() error
		want      error
	}{
		{"Redeem", codeKey, func() error { _, err := f.Redeem(t.Context(), code, f.life()); return err }, storage.ErrNotFound},
		{"Rotate", activeKey, func() error { _, err := f.Rotate(t.Context(), active, f.life()); return err }, storage.ErrNotFound},
		{"Revoke", activeKey, func() error { return f.Revoke(t.Context(), active.ID, "test") }, nil},
	} {
		before, err := f.backend.Get(t.Context(), test.key)
		wantError(t, "Get", err, nil)
		f.faults.beforePut(func() { wantError(t, "Delete", f.backend.Delete(t.Context(), test.key), nil) })
		sent := len(f.backend.writes())
		wantError(t, test.what+" of a grant that vanishes", test.change(), test.want)
		if writes := f.backend.writes()[sent:]; len(writes) != 1 || writes[0].Key != test.key {
			t.Errorf("%s of a grant that vanishes wrote %d times", test.what, len(writes))
		}
		_, err = f.backend.Get(t.Context(), test.key)
		wantError(t, "Get afterwards", err, storage.ErrNotFound)
		change := storage.Put{Key: test.key, Data: before.Data, Operation: before.Version}
		_, err = f.backend.Put(t.Context(), change)
		wantError(t, "putting it back", err, nil)
	}
}
