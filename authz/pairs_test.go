package authz_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/authz"
)

const (
	files       = "https://files.example.com/mcp"
	filesSecret = "the-secret-of-the-files-server"
)

// sharing makes notes and tasks share the scope profile, and adds the resource files, which
// has no scopes.
func sharing(c *authz.Config) {
	profile := authz.Scope{Name: "profile", Description: "See your name"}
	c.Resources[0].Scopes = append(c.Resources[0].Scopes, profile)
	c.Resources[1].Scopes, c.Resources[1].DefaultScopes = append(c.Resources[1].Scopes, profile), nil
	c.Resources = append(c.Resources, authz.Resource{URI: files, Name: "Files", Introspection: &authz.IntrospectionClient{ID: "files", Secret: filesSecret}})
}

var introspectors = map[string][2]string{notes: {notes, notesSecret}, tasks: {"tasks", tasksSecret}, files: {"files", filesSecret}}

// asksFor returns an authorization request for several resources.
func asksFor(c testClient, scope string, resources ...string) url.Values {
	request := asks(c)
	request["resource"] = resources
	if scope != "" {
		request.Set("scope", scope)
	}
	return request
}

// consentTo opens the consent page of a request.
func (b *browser) consentTo(request url.Values) reply {
	b.h.t.Helper()
	b.walk(request, "perhaps") // an invalid decision
	return b.page
}

// tick submits the consent page with exactly these boxes ticked.
func (b *browser) tick(boxes ...string) reply {
	b.h.t.Helper()
	pairs := []string{"decision", "allow", "scope", ""}
	for _, box := range boxes {
		pairs = append(pairs, "scope", box)
	}
	return b.submit(pairs...)
}

var fieldset = regexp.MustCompile(`(?s)<fieldset>\s*<legend[^>]*>(.*?)</legend>(.*?)</fieldset>`)

// boxes returns the values of the checkboxes under each legend.
func (r reply) boxes() map[string][]string {
	found := map[string][]string{}
	for _, set := range fieldset.FindAllStringSubmatch(r.body, -1) {
		for _, tag := range inputTag.FindAllString(set[2], -1) {
			legend := regexp.MustCompile(`<[^>]*>`).ReplaceAllString(set[1], "")
			found[legend] = append(found[legend], html.UnescapeString(valAttr.FindStringSubmatch(tag)[1]))
		}
	}
	return found
}

// heldGrant is a grant and the tokens that its client holds.
type heldGrant struct {
	h       *harness
	c       testClient
	refresh string
}

// redeemFor redeems the code of a consent for one of its resources.
func (h *harness) redeemFor(c testClient, consent reply, resource string) heldGrant {
	h.t.Helper()
	answer := h.toToken(c, naming(redemption(c, consent.location(h.t).Query().Get("code")), resource))
	if answer.status != http.StatusOK {
		h.t.Fatalf("redeem: %s", answer)
	}
	return heldGrant{h: h, c: c, refresh: answer.member(h.t, "refresh_token")}
}

// token refreshes for some resources; with no argument the request names none.
func (l *heldGrant) token(resources ...string) reply {
	l.h.t.Helper()
	values := refreshing(l.c, l.refresh)
	if len(resources) > 0 {
		naming(values, resources...)
	}
	answer := l.h.toToken(l.c, values)
	if answer.status == http.StatusOK {
		l.refresh = answer.member(l.h.t, "refresh_token")
	}
	return answer
}

// mustHold checks the access of the grant at one resource: want are the scopes, nil means no
// access. The token, the answer with it, and introspection must agree.
func (l *heldGrant) mustHold(resource string, want []string) {
	l.h.t.Helper()
	answer := l.token(resource)
	if want == nil {
		mustRefuse(l.h.t, answer, http.StatusBadRequest, "invalid_target")
		return
	}
	access := answer.member(l.h.t, "access_token")
	if answer.status != http.StatusOK {
		l.h.t.Errorf("%s: %s", resource, answer)
		return
	}
	scope := strings.Join(want, " ")
	in := l.h.introspectAs(introspectors[resource][0], introspectors[resource][1], access).json(l.h.t)
	told, _ := in["scope"].(string)
	claimed, _ := claims(l.h.t, access)["scope"].(string)
	if in["active"] != true || claims(l.h.t, access)["aud"] != resource || claimed != scope || told != scope || answer.member(l.h.t, "scope") != scope {
		l.h.t.Errorf("%s: a token for %v with %q, introspection %v; want %q", resource, claims(l.h.t, access)["aud"], claimed, in, scope)
	}
}

