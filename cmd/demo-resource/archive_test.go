package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/middleware/middlewaretest"
)

// ownToken is the demo's token for the archive.
const ownToken = "the-demo-s-own-token"

// upstream is an archive that records its requests.
type upstream struct {
	*httptest.Server
	answer http.HandlerFunc // nil for 204

	mu       sync.Mutex
	received []string // whole requests
	bodies   [][]byte
}

func newUpstream(t *testing.T, answer http.HandlerFunc) *upstream {
	t.Helper()
	u := &upstream{answer: answer}
	u.Server = httptest.NewServer(u)
	t.Cleanup(func() {
		u.CloseClientConnections()
		u.Close()
	})
	return u
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var whole bytes.Buffer
	fmt.Fprintf(&whole, "%s %s\nHost: %s\n", r.Method, r.RequestURI, r.Host)
	_ = r.Header.Write(&whole) // to memory
	whole.Write(body)
	u.mu.Lock()
	u.received = append(u.received, whole.String())
	u.bodies = append(u.bodies, body)
	u.mu.Unlock()
	if u.answer != nil {
		u.answer(w, r)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (u *upstream) requests() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.received)
}

// deskFor returns a desk with an archive, and the log of the archive.
func deskFor(t *testing.T, address string) (desk, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	a, err := newArchive(address, ownToken, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	d := plainDesk()
	d.archive = a
	return d, &log
}

func archivingDesk(t *testing.T) func() desk {
	t.Helper()
	u := newUpstream(t, nil)
	return func() desk {
		d, _ := deskFor(t, u.URL)
		return d
	}
}

// The archive gets a person's notes and the token of the demo, and nothing of the token that the
// demo received (requirement R-TOK-6).
func TestArchiveGetsItsOwnToken(t *testing.T) {
	u := newUpstream(t, nil)
	at := func() desk {
		d, _ := deskFor(t, u.URL+"/notes?from=demo")
		return d
	}
	eachEraAt(t, at, func(t *testing.T, d demo, as func(string, string) *caller) {
		c := as("reader", "notes:read notes:write")
		c.call(t, "add_note", `{"text":"milk"}`)
		as("writer", "notes:write").call(t, "add_note", `{"text":"bread"}`)
		resp, answer := c.call(t, "archive_notes", `{}`)
		if got := string(answer.Result.StructuredContent); resp.StatusCode != http.StatusOK || got != `{"archived":1}` {
			t.Fatalf("%s %s %+v", resp.Status, got, answer)
		}
		requests := u.requests()
		got := requests[len(requests)-1]
		if !strings.HasPrefix(got, "POST /notes?from=demo\n") || !strings.Contains(got, "\nAuthorization: Bearer "+ownToken+"\r\n") {
			t.Errorf("the archive received %q", got)
		}
		for _, part := range strings.Split(c.token, ".") {
			if strings.Contains(got, part) {
				t.Errorf("the archive received the token of the client, or a part of it: %q", got)
			}
		}
		want := fmt.Sprintf(`{"owner":"%s|reader","notes":["milk"]}`, d.issuer.URL())
		if got := string(u.bodies[len(u.bodies)-1]); got != want {
			t.Errorf("the archive received %s, want %s", got, want)
		}
		checkInsufficient(t, d, first(as("reader", "notes:write").call(t, "archive_notes", `{}`)), "archive_notes", "notes:read")
	})
	if n := len(u.requests()); n != 2 {
		t.Errorf("the archive received %d requests, want one in each era", n)
	}
}

func first(resp *http.Response, _ result) *http.Response { return resp }

// Without notes there is an empty list.
func TestArchiveOfNothing(t *testing.T) {
	u := newUpstream(t, nil)
	d, _ := deskFor(t, u.URL)
	c := newDemoWith(t, d, nil).as("reader", "notes:read")
	c.modern = true
	c.call(t, "archive_notes", `{}`)
	var sent archived
	if err := json.Unmarshal(u.bodies[0], &sent); err != nil || sent.Notes == nil || len(sent.Notes) != 0 {
		t.Errorf("the archive received %s, %v", u.bodies[0], err)
	}
}

// A failure of the archive ends the call in bounded time, with one sentence without details, and
// redirects are not followed.
func TestArchiveInTrouble(t *testing.T) {
	elsewhere := newUpstream(t, nil)
	const internals = "the table of the archive is corrupt"
	tests := map[string]struct {
		answer http.HandlerFunc
		want   error
	}{
		"an error":      {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, internals, http.StatusInternalServerError) }, errArchiveRefuses},
		"another token": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, internals, http.StatusUnauthorized) }, errArchiveRefuses},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, errArchiveRefuses},
		"no answer":       {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, errArchiveGone},
		"a broken answer": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, errArchiveGone},
		"a large header": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Large", strings.Repeat("x", 2*archiveHeader))
		}, errArchiveGone},
		"down": {nil, errArchiveGone},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, test.answer)
			if name == "down" {
				u.Close()
			}
			d, log := deskFor(t, u.URL)
			if d.archive.within != archiveTime {
				t.Errorf("a call may take %s", d.archive.within)
			}
			d.archive.within = 500 * time.Millisecond
			c := newDemoWith(t, d, nil).as("reader", "notes:read")
			c.modern = true
			resp, text := c.post(t, "tools/call", `{"name":"archive_notes","arguments":{}}`)
			if resp.StatusCode != http.StatusOK || !strings.Contains(text, `"isError":true`) || !strings.Contains(text, `"text":"`+test.want.Error()+`"`) {
				t.Errorf("%s %s, want an error of the tool that says %q", resp.Status, text, test.want)
			}
			for _, secret := range []string{ownToken, c.token, internals, strings.TrimPrefix(u.URL, "http://")} {
				if strings.Contains(text, secret) {
					t.Errorf("the client learns %q: %s", secret, text)
				}
			}
			if got := log.String(); !strings.Contains(got, "archive") || strings.Contains(got, ownToken) || strings.Contains(got, c.token) {
				t.Errorf("the log says %q", got)
			}
		})
	}
	if got := elsewhere.requests(); len(got) > 0 {
		t.Errorf("the redirect was followed: %q", got)
	}
}

