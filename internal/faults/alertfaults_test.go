//go:build e2e

package faults

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/middleware/middlewaretest"
	"gatehouse.example/registry/registrytest"
	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/redis/redistest"
)

// faults starts the processes, and returns the fault of each.
func (w *watch) faults() []fault {
	return []fault{
		w.killed(), w.withoutStore(), w.withFullStore(), w.withSlowStore(), w.withOtherStore(), w.withReplays(), w.guessed(), w.crowded(),
		w.occupied(), w.withoutWeb(), w.withoutProvider(), w.withShortCertificate(), w.withBrokenCertificate(), w.withOldKey(), w.withBadSettings(), w.withFullDisk(), w.withForeignLines(), w.withoutUpstream(), w.withoutIssuer(), w.outOfStep(),
		w.busyAndWell(),
	}
}

// server starts a server with a store that is watched.
func (w *watch) server(store string, flags ...string) (f *fleet, at *process, instance string) {
	w.t.Helper()
	f, instance = newFleet(w.t, fleetConfig{Store: store}), w.target()
	return f, f.start(append([]string{"--admin-listen", instance}, flags...)...), instance
}

// busyAndWell is a server without a fault, on which people sign in and clients refresh.
func (w *watch) busyAndWell() fault {
	f, at, instance := w.server(redistest.StartServer(w.t))
	p := f.newParty(at)
	held := p.mustTokens(at).Refresh
	return fault{instance: instance, cause: func(ctx context.Context) {
		again(ctx, func() {
			p.refresh(at, held)             // once it is new, and a few times a client that lost the answer
			p.refresh(at, "gate_rt_madeup") // an honest mistake ends nothing
			if a := p.consent(at); a.Code != "" {
				held = p.redeem(at, a.Code).Refresh
			}
		})
	}}
}

func (w *watch) killed() fault {
	_, at, instance := w.server("embedded:")
	return fault{instance: instance, alerts: []string{"GatehouseDown"}, cause: func(context.Context) { at.kill() }}
}

func (w *watch) withoutStore() fault {
	way := redistest.StartProxy(w.t, redistest.Start(w.t, redistest.Config{}).Addr)
	f, at, instance := w.server("redis://" + way.Addr)
	p := f.newParty(at)
	return fault{instance: instance, alerts: []string{"GatehouseStoreDown", "GatehouseRequestsFail"}, others: []string{"GatehouseStoreSlow"}, cause: func(ctx context.Context) {
		way.Cut()
		again(ctx, func() { p.refresh(at, "gate_rt_any") })
	}}
}

func (w *watch) withFullStore() fault {
	server := redistest.Start(w.t, redistest.Config{})
	_, _, instance := w.server(server.URL())
	return fault{instance: instance, alerts: []string{"GatehouseStoreFull"}, cause: func(ctx context.Context) {
		_ = server.Client().ConfigSet(ctx, "maxmemory", "512kb").Err() // less than it holds
	}}
}

func (w *watch) withSlowStore() fault {
	way := redistest.StartProxy(w.t, redistest.Start(w.t, redistest.Config{}).Addr)
	f, at, instance := w.server("redis://" + way.Addr)
	p := f.newParty(at)
	return fault{instance: instance, alerts: []string{"GatehouseStoreSlow"}, cause: func(ctx context.Context) {
		way.Latency(redistest.Replies, 200*time.Millisecond, 0)
		again(ctx, func() { p.consent(at) })
	}}
}

// withOtherStore loses the primary of its store, and a replica takes over.
func (w *watch) withOtherStore() fault {
	primary := redistest.Start(w.t, redistest.Config{})
	for range 2 {
		redistest.Start(w.t, redistest.Config{ReplicaOf: primary})
	}
	group := redistest.StartSentinels(w.t, redistest.PrimaryName, primary, 3, 2*time.Second)
	group.Settle(2)
	f, at, instance := w.server(group.URL())
	p := f.newParty(at)
	meanwhile := []string{"GatehouseStoreDown", "GatehouseRequestsFail", "GatehouseStoreSlow"}
	return fault{instance: instance, alerts: []string{"GatehouseLineageChanged"}, others: meanwhile, cause: func(ctx context.Context) {
		primary.Kill()
		again(ctx, func() { p.consent(at) })
	}}
}

// withReplays has clients that use the refresh tokens of yesterday.
func (w *watch) withReplays() fault {
	f, at, instance := w.server(redistest.StartServer(w.t))
	p := f.newParty(at)
	var old []string
	for range 10 {
		first := p.mustTokens(at).Refresh
		second := p.refresh(at, first).Refresh
		p.refresh(at, second)
		old = append(old, first)
	}
	return fault{instance: instance, alerts: []string{"GatehouseTokensReused"}, cause: func(context.Context) {
		for _, token := range old {
			p.refresh(at, token)
		}
	}}
}

