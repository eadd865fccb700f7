package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// standardOutput takes lines until its disk is full.
type standardOutput struct {
	lockedBuffer
	full atomic.Bool
}

func (o *standardOutput) Write(p []byte) (int, error) {
	if o.full.Load() {
		return 0, errors.New("no space left on device")
	}
	return o.lockedBuffer.Write(p)
}

// TestRequiredTrailBesideACatalogue: while a required trail cannot be written, requests that it would
// record are refused, and the pages and the interface of the catalogue go on, which nothing records.
func TestRequiredTrailBesideACatalogue(t *testing.T) {
	out, errs, status := &standardOutput{}, &lockedBuffer{}, make(chan int, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	admin := adminAddress(t)
	go func() {
		status <- run(ctx, []string{"serve", "--dev", "--drain", "0s", "--listen", "127.0.0.1:0", "--admin-listen", admin, "--audit", "-", "--audit-required", "--registry-at", "/registry"},
			[]string{noLookout}, strings.NewReader(""), out, errs)
	}()
	eventually(t, "the server is ready", func() bool { return strings.Contains(errs.String(), "connect to") })
	r := &running{}
	_, _ = r.stdout.Write([]byte(errs.String()))
	issuer, catalogue := r.shown("issuer"), r.shown("catalogue")
	token := func() int {
		res, err := http.PostForm(issuer+"/token", map[string][]string{"grant_type": {"refresh_token"}, "client_id": {"none"}, "refresh_token": {"none"}})
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode
	}
	want := func(when string, path string, want int) {
		t.Helper()
		if got, body := get(t, http.DefaultClient, path); got != want {
			t.Errorf("%s %s is %d: %s", when, path, got, body)
		}
	}
	token()
	out.full.Store(true)
	token() // its line waits
	if got := token(); got != http.StatusServiceUnavailable {
		t.Errorf("with a full disk a token request is %d", got)
	}
	for _, path := range []string{catalogue, catalogue + "v0.1/servers", issuer + "/.well-known/oauth-authorization-server", issuer + "/healthz"} {
		want("with a full disk", path, http.StatusOK)
	}
	want("with a full disk", issuer+"/account", http.StatusServiceUnavailable)
	want("with a full disk", "http://"+admin+"/readyz", http.StatusServiceUnavailable)
	out.full.Store(false)
	if got := token(); got != http.StatusUnauthorized && got != http.StatusBadRequest {
		t.Errorf("with room again a token request is %d", got)
	}
	want("with room again", "http://"+admin+"/readyz", http.StatusOK)
	stop()
	if got := <-status; got != exitDone || !strings.Contains(out.String(), `"kind":"stopped"`) {
		t.Errorf("it ends with %d: %s", got, errs.String())
	}
}
