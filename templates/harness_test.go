package templates_test

import (
	"fmt"
	"html"
	"maps"
	"regexp"
	"strings"
	"testing"

	"gatehouse.example/templates"
	"gatehouse.example/templates/language"
)

var (
	notes = templates.Resource{URI: "https://notes.example.com/mcp", Name: "Notes"}
	tasks = templates.Resource{URI: "https://tasks.example.com/mcp", Name: "Tasks"}
)

func login() templates.Login {
	return templates.Login{
		Action: "/login", Transaction: "txn-1", CSRF: "csrf-1",
		Client:       templates.Client{Name: "Example Client"},
		RedirectHost: "app.example.org", Resources: []templates.Resource{notes},
	}
}

func consent() templates.Consent {
	return templates.Consent{
		Action: "/consent", Transaction: "txn-1", CSRF: "csrf-1",
		Client:       templates.Client{Name: "Example Client"},
		RedirectHost: "app.example.org",
		Groups: []templates.Group{{Resource: notes, Boxes: []templates.Box{
			{Value: "notes:read", Name: "notes:read", Description: "Read your notes", Checked: true},
			{Value: "notes:write", Name: "notes:write", Description: "Add and change notes"},
		}}},
		UserName: "reader",
	}
}

func closed() templates.Closed {
	return templates.Closed{
		Action: "/consent", Transaction: "txn-1", CSRF: "csrf-1", Client: templates.Client{Name: "Example Client"},
		RedirectHost: "app.example.org", Resources: []templates.Resource{notes}, UserName: "reader", Code: "access_denied",
		Account: templates.Account{UserName: "reader", SignOut: "/logout", Token: "token-1"},
	}
}

func problem() templates.Error {
	return templates.Error{
		Status: 400, Title: language.Detail("Unknown program"), Message: language.Detail("It is not known here."), Code: "invalid_client",
		Steps: []language.Text{language.Detail("Remove the connection."), language.Detail("Add it again.")},
		Link:  &templates.Link{URL: "https://app.example.org/cb?error=invalid_scope&state=a", Host: "app.example.org"},
	}
}