// TestWhatIsTickedIsGranted ticks every subset of the boxes of a page with three resources,
// two of which share a scope and one of which has none. At each resource the grant allows
// exactly what was ticked under its name, and it does not include a resource without a ticked
// box.
func TestWhatIsTickedIsGranted(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{config: sharing}), testClients()["native"]
	b := h.newBrowser()
	request := asksFor(c, "notes:read tasks:read profile", notes, tasks, files)
	page := b.consentTo(request).boxes()
	type box struct{ resource, scope, value string }
	var all []box
	for _, of := range []struct {
		legend, uri string
		scopes      []string
	}{{"Notes", notes, []string{"notes:read", "profile"}}, {"Tasks", tasks, []string{"tasks:read", "profile"}}, {"Files", files, []string{""}}} {
		if len(page[of.legend]) != len(of.scopes) {
			t.Fatalf("the page has the boxes %q", page)
		}
		for i, scope := range of.scopes {
			all = append(all, box{of.uri, scope, page[of.legend][i]})
		}
	}
	for set := 1; set < 1<<len(all); set++ {
		var ticked, resources []string
		want := map[string][]string{}
		for i, box := range all {
			if set&(1<<i) == 0 {
				continue
			}
			ticked = append(ticked, box.value)
			if want[box.resource] == nil {
				want[box.resource], resources = []string{}, append(resources, box.resource)
			}
			if box.scope != "" {
				want[box.resource] = append(want[box.resource], box.scope)
			}
		}
		b.consentTo(request)
		held := h.redeemFor(c, b.tick(ticked...), resources[0])
		for _, resource := range []string{notes, tasks, files} {
			held.mustHold(resource, want[resource])
		}
		if g := h.grantOfToken(held.refresh); !slices.Equal(g.Resources, resources) || !slices.Equal(g.Access.Resources(), resources) {
			t.Errorf("ticked %q, on record for %v and %v", ticked, g.Resources, g.Access)
		}
	}
}

// TestTokenForSeveral: a token does not express at which resource a scope counts. A token
// for two resources lacks a scope that was allowed at one of them and not at the other that
// defines it.
func TestTokenForSeveral(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{config: sharing}), testClients()["native"]
	b := h.newBrowser()
	b.consentTo(asksFor(c, "", notes, tasks, files))
	held := h.redeemFor(c, b.tick(notes+" notes:read", notes+" profile", tasks+" tasks:read"), notes)
	both := held.token(notes, tasks)
	if got := both.member(t, "scope"); got != "notes:read tasks:read" {
		t.Errorf("a token for both has %q", got)
	}
	for resource, want := range map[string]string{notes: "notes:read", tasks: "tasks:read"} {
		in := h.introspectAs(introspectors[resource][0], introspectors[resource][1], both.member(t, "access_token")).json(t)
		if in["active"] != true || in["scope"] != want {
			t.Errorf("%s: introspection says %v", resource, in)
		}
	}
	for _, resources := range [][]string{{tasks}, {notes, tasks}} {
		values := replaced(naming(refreshing(c, held.refresh), resources...), "scope", "profile")
		mustRefuse(t, h.toToken(c, values), http.StatusBadRequest, "invalid_scope")
	}
	answer := h.toToken(c, replaced(naming(refreshing(c, held.refresh), notes), "scope", "profile"))
	if answer.member(t, "scope") != "profile" {
		t.Errorf("where it was allowed: %s", answer)
	}
}

// TestSeparatorsInNames: the names of scopes may contain nearly every character, including
// URIs of resources and the values of boxes. Each box stands for its own pair only.
func TestSeparatorsInNames(t *testing.T) {
	t.Parallel()
	odd := []string{tasks, tasks + "/profile", "0", "0:1", "1.0", "a,b", "a;b", "a|b", "a&scope=b", "a+b", "a%20b", "a=b", "<a>", "a#b", "?", "notes:read'"}
	h, c := newHarness(t, setup{config: func(c *authz.Config) {
		for i := range c.Resources {
			for _, name := range odd {
				c.Resources[i].Scopes = append(c.Resources[i].Scopes, authz.Scope{Name: name, Description: "Odd"})
			}
			c.Resources[i].DefaultScopes = nil
		}
		c.Resources = append(c.Resources, authz.Resource{URI: files, Name: "Files", Introspection: &authz.IntrospectionClient{ID: "files", Secret: filesSecret}})
	}}), testClients()["native"]
	b := h.newBrowser()
	request := asksFor(c, strings.Join(odd, " "), notes, tasks, files)
	page := b.consentTo(request).boxes()
	all := slices.Concat(page["Notes"], page["Tasks"], page["Files"])
	if n := len(all); n != 2*len(odd)+1 || len(slices.Compact(slices.Sorted(slices.Values(all)))) != n {
		t.Fatalf("%d boxes: %q", n, all)
	}
	for legend, uri := range map[string]string{"Notes": notes, "Tasks": tasks} {
		for i, box := range page[legend] {
			b.consentTo(request)
			held := h.redeemFor(c, b.tick(box), uri)
			for _, resource := range []string{notes, tasks, files} {
				want := []string(nil)
				if resource == uri {
					want = odd[i : i+1]
				}
				held.mustHold(resource, want)
			}
		}
	}
	b.consentTo(request)
	held := h.redeemFor(c, b.tick(all...), files)
	held.mustHold(notes, odd)
	held.mustHold(files, []string{})
}

