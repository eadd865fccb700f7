package middleware_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"

	"gatehouse.example/middleware"
)

var (
	livesPrompts   = []string{"greet", "greet_all", "part"}
	livesResources = []string{"notes://drafts/1", "notes://all", "file:///a"}
)

// livesList is a kind of list.
type livesList struct {
	member, name, call string
	items              []string
}

var livesLists = map[string]*livesList{
	"tools/list":               {"tools", "name", "tools/call", livesTools},
	"prompts/list":             {"prompts", "name", "prompts/get", livesPrompts},
	"resources/list":           {"resources", "uri", "resources/read", livesResources},
	"resources/templates/list": {"resourceTemplates", "uriTemplate", "resources/read", livesResources},
}

// goOn gives a request for a list a cursor, or none.
func (l *life) goOn(r *livesRequest) {
	if livesLists[r.rpc] == nil || len(l.cursors) == 0 || l.chance(2) {
		return
	}
	for range 20 { // most often one that could be good
		if r.cursor = one(l, l.cursors[max(0, len(l.cursors)-20):]...); r.cursor.key == l.handleKey && r.cursor.of == r.token.principal() || l.chance(8) {
			break
		}
	}
	if !l.chance(4) {
		r.rpc = r.cursor.list
	}
}

// askNamed makes a request about prompts or resources.
func (l *life) askNamed(r *livesRequest) {
	switch r.rpc = one(l, "prompts/get", "prompts/get", "completion/complete", "resources/subscribe", "resources/unsubscribe", "subscriptions/listen"); r.rpc {
	case "prompts/get":
		r.name = one(l, livesPrompts...)
	case "completion/complete":
		if r.name, r.template = one(l, livesPrompts...), l.chance(2); r.template {
			r.name = one(l, livesResources...)
		}
	default:
		if r.name = one(l, livesResources...); r.rpc == "subscriptions/listen" && l.chance(2) {
			r.names = []string{one(l, livesResources...)}
		}
	}
}

// about returns all names that a message has.
func (r *livesRequest) about() []string {
	if r.name == "" {
		return nil
	}
	return append([]string{r.name}, r.names...)
}

// params returns the parameters of a message, "" for none.
func (r *livesRequest) params() string {
	switch r.rpc {
	case "tools/call", "prompts/get":
		return fmt.Sprintf(`{"name":%q,"_meta":{"name":"list_notes"}}`, r.name)
	case "resources/read", "resources/subscribe", "resources/unsubscribe":
		return fmt.Sprintf(`{"uri":%q,"_meta":{"uri":"notes://all"}}`, r.name)
	case "subscriptions/listen":
		uris, _ := json.Marshal(r.about())
		return fmt.Sprintf(`{"notifications":{"resourceSubscriptions":%s}}`, uris)
	case "completion/complete":
		if r.template {
			return fmt.Sprintf(`{"ref":{"type":"ref/resource","uri":%q},"argument":{"name":"id","value":"1"}}`, r.name)
		}
		return fmt.Sprintf(`{"ref":{"type":"ref/prompt","name":%q},"argument":{"name":"id","value":"1"}}`, r.name)
	}
	if r.cursor != nil {
		return fmt.Sprintf(`{"cursor":%q}`, r.cursor.outer)
	}
	return ""
}

// part returns the names of the policy that count for a method.
func (m *livesModel) part(rpc string, template bool) map[string][]string {
	p := &m.rules.policy
	switch {
	case rpc == "tools/call":
		return p.Tools
	case rpc == "prompts/get", rpc == "completion/complete" && !template:
		return p.Prompts
	case rpc == "completion/complete", rpc == "subscriptions/listen", strings.HasPrefix(rpc, "resources/") && !strings.HasSuffix(rpc, "/list"):
		return p.Resources
	}
	return nil
}

// filters reports whether the policy changes a list.
func (m *livesModel) filters(rpc string) bool {
	list := livesLists[rpc]
	return list != nil && m.rules.policy.Listing != middleware.ListAll && len(m.part(list.call, false)) > 0
}