func pages(t testing.TB) *templates.Set {
	t.Helper()
	set, err := templates.New()
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// render returns the page as HTML.
func render(t testing.TB, page any) string {
	t.Helper()
	return renderWith(t, pages(t), page)
}

// renderWith returns the page as HTML, written by a set.
func renderWith(t testing.TB, set *templates.Set, page any) string {
	t.Helper()
	b := &strings.Builder{}
	var err error
	switch page := page.(type) {
	case templates.Login:
		err = set.Login(b, page)
	case templates.Consent:
		err = set.Consent(b, page)
	case templates.Closed:
		err = set.Closed(b, page)
	case templates.Error:
		err = set.Error(b, page)
	case templates.Home:
		err = set.Home(b, page)
	case templates.Code:
		err = set.Code(b, page)
	case templates.Passkeys:
		err = set.Passkeys(b, page)
	case templates.SecondFactor:
		err = set.SecondFactor(b, page)
	case templates.RecoveryCodes:
		err = set.RecoveryCodes(b, page)
	case templates.ChangePassword:
		err = set.ChangePassword(b, page)
	case templates.Invite:
		err = set.Invite(b, page)
	case templates.BeforeProvider:
		err = set.Provider(b, page)
	case templates.Connected:
		err = set.Connected(b, page)
	default:
		err = renderAccount(set, b, page)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func renderAccount(set *templates.Set, b *strings.Builder, page any) error {
	switch page := page.(type) {
	case templates.Overview:
		return set.Overview(b, page)
	case templates.Applications:
		return set.Applications(b, page)
	case templates.Remembered:
		return set.Remembered(b, page)
	case templates.Sessions:
		return set.Sessions(b, page)
	case templates.Activity:
		return set.Activity(b, page)
	case templates.Done:
		return set.Done(b, page)
	}
	return fmt.Errorf("no page for %T", page)
}

// text returns the visible text of a page: no tags, no style, single spaces.
func text(page string) string {
	page = regexp.MustCompile(`(?s)<style>.*?</style>`).ReplaceAllString(page, "")
	page = regexp.MustCompile(`</?(bdi|span|code)[^>]*>`).ReplaceAllString(page, "")
	page = regexp.MustCompile(`<[^>]*>`).ReplaceAllString(page, "\n")
	return html.UnescapeString(strings.Join(strings.Fields(page), " "))
}

// everyPage returns each page in each of its variants.
func everyPage() map[string]any {
	wrong, loopback, private, bare := login(), consent(), consent(), problem()
	wrong.Problem, wrong.UserName = language.Detail("Wrong password."), "reader"
	loopback.LoopbackRedirect, loopback.Offline, loopback.Problem = true, true, language.Detail("Tick something.")
	private.PrivateUseRedirect = true
	private.Groups = append(private.Groups, templates.Group{Resource: tasks, Boxes: []templates.Box{{Value: tasks.URI, Description: "Whatever you may do there"}}})
	bare.Link, bare.Steps = nil, bare.Steps[:1]
	hostile := consent()
	hostile.Client.Name = strings.Repeat(`"><script>x</script><p style="x" onclick=x>`, 300)
	hostile.UserName, hostile.RedirectHost, hostile.Problem = hostile.Client.Name, hostile.Client.Name, language.Detail(hostile.Client.Name)
	hostile.Groups = []templates.Group{{Resource: templates.Resource{URI: hostile.Client.Name, Name: hostile.Client.Name}, Boxes: []templates.Box{
		{Value: hostile.Client.Name, Name: hostile.Client.Name, Description: hostile.Client.Name},
	}}}
	shut := closed()
	shut.Client.Name, shut.UserName, shut.RedirectHost, shut.Code = hostile.Client.Name, hostile.Client.Name, hostile.Client.Name, hostile.Client.Name
	shut.Resources = []templates.Resource{{URI: hostile.Client.Name, Name: hostile.Client.Name}}
	every := map[string]any{
		"closed": closed(), "hostile closed": shut, "empty closed": templates.Closed{},
		"login": login(), "login with problem": wrong, "empty login": templates.Login{},
		"consent": consent(), "loopback": loopback, "private use": private, "hostile": hostile, "empty consent": templates.Consent{},
		"code": templates.Code{UserName: hostile.Client.Name, Problem: hostile.Problem}, "empty code": templates.Code{},
		"passkeys": templates.Passkeys{Keys: []templates.Passkey{{ID: "a", Name: hostile.Client.Name}}, Problem: hostile.Problem}, "no passkeys": templates.Passkeys{},
		"second factor": templates.SecondFactor{Set: true, Left: 1}, "no second factor": templates.SecondFactor{Size: 20, Secret: "ABCD", Problem: hostile.Problem},
		"recovery codes": templates.RecoveryCodes{Codes: []string{"0000-0000-0000-0000"}},
		"password":       templates.ChangePassword{UserName: hostile.Client.Name, Least: 8, Problem: hostile.Problem}, "fresh password": templates.ChangePassword{Fresh: true, Least: 8},
		"invite": templates.Invite{UserName: hostile.Client.Name, Password: true, Least: 8, Problem: hostile.Problem}, "empty invite": templates.Invite{},
		"home": templates.Home{Issuer: "https://auth.example.com", Catalogue: "https://auth.example.com/registry/"}, "short home": templates.Home{},
		"enclosed home": templates.Home{Issuer: "https://auth.example.com", Enclosed: true, Registers: true, Pinned: []string{"Notes", "Tasks"}},
		"error":         problem(), "short error": bare, "empty error": templates.Error{},
	}
	maps.Copy(every, accountPages("Bank"))
	maps.Copy(every, otherPages("Bank"))
	maps.Copy(every, emptyAccountPages())
	return every
}

func check(t *testing.T, name, got string, want, never []string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("%s: %q is missing in:\n%s", name, w, text(got))
		}
	}
	for _, n := range never {
		if strings.Contains(got, n) {
			t.Errorf("%s: %q is there", name, n)
		}
	}
}