// TestForeignBoxes: a value that was not on the page is refused; nothing is granted, and
// the transaction remains. Who ticked nothing finds nothing ticked for them.
func TestForeignBoxes(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{config: sharing}), testClients()["native"]
	b := h.newBrowser()
	refused := func(name string, ticked ...string) {
		t.Helper()
		before := h.meter.writes.Load()
		r := b.tick(ticked...)
		if faults := pageFaults(r, http.StatusBadRequest); len(faults) > 0 || !strings.Contains(r.body, `name="decision"`) {
			t.Errorf("%s: %s\n%s", name, strings.Join(faults, "\n"), r)
		}
		if n := h.meter.writes.Load() - before; n != 0 {
			t.Errorf("%s: %d writes", name, n)
		}
		boxes, shown := regexp.MustCompile(`type="checkbox"[^>]*`).FindAllString(r.body, -1), 0
		for _, box := range boxes {
			shown += strings.Count(box, " checked")
		}
		if want := len(boxes) * min(1, len(ticked)); shown != want {
			t.Errorf("%s: the page comes back with %d of %d boxes ticked, want %d", name, shown, len(boxes), want)
		}
	}
	b.consentTo(asksFor(c, "notes:read profile", notes, tasks, files))
	right := notes + " notes:read"
	for name, ticked := range map[string][]string{
		"nothing":                             nil,
		"a scope without its resource":        {right, "notes:read"},
		"the scope of another resource":       {right, tasks + " notes:read"},
		"a scope that was not asked for":      {right, notes + " notes:write"},
		"a resource whose scopes have boxes":  {right, notes},
		"a resource that was not asked for":   {right, "https://other.example.com/mcp"},
		"a scope of a resource without any":   {right, files + " profile"},
		"two spaces":                          {right, notes + "  profile"},
		"nothing but what is not on the page": {"profile"},
	} {
		refused(name, ticked...)
	}
	held := h.redeemFor(c, b.tick(right, right), notes)
	held.mustHold(notes, []string{"notes:read"})
	held.mustHold(tasks, nil)

	b.consentTo(asksFor(c, "", files))
	refused("a box where there is none", files)
	held = h.redeemFor(c, b.tick(), files)
	held.mustHold(files, []string{})
}

// TestResourceThatHasNoScopes: the page describes the access to a resource without scopes.
// Beside another resource it has a box; alone it has none.
func TestResourceThatHasNoScopes(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{config: sharing}), testClients()["native"]
	b := h.newBrowser()
	for name, tt := range map[string]struct {
		request url.Values
		boxes   map[string][]string
		says    string
	}{
		"alone":                       {asksFor(c, "", files), map[string][]string{}, "<p><bdi>Whatever you may do there</bdi>. There are no single permissions"},
		"beside another":              {asksFor(c, "profile", notes, files), map[string][]string{"Notes": {notes + " profile"}, "Files": {files}}, "<bdi>Whatever you may do there</bdi>"},
		"with scopes, none asked for": {asksFor(c, "notes:read", notes, tasks), map[string][]string{"Notes": {notes + " notes:read"}, "Tasks": {tasks}}, "<bdi>Whatever you may do there that takes no permission</bdi>"},
		"one scope of one":            {asksFor(c, "profile", tasks), map[string][]string{"Permissions": {"profile"}}, "<bdi>See your name</bdi>"},
	} {
		page := b.consentTo(tt.request)
		if got := page.boxes(); fmt.Sprint(got) != fmt.Sprint(tt.boxes) || !strings.Contains(page.body, tt.says) {
			t.Errorf("%s: boxes %q, want %q with %q:\n%s", name, got, tt.boxes, tt.says, page)
		}
	}
}

// TestManyBoxes: a page may have more boxes than the usual limit on repeated parameters.
func TestManyBoxes(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{config: func(c *authz.Config) {
		for i := range 100 {
			c.Resources[1].Scopes = append(c.Resources[1].Scopes, authz.Scope{Name: fmt.Sprintf("tasks:%d", i), Description: fmt.Sprint(i)})
		}
		c.Resources[1].DefaultScopes = nil
	}}), testClients()["native"]
	b := h.newBrowser()
	page := b.consentTo(asksFor(c, "", notes, tasks)).boxes()
	held := h.redeemFor(c, b.tick(slices.Concat(page["Notes"], page["Tasks"])...), tasks)
	if got := strings.Fields(held.token().member(t, "scope")); len(got) != 102 {
		t.Errorf("%d scopes: %v", len(got), got)
	}
}