// lists returns the items that a list shows, with the scopes that are missing for each.
func (m *livesModel) lists(rpc string, k *livesToken) map[string][]string {
	out, list := map[string][]string{}, livesLists[rpc]
	for _, name := range list.items {
		if !m.filters(rpc) {
			out[name] = nil
			continue
		}
		needed, known := m.needs(list.call, false, name)
		missing := m.lacks(k, needed)
		gettable := m.rules.policy.Listing == middleware.ListAcquirable && len(m.askable(k, missing)) == len(missing) &&
			!slices.ContainsFunc(missing, func(s string) bool { return !slices.Contains(livesScopes, s) })
		if known && (len(missing) == 0 || gettable) {
			out[name] = missing
		}
	}
	return out
}

// list is the answer of the handler to a request for a list, with a cursor that names an item.
func (l *life) list(w http.ResponseWriter, body string) {
	var asked struct{ Method string }
	if err := json.Unmarshal([]byte(body), &asked); err != nil || livesLists[asked.Method] == nil {
		l.t.Errorf("%v: %s", err, body)
		return
	}
	list := livesLists[asked.Method]
	items := []string{}
	for _, name := range list.items {
		items = append(items, fmt.Sprintf(`{%q:%q,"inputSchema":{"type":"object"}}`, list.name, name))
	}
	answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"result":{%q:[%s],"nextCursor":"c-%d","cacheScope":"public"}}`, list.member, strings.Join(items, ","), l.count)
	if l.count%2 == 0 {
		w.Header().Set("Content-Type", streamType)
		fmt.Fprintf(w, "data: %s\n\n", answer)
		return
	}
	w.Header().Set("Content-Type", jsonType)
	fmt.Fprint(w, answer)
}

// listed compares a list with the model, and keeps its cursor.
func (l *life) listed(r *livesRequest, w *httptest.ResponseRecorder) {
	l.t.Helper()
	var answer struct {
		Result map[string]json.RawMessage `json:"result"`
	}
	body := w.Body.Bytes()
	if _, data, ok := strings.Cut(w.Body.String(), "data: "); ok {
		body = []byte(data)
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		l.t.Errorf("%v: %s", err, w.Body)
		return
	}
	list := livesLists[r.rpc]
	var items []map[string]json.RawMessage
	var cursor, cached string
	_, _ = json.Unmarshal(answer.Result[list.member], &items), json.Unmarshal(answer.Result["nextCursor"], &cursor)
	_ = json.Unmarshal(answer.Result["cacheScope"], &cached)
	got, want := map[string]string{}, map[string]string{}
	meta, missing := map[string]json.RawMessage{}, map[string][]string{}
	_, _ = json.Unmarshal(answer.Result["_meta"], &meta), json.Unmarshal(meta[middleware.MissingScopesKey], &missing)
	for _, item := range items {
		var name string
		_ = json.Unmarshal(item[list.name], &name)
		got[name] = strings.Join(slices.Sorted(slices.Values(missing[name])), " ")
	}
	for name, missing := range l.lists(r.rpc, r.token) {
		want[name] = strings.Join(missing, " ")
	}
	if !maps.Equal(got, want) {
		l.t.Errorf("the list shows %v, want %v", got, want)
	}
	inner, filtered := fmt.Sprint("c-", l.count), l.filters(r.rpc)
	if filtered == (cursor == inner) || strings.Contains(cursor, inner) == filtered || cached != map[bool]string{true: "private", false: "public"}[filtered] {
		l.t.Errorf("the cursor %s comes as %q, and is %s", inner, cursor, cached)
	}
	kept := &livesHandle{inner: inner, outer: cursor, list: r.rpc}
	if filtered {
		kept.of, kept.key = r.token.principal(), l.handleKey
	}
	l.cursors = append(l.cursors, kept)
}

// goesOn compares the cursor that the handler got with the model.
func (l *life) goesOn(r *livesRequest) {
	l.t.Helper()
	if r.cursor == nil {
		return
	}
	want := r.cursor.outer
	if l.filters(r.rpc) {
		want = r.cursor.inner
	}
	if !strings.Contains(l.body, fmt.Sprintf(`"cursor":%q`, want)) || l.seen.ContentLength != int64(len(l.body)) {
		l.t.Errorf("the handler gets %s, %d bytes, want the cursor %s", l.body, l.seen.ContentLength, want)
	}
}
