package templates_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/templates"
	"gatehouse.example/templates/language"
)

func TestConsent(t *testing.T) {
	with := func(change func(*templates.Consent)) templates.Consent {
		p := consent()
		change(&p)
		return p
	}
	for _, tt := range []struct {
		name        string
		page        templates.Consent
		want, never []string
	}{
		{"plain", consent(), []string{
			`<form method="post" action="/consent"`,
			`name="transaction" value="txn-1"`, `name="csrf" value="csrf-1"`,
			`<button class="plain" type="submit" name="decision" value="deny">Deny</button>`,
			`<button class="primary" type="submit" name="decision" value="allow">Allow</button>`,
			`name="scope" value="notes:read" checked>`, `name="scope" value="notes:write">`,
			`<bdi>Read your notes</bdi> <bdi class="uri">notes:read</bdi>`,
			`<bdi class="name">reader</bdi>`, "ends by itself",
		}, []string{`role="alert"`, `class="caution"`, "until it is revoked"}},
		{"loopback", with(func(p *templates.Consent) { p.LoopbackRedirect = true }), []string{"any program on it could receive it"}, []string{"an application on this device"}},
		{"private use", with(func(p *templates.Consent) { p.PrivateUseRedirect = true }), []string{"an application on this device"}, []string{"a program on this computer"}},
		{"offline", with(func(p *templates.Consent) { p.Offline = true }), []string{"until it is revoked"}, []string{"ends by itself"}},
		{"problem", with(func(p *templates.Consent) { p.Problem = language.Detail("Tick one.") }), []string{`role="alert">Tick one.</p>`}, nil},
		{"no scopes", with(func(p *templates.Consent) {
			p.Groups[0].Boxes = []templates.Box{{Description: "Whatever you may do there"}}
		}), []string{"<p><bdi>Whatever you may do there</bdi>. There are no single permissions", `value="allow"`}, []string{"checkbox", "Untick"}},
		{"approved before", with(func(p *templates.Consent) { p.PreApproved = true }), []string{"<bdi>Read your notes</bdi>"}, []string{"Untick", `href="#permissions"`}},
		{"counted", consent(), []string{`<a href="#permissions">2 permissions</a> are asked for`}, nil},
		{"whole description", with(func(p *templates.Consent) {
			p.Groups[0].Boxes[0].Whole = language.Detail("Everything there")
		}), []string{"<bdi>Everything there</bdi>"}, []string{"Read your notes"}},
		{"nothing but buttons", templates.Consent{}, []string{`value="allow"`, `value="deny"`, "An application without a name", "gave no name"}, []string{"Signed in as", "Returns to", "Wants to use"}},
		{"scope without description", with(func(p *templates.Consent) {
			p.Groups[0].Boxes = []templates.Box{{Value: "notes:read", Name: "notes:read"}}
		}), []string{"<bdi>notes:read</bdi></label>"}, nil},
	} {
		check(t, tt.name, render(t, tt.page), tt.want, tt.never)
	}
}

func TestDenyComesFirst(t *testing.T) {
	// The Enter key presses the first submit button.
	got := render(t, consent())
	if deny, allow := strings.Index(got, `value="deny"`), strings.Index(got, `value="allow"`); deny < 0 || deny > allow {
		t.Error("the Enter key would allow")
	}
}

func TestClientIsNeverTakenAtItsWord(t *testing.T) {
	const unverified = "Unverified: this name was chosen by the application itself."
	for _, tt := range []struct {
		name        string
		client      templates.Client
		want, never []string
	}{
		{"self-registered", templates.Client{Name: "Bank"}, []string{unverified}, []string{"Published by"}},
		{"self-registered with a host", templates.Client{Name: "Bank", Host: "app.example.org"}, []string{unverified, "It is described at app.example.org."}, []string{"Published by"}},
		{"verified", templates.Client{Name: "App", Verified: true, Host: "app.example.org"}, []string{"Published by app.example.org"}, []string{"Unverified"}},
		{"configured", templates.Client{Name: "App", Verified: true}, nil, []string{"Unverified", "Published by"}},
		{"no name", templates.Client{}, []string{"An application without a name", "Unverified: the application gave no name."}, []string{unverified}},
		{"invisible name", templates.Client{Name: " \u200b\u3164\u2800\u202e\x00 "}, []string{"An application without a name"}, nil},
	} {
		c, l := consent(), login()
		c.Client, l.Client = tt.client, tt.client
		check(t, tt.name+" at consent", text(render(t, c)), tt.want, tt.never)
		check(t, tt.name+" at login", text(render(t, l)), tt.want, tt.never)
	}
}

// TestGroups: with several resources each has a group of its own, a scope that two share has
// a box under each, and two resources with one name are distinguished by the URI.
func TestGroups(t *testing.T) {
	p := consent()
	other := templates.Resource{URI: "https://other.example.com/mcp", Name: "Tasks"}
	p.Groups = []templates.Group{
		{Resource: notes, Boxes: []templates.Box{
			{Value: "n read", Name: "read", Description: "Read notes", Checked: true}, {Value: "n profile", Name: "profile", Description: "See your name"},
		}},
		{Resource: tasks, Boxes: []templates.Box{{Value: "t profile", Name: "profile", Description: "See your name"}}},
		{Resource: other, Boxes: []templates.Box{{Value: "other", Description: "Whatever you may do there", Checked: true}}},
	}
	got := render(t, p)
	var legends []string
	for _, part := range strings.Split(got, "<fieldset>")[1:] {
		legends = append(legends, text("<"+part[:strings.Index(part, "</legend>")]))
	}
	if want := []string{"Notes", "Tasks " + tasks.URI, "Tasks " + other.URI}; !slices.Equal(legends, want) {
		t.Errorf("groups %q, want %q", legends, want)
	}
	ids := map[string]bool{}
	for _, id := range regexp.MustCompile(`<input type="checkbox" id="([^"]*)"`).FindAllStringSubmatch(got, -1) {
		ids[id[1]] = true
	}
	if len(ids) != 4 {
		t.Errorf("four boxes have the ids %v", ids)
	}
	check(t, "boxes", got, []string{
		`name="scope" value="n read" checked>`, `name="scope" value="n profile">`, `name="scope" value="t profile">`, `name="scope" value="other" checked>`,
	}, []string{"no single permissions"})
	check(t, "lead", text(got), []string{"asks to use Notes, Tasks and Tasks on your behalf", "Where nothing is ticked, nothing is allowed.", "Whatever you may do there"}, nil)
	check(t, "one group", text(render(t, consent())), nil, []string{"Where nothing is ticked"})
}