// signInPage returns a form to sign in at a server, and its cookies.
func (p *party) signInPage(at *process) (url.Values, []*http.Cookie) {
	p.t.Helper()
	client := *at.client
	r := newRequest(http.MethodGet, p.authorizeURL(), "")
	_, resp := at.send("authorize", &client, r)
	if resp == nil || len(resp.Cookies()) == 0 {
		p.t.Fatal("no transaction begins")
	}
	next, err := resp.Location()
	if err != nil {
		p.t.Fatal(err)
	}
	cookies := resp.Cookies()
	r = newRequest(http.MethodGet, next.String(), "")
	for _, c := range cookies {
		r.AddCookie(c)
	}
	page, _ := at.send("login", &client, r)
	_, form := parseForm(page.body)
	return form, cookies
}

// tryPassword sends the form with a password, as from an address.
func (p *party) tryPassword(at *process, form url.Values, cookies []*http.Cookie, name, password, from string) answer {
	filled := url.Values{"username": {name}, "password": {password}}
	for _, hidden := range []string{"transaction", "csrf"} {
		filled[hidden] = form[hidden]
	}
	r := newForm(p.issuer+"/login", filled)
	r.Header.Set("X-Forwarded-For", from)
	for _, c := range cookies {
		r.AddCookie(c)
	}
	return at.call("login", r)
}

// guessed has a person whose password many networks guess, each a few times.
func (w *watch) guessed() fault {
	f, at, instance := w.server("embedded:", "--trusted-proxies", "127.0.0.0/8")
	p := f.newParty(at)
	form, cookies := p.signInPage(at)
	return fault{instance: instance, alerts: []string{"GatehouseGuessing"}, others: []string{"GatehouseSignInsWait"}, heavy: true, cause: func(ctx context.Context) {
		for i := 0; ctx.Err() == nil && i < 200; i++ {
			p.tryPassword(at, form, cookies, fmt.Sprint("nobody", i), "guess", fmt.Sprintf("198.18.%d.1", i))
		}
	}}
}

// crowded has more people who sign in than its processors can check.
func (w *watch) crowded() fault {
	f, at, instance := w.server("embedded:")
	p := f.newParty(at)
	form, cookies := p.signInPage(at)
	return fault{instance: instance, alerts: []string{"GatehouseSignInsWait"}, others: []string{"GatehouseRequestsFail"}, heavy: true, cause: func(ctx context.Context) {
		crowd(80, 80, func(int) {
			for ctx.Err() == nil {
				p.tryPassword(at, form, cookies, personName, personPassword, "")
			}
		})
	}}
}

// occupied has a stranger who opens more connections than it has places.
func (w *watch) occupied() fault {
	_, at, instance := w.server("embedded:", "--max-connections", "16")
	return fault{instance: instance, alerts: []string{"GatehouseConnectionsRefused"}, cause: func(ctx context.Context) {
		again(ctx, func() {
			for range 20 {
				if c, err := net.Dial("tcp", at.address); err == nil {
					defer c.Close()
				}
			}
		})
	}}
}

// withoutWeb cannot read what clients publish.
func (w *watch) withoutWeb() fault {
	f, at, instance := w.server("embedded:", "--insecure-allow-loopback", "--registration-quota", "0")
	return fault{instance: instance, alerts: []string{"GatehouseFetchesFail"}, others: []string{"GatehouseRequestsFail"}, cause: func(ctx context.Context) {
		i := 0
		again(ctx, func() {
			i++
			at.call("authorize", newRequest(http.MethodGet, f.issuer+"/authorize?response_type=code&client_id="+url.QueryEscape(fmt.Sprintf("http://127.0.0.1:9/%d.json", i)), ""))
		})
	}}
}

// withoutProvider has a sign-in provider that fails.
func (w *watch) withoutProvider() fault {
	provider := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusServiceUnavailable) }))
	w.t.Cleanup(provider.Close)
	file := filepath.Join(w.t.TempDir(), "gatehouse.yaml")
	secret := filepath.Join(filepath.Dir(file), "secret")
	for name, text := range map[string]string{secret: "the-secret-at-the-company", file: fmt.Sprintf(`sign-in:
  providers:
    - id: company
      preset: oidc
      issuer: %s
      client_id: gatehouse
      client_secret_file: %s
      allow: {anybody: true}
`, provider.URL, secret)} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	f, at, instance := w.server("embedded:", "--config", file)
	p := f.newParty(at)
	form, cookies := p.signInPage(at)
	leave := func(form url.Values) answer {
		r := newForm(p.issuer+"/login", form)
		for _, c := range cookies {
			r.AddCookie(c)
		}
		return at.call("login", r)
	}
	form.Del("username")
	form.Set("provider", "company")
	_, decision := parseForm(leave(form).body)
	return fault{instance: instance, alerts: []string{"GatehouseProviderFails"}, others: []string{"GatehouseRequestsFail"}, early: true, cause: func(ctx context.Context) {
		again(ctx, func() { leave(decision) })
	}}
}