// The demo does not wait for the end of an endless response.
func TestArchiveAnswerIsBounded(t *testing.T) {
	ended := make(chan struct{})
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 32<<10)); err != nil {
				return
			}
		}
	})
	d, _ := deskFor(t, u.URL)
	d.archive.within = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := d.archive.keep(ctx, "reader", nil); err != nil || ctx.Err() != nil {
		t.Errorf("the archive took the notes, and the tool says %v after %v", err, ctx.Err())
	}
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("the answer is still read")
	}
}

// A token is sent over https or to loopback only.
func TestArchiveAddress(t *testing.T) {
	for address, ok := range map[string]bool{
		"https://archive.example.com/notes": true, "https://archive.example.com:8443": true,
		"http://127.0.0.1:9000/notes": true, "http://[::1]:9000": true, "http://localhost:9000": true,
		"http://archive.example.com/notes": false, "http://127.0.0.1.example.com": false, "http://10.0.0.1": false, "http://localhost.example.com": false,
		"archive.example.com": false, "/notes": false, "": false, "https://": false, "ftp://archive.example.com": false, "https:archive.example.com": false,
		"https://user:password@archive.example.com": false, "https://archive.example.com/#x": false, "https://archive example.com": false,
	} {
		if _, err := newArchive(address, ownToken, slog.New(slog.DiscardHandler)); (err == nil) != ok {
			t.Errorf("%q: %v, want it allowed: %t", address, err, ok)
		} else if err != nil && strings.Contains(err.Error(), "password") {
			t.Errorf("%q: the error shows a password: %v", address, err)
		}
	}
	for _, token := range []secret{"two words", "a\r\nX-Header: b", "\u00e9", "a\x00"} {
		if _, err := newArchive("https://archive.example.com", token, nil); err == nil || strings.Contains(err.Error(), string(token)) {
			t.Errorf("token %q: %v", string(token), err)
		}
	}
}

func TestSecretsHideThemselves(t *testing.T) {
	s := settings{ArchiveToken: ownToken}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("settings", "token", s.ArchiveToken, "all", s)
	for _, text := range []string{fmt.Sprint(s), fmt.Sprintf("%+v", s), fmt.Sprintf("%#v", s), fmt.Sprintf("%s %q %x", s.ArchiveToken, s.ArchiveToken, s.ArchiveToken), log.String()} {
		if strings.Contains(text, ownToken) || strings.Contains(text, fmt.Sprintf("%x", ownToken)) || !strings.Contains(text, "[redacted]") {
			t.Errorf("%q", text)
		}
	}
}

// The tool exists when there is an archive, with a token from a file or from the environment.
func TestRunArchives(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(ownToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	issuer := middlewaretest.NewIssuer(t)
	for name, test := range map[string]struct {
		env  string
		args []string
	}{
		"file":             {"", []string{"--archive-token-file", file}},
		"environment":      {"DEMO_ARCHIVE_TOKEN=" + ownToken, nil},
		"file by its name": {"DEMO_ARCHIVE_TOKEN_FILE=" + file, nil},
		"flag":             {"", []string{"--archive-token", ownToken}},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, nil)
			server := startRun(t, environment(test.env), append(test.args, "--listen", "127.0.0.1:0", "--issuer", issuer.URL(), "--archive", u.URL)...)
			c := caller{modern: true, resource: server.resource, token: issuer.Mint(middlewaretest.Claims{"aud": server.resource, "scope": "notes:read"})}
			c.call(t, "archive_notes", `{}`)
			if got := u.requests(); len(got) != 1 || !strings.Contains(got[0], "Authorization: Bearer "+ownToken+"\r\n") {
				t.Errorf("the archive received %q", got)
			}
			if code := server.end(t); code != 0 || strings.Contains(server.announced, ownToken) {
				t.Errorf("exit %d after\n%s", code, server.announced)
			}
		})
	}
}
