package authz_test

import (
	"context"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/authz/admin"
	"gatehouse.example/authz/upstream/upstreamtest"
	"gatehouse.example/dcr"
	"gatehouse.example/internal/witness"
)

// secretRun is a server of which each secret that it gets and gives is known, with everything that
// it writes.
type secretRun struct {
	*atProvider
	*witness.Witness
	trail *events
	json  *syncBuffer

	mu       sync.Mutex
	observed strings.Builder
}

// twice writes each line in two forms.
type twice [2]slog.Handler

func (h twice) Enabled(context.Context, slog.Level) bool { return true }

func (h twice) Handle(ctx context.Context, r slog.Record) error {
	return errors.Join(h[0].Handle(ctx, r.Clone()), h[1].Handle(ctx, r))
}

func (h twice) WithAttrs(attrs []slog.Attr) slog.Handler {
	return twice{h[0].WithAttrs(attrs), h[1].WithAttrs(attrs)}
}

func (h twice) WithGroup(name string) slog.Handler {
	return twice{h[0].WithGroup(name), h[1].WithGroup(name)}
}

func newSecretRun(t *testing.T) *secretRun {
	t.Helper()
	r := &secretRun{Witness: witness.New(), trail: &events{}, json: &syncBuffer{}}
	r.atProvider = newAtProvider(t, func(c *authz.Config) {
		c.Audit = r.trail.record
		c.Logger = slog.New(twice{c.Logger.Handler(), slog.NewJSONHandler(r.json, nil)})
		c.Observe = func(o authz.Observation) {
			r.mu.Lock()
			defer r.mu.Unlock()
			fmt.Fprintf(&r.observed, "%+v\n", o)
		}
	})
	r.wire = r.Over
	for what, secret := range map[string]string{"password": personPassword, "secret of a resource": notesSecret, "secret at a provider": upstreamtest.ClientSecret, "verifier": verifier} {
		r.Keep(what, secret)
	}
	r.company.Change(func(a *upstreamtest.Answers) {
		a.Token = func(members map[string]any) {
			for _, name := range []string{"access_token", "refresh_token", "id_token"} {
				if token, ok := members[name].(string); ok {
					r.Keep(name+" of a provider", token)
				}
			}
		}
	})
	return r
}

// people signs in by each way, and fails at each.
func (r *secretRun) people(t *testing.T) {
	wrong := r.atSignIn()
	wrong.submit("username", personName, "password", "a wrong password of reader")
	wrong.submit("username", personPassword, "password", personPassword)
	wrong.submit("username", "nobody", "password", "a password of nobody")

	_, k := r.withPasskey()
	r.atSignIn().answer(k, nil)
	_, app, codes := r.withFactor()
	r.Keep("key of the app", base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(app.secret))
	for _, code := range codes {
		r.Keep("recovery code", code)
		r.Keep("recovery code", strings.ReplaceAll(code, "-", ""))
	}
	at := r.atCode()
	at.submit("code", "000001")
	mustSignIn(t, "a code", at.submit("code", app.code()))
	mustSignIn(t, "a recovery code", r.atCode().submit("code", codes[0]))

	mustSignIn(t, "an invitation", r.newBrowser().at(r.invited("ann")).submitOther("do", "password", "new", "what ann chose for herself"))
	r.newBrowser().open(r.issuer + "/invite?token=gate_in_" + strings.Repeat("A", 43) + ".ann")
	reset, err := admin.Reset(t.Context(), r.store, "ann", admin.Link{For: time.Hour, Now: r.clock.Now()})
	if err != nil {
		t.Fatal(err)
	}
	mustSignIn(t, "a reset", r.newBrowser().at(r.issuer+"/invite?token="+reset.Token).submitOther("do", "password", "new", "what ann chose again"))

	r.company.SignIn(personOf("1", "ada@example.com"))
	r.newBrowser().granted(r.company, testClients()["native"])
	r.newBrowser().open(r.issuer + "/login/company/callback?code=made-up-code-of-a-provider&state=" + strings.Repeat("s", 43))
}

// programs gets tokens by each way of authentication, and does with them what there is to do.
func (r *secretRun) programs(t *testing.T) {
	all := testClients()
	for _, c := range []testClient{all["native"], all["basic"], all["post"], signing(r.harness)} {
		b := r.newBrowser()
		b.signIn("/account/password", "bob", personPassword)
		twice := b.tokens(c, asks(c))
		r.toToken(c, redemption(c, twice.code)) // the grant ends
		held := b.tokens(c, asks(c))
		next := r.toToken(c, refreshing(c, held.refresh)).member(t, "refresh_token")
		r.post("/introspect", "token", held.access, "client_id", notes, "client_secret", "a wrong secret of the resource")
		q := r.newRequest(http.MethodPost, r.issuer+"/introspect", form("token", next))
		q.SetBasicAuth(strings.NewReplacer(":", "%3A", "/", "%2F").Replace(notes), notesSecret)
		r.send(q)
		r.clock.advance(time.Hour)
		r.toToken(c, refreshing(c, held.refresh)) // reused: the grant ends
		r.toToken(c, redemption(c, held.code))
		wrong := c
		wrong.secret = "a wrong secret of a client"
		r.toToken(wrong, refreshing(c, next))
		r.as(c, "/revoke", form("token", next, "client_id", c.ID))
		r.as(c, "/revoke", form("token", held.access, "client_id", c.ID))
	}
	initial, err := dcr.MintInitialToken(t.Context(), r.store, 3, r.clock.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{initial, "gate_it_" + strings.Repeat("B", 43)} {
		q, err := http.NewRequest(http.MethodPost, r.issuer+"/register", strings.NewReader(`{"redirect_uris":["https://client.example.org/callback"],"token_endpoint_auth_method":"client_secret_basic"}`))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("Authorization", "Bearer "+token)
		r.send(q)
	}
	// Secrets where they do not belong, so that they come into errors.
	r.get("/authorize?client_id=" + notesSecret + "&code_verifier=" + verifier)
	r.post("/token", "grant_type", "refresh_token", "client_id", "native-client", "refresh_token", "gate_rt_"+strings.Repeat("C", 43))
	r.post("/token", "grant_type", "authorization_code", "client_id", "native-client", "code", "gate_ac_"+strings.Repeat("D", 43), "code_verifier", verifier)
}

// TestNoSecretIsWritten signs people in and out, and gets and ends tokens, by every way that there is,
// right and wrong. No secret that was sent or answered is in an event, in the log of either form, or
// in what metrics count.
func TestNoSecretIsWritten(t *testing.T) {
	t.Parallel()
	r := newSecretRun(t)
	r.addPerson("bob")
	r.people(t)
	r.programs(t)
	all := r.trail.taken()
	var kinds []string
	for _, e := range all {
		kinds = append(kinds, string(e.Kind)+" "+string(e.How))
	}
	for _, want := range []string{"signed-in password", "signed-in passkey", "signed-in provider", "refresh-reused ", "code-reused ", "sign-in-refused password"} {
		if !slices.ContainsFunc(kinds, func(kind string) bool { return strings.HasPrefix(kind, want) }) {
			t.Errorf("the run has no %s: %q", want, kinds)
		}
	}
	if r.Known() < 100 {
		t.Errorf("only %d secrets are known", r.Known())
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	r.Search(t, map[string]string{"trail": string(text), "log": r.log.String(), "JSON log": r.json.String(), "observations": r.observed.String()})
}
