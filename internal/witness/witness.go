// Package witness remembers, for tests, every secret that requests and answers carry, and looks for
// them in what programs wrote.
//
//	w := witness.New()
//	client := &http.Client{Transport: w.Over(http.DefaultTransport)}
//	...
//	w.Search(t, map[string]string{"log": log.String()})
package witness

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Witness is safe for concurrent use.
type Witness struct {
	mu      sync.Mutex
	secrets map[string]string // what each is
}

// New returns a witness that knows nothing.
func New() *Witness { return &Witness{secrets: map[string]string{}} }

// fields are the names of parameters, members and inputs whose values are secret.
var fields = []string{
	"password", "current", "new", "repeat", "code", "code_verifier", "client_secret", "token", "access_token", "refresh_token", "id_token",
	"client_assertion", "credential", "csrf", "registration_access_token", "initial_access_token", "introspection_secret",
}

// least is the size of the shortest text that is looked for.
const least = 6

// Keep remembers a secret. Of a JWT the signature is one by itself, and so are both parts of what
// basic authentication sends.
func (w *Witness) Keep(what, secret string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(secret) >= least {
		w.secrets[secret] = what
	}
	if parts := strings.Split(secret, "."); len(parts) == 3 && strings.HasPrefix(secret, "eyJ") {
		w.secrets[parts[2]] = "signature of " + what
	}
}

// Known returns how many secrets are remembered.
func (w *Witness) Known() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.secrets)
}

// Over returns a transport that remembers what passes through another one.
func (w *Witness) Over(next http.RoundTripper) http.RoundTripper { return transport{w, next} }

type transport struct {
	*Witness
	next http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		t.form(string(body))
	}
	t.request(r)
	res, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	t.answer(res)
	return res, nil
}

func (w *Witness) form(body string) {
	if values, err := url.ParseQuery(body); err == nil {
		w.values(values)
	}
}

func (w *Witness) values(values url.Values) {
	for _, name := range fields {
		for _, value := range values[name] {
			w.Keep(name, value)
		}
	}
}

func (w *Witness) request(r *http.Request) {
	w.values(r.URL.Query())
	w.Keep("DPoP proof", r.Header.Get("DPoP"))
	for _, cookie := range r.Cookies() {
		w.Keep("cookie "+cookie.Name, cookie.Value)
	}
	scheme, credentials, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	w.Keep(scheme+" credentials", credentials)
	if _, password, ok := r.BasicAuth(); ok {
		w.Keep("basic secret", password)
		if plain, err := url.QueryUnescape(password); err == nil {
			w.Keep("basic secret", plain)
		}
	}
}

var hidden = regexp.MustCompile(`name="csrf" value="([^"]+)"`)

// answer remembers the secrets of an answer. A stream is left alone.
func (w *Witness) answer(res *http.Response) {
	for _, cookie := range res.Cookies() {
		w.Keep("cookie "+cookie.Name, cookie.Value)
	}
	if to, err := res.Location(); err == nil {
		w.values(to.Query())
	}
	kind := res.Header.Get("Content-Type")
	if !strings.Contains(kind, "json") && !strings.Contains(kind, "html") {
		return
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	res.Body = io.NopCloser(bytes.NewReader(body))
	var members map[string]any
	if err == nil && json.Unmarshal(body, &members) == nil {
		for _, name := range fields {
			if value, ok := members[name].(string); ok {
				w.Keep(name, value)
			}
		}
	}
	for _, found := range hidden.FindAllSubmatch(body, -1) {
		w.Keep("csrf", string(found[1]))
	}
}

// Search reports each secret that a sink has, in any form in which it could be written. Each sink
// must have something.
func (w *Witness) Search(t testing.TB, sinks map[string]string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for sink, text := range sinks {
		if text == "" {
			t.Errorf("the %s is empty: it proves nothing", sink)
		}
		for secret, what := range w.secrets {
			if has(text, secret) {
				t.Errorf("the %s has a secret: %s %q", sink, what, secret)
			}
		}
	}
}

var digits = regexp.MustCompile(`^[0-9]{6}$`)

// guessable is the size of secrets, below which their digest gives them away.
const guessable = 32

// has reports whether a text has a secret: as it is, in JSON, in a URL, in base64, and if it can be
// guessed by its digest. Six digits count where they stand alone: others are part of a time.
func has(text, secret string) bool {
	if digits.MatchString(secret) {
		return regexp.MustCompile(`(^|[^0-9.])` + secret + `([^0-9]|$)`).MatchString(text)
	}
	quoted, _ := json.Marshal(secret) // of a string it never fails
	forms := []string{
		secret, strings.Trim(string(quoted), `"`), url.QueryEscape(secret), url.PathEscape(secret),
		strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(secret)), "="), base64.RawURLEncoding.EncodeToString([]byte(secret)),
	}
	if len(secret) < guessable {
		sum := sha256.Sum256([]byte(secret))
		forms = append(forms, hex.EncodeToString(sum[:]))
	}
	return slices.ContainsFunc(forms, func(form string) bool { return strings.Contains(text, form) })
}