// writePair writes a certificate that ends after some time, and its key.
func writePair(t testing.TB, dir string, lives time.Duration) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(lives)}
	der, err1 := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	private, err2 := x509.MarshalPKCS8PrivateKey(key)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	for name, block := range map[string]*pem.Block{"key.pem": {Type: "PRIVATE KEY", Bytes: private}, "cert.pem": {Type: "CERTIFICATE", Bytes: der}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// secure starts a server with a certificate that is good for three months.
func (w *watch) secure() (dir, instance string) {
	dir, instance = w.t.TempDir(), w.target()
	writePair(w.t, dir, 90*24*time.Hour)
	w.run(authzBinary, []string{"AUTHZ_EGRESS_CHECK=off"}, "serve", "--dev", "--listen", redistest.FreeAddress(w.t), "--admin-listen", instance, "--tls-cert", dir+"/cert.pem", "--tls-key", dir+"/key.pem")
	return dir, instance
}

func (w *watch) withShortCertificate() fault {
	dir, instance := w.secure()
	return fault{instance: instance, alerts: []string{"GatehouseCertificateEnds"}, cause: func(context.Context) { writePair(w.t, dir, 24*time.Hour) }}
}

func (w *watch) withBrokenCertificate() fault {
	dir, instance := w.secure()
	return fault{instance: instance, alerts: []string{"GatehouseCertificateNotTaken"}, cause: func(context.Context) {
		_ = os.WriteFile(filepath.Join(dir, "cert.pem"), []byte("nothing"), 0o600)
	}}
}

// withOldKey has a signing key that nobody has rotated for sixty days. Its server starts with the
// fault.
func (w *watch) withOldKey() fault {
	f := newFleet(w.t, fleetConfig{Store: redistest.StartServer(w.t)})
	backend, err := redis.Open(w.t.Context(), redis.Options{URL: f.config.Store})
	if err != nil {
		w.t.Fatal(err)
	}
	key, _ := base64.StdEncoding.DecodeString(masterKey(1))
	store, err := storage.New(backend, storage.Options{Issuer: f.issuer, MasterKeys: [][]byte{key}})
	if err != nil {
		w.t.Fatal(err)
	}
	long := func() time.Time { return time.Now().Add(-60 * 24 * time.Hour) }
	if _, err := authz.New(w.t.Context(), authz.Config{Issuer: f.issuer, Store: store, Now: long, Resources: []authz.Resource{{URI: resource, Name: "Notes"}}}); err != nil {
		w.t.Fatal(err)
	}
	_ = store.Close()
	instance := w.target()
	f.start("--admin-listen", instance, "--key-rotation", "0")
	return fault{instance: instance, alerts: []string{"GatehouseSigningKeyOld"}, early: true, cause: func(context.Context) {}}
}

// gateway starts a gateway, and returns a function that sends a request with a token.
func (w *watch) gateway(upstream string, issuer *middlewaretest.Issuer) (send func(), instance string) {
	w.t.Helper()
	address, instance := redistest.FreeAddress(w.t), w.target()
	w.run(authzBinary, nil, "gateway", "--listen", address, "--admin-listen", instance, "--resource", "https://notes.example.com/mcp", "--upstream", upstream, "--issuer", issuer.URL())
	token := issuer.Mint(middlewaretest.Claims{"aud": "https://notes.example.com/mcp"})
	return func() {
		r := newRequest(http.MethodPost, "http://"+address+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+token)
		if resp, err := http.DefaultClient.Do(r); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	}, instance
}

func (w *watch) withoutUpstream() fault {
	var down atomic.Bool
	upstream := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		if down.Load() {
			rw.WriteHeader(http.StatusInternalServerError)
		}
	}))
	w.t.Cleanup(upstream.Close)
	send, instance := w.gateway(upstream.URL, middlewaretest.NewIssuer(w.t))
	return fault{instance: instance, alerts: []string{"GatehouseUpstreamFails"}, cause: func(ctx context.Context) {
		send()
		down.Store(true)
		again(ctx, send)
	}}
}

func (w *watch) withoutIssuer() fault {
	issuer := middlewaretest.NewIssuer(w.t)
	send, instance := w.gateway("http://"+redistest.FreeAddress(w.t), issuer)
	return fault{instance: instance, alerts: []string{"GatehouseCannotJudge"}, cause: func(ctx context.Context) {
		issuer.SetDown(true)
		again(ctx, send)
	}}
}

// outOfStep is a registry whose upstream fails.
func (w *watch) outOfStep() fault {
	upstream := registrytest.New(w.t)
	upstream.Fill(10)
	instance := w.target()
	w.run(authzBinary, nil, "registry", "serve", "--listen", redistest.FreeAddress(w.t), "--admin-listen", instance, "--store", "embedded:", "--upstream", upstream.URL(), "--interval", "1s")
	return fault{instance: instance, alerts: []string{"GatehouseSyncFails"}, cause: func(context.Context) { upstream.Break(registrytest.Faults{Status: http.StatusInternalServerError}) }}
}
