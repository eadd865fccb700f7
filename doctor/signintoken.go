package doctor

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// tokens is an answer of the token endpoint (RFC 6749 section 5). What it said stays out of the
// record of the walk.
type tokens struct {
	*exchange
	ok                  bool // there is an access token
	access, refresh, id string
	kind, scope, failed string
	lifetime            time.Duration // 0 if it is not said
	claims              map[string]any
}

// claim returns a claim of the access token that is a text, if clients can read it.
func (t *tokens) claim(name string) string {
	s, _ := t.claims[name].(string)
	return s
}

// obtain asks the token endpoint, as the client that the doctor is.
func (w *walker) obtain(ctx context.Context, place string, form url.Values) *tokens {
	return w.readTokens(w.ask(ctx, w.tokenQuestion(place, form)))
}

func (w *walker) tokenQuestion(place string, form url.Values) question {
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Accept": {"application/json"}}
	return question{place, http.MethodPost, w.endpoint(w.signIn.document, "token_endpoint"), header, w.authenticate(header, form).Encode()}
}

// authenticate adds what the client is known by: its secret in the header or the form, if it was
// given one (RFC 6749 section 2.3.1).
func (w *walker) authenticate(header http.Header, form url.Values) url.Values {
	c := w.signIn.client
	switch {
	case c.secret == "" || c.method == "none":
		form.Set("client_id", c.id)
	case c.method == "client_secret_post":
		form.Set("client_id", c.id)
		form.Set("client_secret", c.secret)
	default:
		pair := url.QueryEscape(c.id) + ":" + url.QueryEscape(c.secret)
		header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(pair)))
	}
	return form
}

// readTokens takes what is secret out of an answer.
func (w *walker) readTokens(e *exchange) *tokens {
	t := &tokens{exchange: e}
	var said struct {
		Access   string `json:"access_token"`
		Kind     string `json:"token_type"`
		Refresh  string `json:"refresh_token"`
		ID       string `json:"id_token"`
		Scope    string `json:"scope"`
		Error    string `json:"error"`
		Lifetime any    `json:"expires_in"`
	}
	if e.cut || json.Unmarshal(e.body, &said) != nil {
		w.hide.scrubBody(e)
		return t
	}
	t.access, t.kind, t.refresh, t.id, t.scope, t.failed = said.Access, said.Kind, said.Refresh, said.ID, said.Scope, said.Error
	w.hide.add(t.access, t.refresh, t.id)
	if e.body = nil; !e.ok() {
		return t
	}
	if seconds, ok := said.Lifetime.(float64); ok {
		t.lifetime = time.Duration(min(seconds, 1e9)) * time.Second
	}
	if t.ok = bearerToken.MatchString(t.access) && strings.EqualFold(t.kind, "Bearer"); t.ok {
		t.claims = claims(t.access)
		w.signIn.issued = append(w.signIn.issued, t)
	}
	return t
}

// foreign is a resource that no authorization server has.
const foreign = "https://doctor.example.com/another-resource"

// refresh tries the refresh token: what does not spoil it first, what must be refused last.
func (w *walker) refresh(ctx context.Context) {
	s := w.signIn
	if s.first.refresh == "" {
		return
	}
	chain := &chain{w, s.first.refresh}
	if s.renewed = chain.next(ctx, "sign-in.refresh", nil); !s.renewed.ok {
		return
	}
	newest := s.renewed
	if s.bare = chain.next(ctx, "sign-in.refresh-bare", url.Values{"resource": nil}); s.bare.ok {
		newest = s.bare
	}
	if !w.alone {
		w.ask(ctx, w.message("use.renewed", sessions, listBody, bearing(newest.access)))
	}
	w.narrow(ctx, chain)
	s.elsewhere = chain.next(ctx, "sign-in.refresh-elsewhere", url.Values{"resource": {foreign}})
	if s.elsewhere.ok && !w.alone {
		w.present(ctx, "use.elsewhere", s.elsewhere.access)
	}
	if !s.elsewhere.ok { // a refusal may have used the token up
		if s.unspent = chain.next(ctx, "sign-in.refresh-unspent", nil); !s.unspent.ok {
			return
		}
	}
	w.spoil(ctx, chain)
}

// spoil uses a refresh token twice at once, and one whose successor was used: either may end the
// grant.
func (w *walker) spoil(ctx context.Context, chain *chain) {
	s := w.signIn
	s.parallel = w.twice(ctx, chain.token)
	for _, t := range s.parallel {
		if t.ok && t.refresh != "" {
			chain.token = t.refresh
		}
	}
	old := chain.token
	if s.after = chain.next(ctx, "sign-in.refresh-after", nil); !s.after.ok || s.after.refresh == "" || s.after.refresh == old {
		return
	}
	if chain.next(ctx, "sign-in.refresh-successor", nil).ok {
		s.replayed = w.obtain(ctx, "sign-in.refresh-again", w.refreshForm(old, nil))
	}
}

// chain is a refresh token and those that follow it.
type chain struct {
	w     *walker
	token string
}

func (c *chain) next(ctx context.Context, place string, more url.Values) *tokens {
	t := c.w.obtain(ctx, place, c.w.refreshForm(c.token, more))
	if t.ok && t.refresh != "" {
		c.token = t.refresh
	}
	return t
}

func (w *walker) refreshForm(token string, more url.Values) url.Values {
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}}
	w.addResource(form)
	maps.Copy(form, more)
	return form
}

// narrow asks for a token with one of the scopes, and calls with it what needs more, perhaps:
// nothing that is done by it (MCP Step-Up Authorization Flow).
func (w *walker) narrow(ctx context.Context, c *chain) {
	scopes := slices.DeleteFunc(w.signIn.scope(), func(s string) bool { return s == "offline_access" || s == "openid" })
	if len(scopes) < 2 || w.alone {
		return
	}
	if w.signIn.narrowed = c.next(ctx, "sign-in.narrow", url.Values{"scope": {scopes[0]}}); !w.signIn.narrowed.ok {
		return
	}
	for _, m := range [][2]string{{"list", listBody}, {"call", callBody}} {
		w.ask(ctx, w.message("use.all-"+m[0], sessions, m[1], bearing(w.signIn.newest())))
		w.ask(ctx, w.message("use.narrow-"+m[0], sessions, m[1], bearing(w.signIn.narrowed.access)))
	}
}

// twice uses a refresh token twice at once, as clients do that run several processes.
func (w *walker) twice(ctx context.Context, token string) []*tokens {
	other := newCourier(w.options, newJudge(w.url.Hostname(), w.options))
	other.hide, other.options.Progress = w.hide, nil
	defer other.close()
	if w.courier.spent(ctx) != "" {
		return nil
	}
	q := w.tokenQuestion("sign-in.refresh-parallel", w.refreshForm(token, nil))
	second := make(chan *exchange, 1)
	go func() { second <- other.ask(ctx, question{q.place, q.method, q.url, q.header.Clone(), q.body}) }()
	first := w.readTokens(w.ask(ctx, q))
	e := <-second
	w.exchanges = append(w.exchanges, e)
	w.courier.requests++
	w.courier.bytes += other.bytes
	return []*tokens{first, w.readTokens(e)}
}
