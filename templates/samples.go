package templates

import (
	"errors"
	"io"
	"time"

	"gatehouse.example/templates/language"
)

// hostile is a value that shows in a page of an operator's own whether it is escaped.
const hostile = `"><script>alert(1)</script>'`

// samples write each page with everything on it, and with hostile values where strangers
// choose them. They try the operator's own templates at the start.
var samples = map[string]func(*Set, io.Writer) error{
	"login": func(s *Set, w io.Writer) error {
		return s.Login(w, Login{
			Action: "/login", Transaction: "transaction", CSRF: "csrf", Client: sampleClient(), RedirectHost: "app.example.org",
			Resources: sampleResources(), UserName: hostile, Account: sampleAccount(), Problem: language.Detail(hostile), Passkey: samplePrompt(false), Providers: sampleProviders(),
		})
	},
	"provider": func(s *Set, w io.Writer) error {
		return s.Provider(w, BeforeProvider{
			Action: "/login", Transaction: "transaction", CSRF: "csrf", Provider: sampleProviders()[0], Client: sampleClient(), RedirectHost: "app.example.org",
			LoopbackRedirect: true, PrivateUseRedirect: true, Resources: sampleResources(),
		})
	},
	"connected": func(s *Set, w io.Writer) error {
		return s.Connected(w, Connected{
			Action: "/account/providers", CSRF: "csrf", Account: sampleAccount(), Providers: sampleProviders(),
			Identities: []Identity{{ID: "one", Provider: hostile, Handle: hostile, Removable: true}, {ID: "two", Provider: hostile, Handle: hostile}},
		})
	},
	"consent": func(s *Set, w io.Writer) error {
		var groups []Group
		for _, r := range sampleResources() {
			groups = append(groups, Group{Resource: r, Boxes: []Box{{Value: "scope " + r.URI, Name: hostile, Description: hostile, Checked: true}}})
		}
		return s.Consent(w, Consent{
			Action: "/consent", Transaction: "transaction", CSRF: "csrf", Client: sampleClient(), RedirectHost: "app.example.org",
			LoopbackRedirect: true, PrivateUseRedirect: true, Groups: groups, Offline: true, Memories: []Memory{{Value: "day", Days: 1, Hours: 24}, {Value: "7h", Hours: 7}, {Value: "always", Always: true}},
			UserName: hostile, Account: sampleAccount(), Problem: language.Detail(hostile),
		})
	},
	"closed": func(s *Set, w io.Writer) error {
		return s.Closed(w, Closed{
			Action: "/consent", Transaction: "transaction", CSRF: "csrf", Client: sampleClient(), RedirectHost: "app.example.org",
			Resources: sampleResources(), UserName: hostile, Account: sampleAccount(), Code: hostile,
		})
	},
	"error": func(s *Set, w io.Writer) error {
		return s.Error(w, Error{
			Status: 400, Title: language.Detail(hostile), Message: language.Detail(hostile), Code: hostile,
			Steps: []language.Text{language.Detail(hostile), language.Detail(hostile)}, Link: &Link{URL: "https://app.example.org/", Host: "app.example.org"},
		})
	},
	"home": func(s *Set, w io.Writer) error {
		return s.Home(w, Home{
			Issuer: "https://auth.example.com", Catalogue: "https://auth.example.com/registry/", Enclosed: true, Registers: true,
			Pinned: []string{hostile, hostile}, Account: sampleAccount(),
		})
	},
	"account":      sampleOverview,
	"applications": sampleApplications,
	"remembered":   sampleRemembered,
	"sessions":     sampleSessions,
	"activity":     sampleActivity,
	"done":         sampleDone,
	"code": func(s *Set, w io.Writer) error {
		return s.Code(w, Code{
			Action: "/login/code", Transaction: "transaction", CSRF: "csrf", UserName: hostile, Other: "/login", Problem: language.Detail(hostile),
		})
	},
	"passkeys": func(s *Set, w io.Writer) error {
		day := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		return s.Passkeys(w, Passkeys{
			Action: "/account/passkeys", CSRF: "csrf", Back: "/account", Prompt: samplePrompt(true), Problem: language.Detail(hostile),
			Keys: []Passkey{{ID: "one", Name: hostile, Created: day, Used: day, Synced: true}, {ID: "two", Name: hostile, Created: day}},
		})
	},
	"second-factor": func(s *Set, w io.Writer) error {
		without := SecondFactor{
			Action: "/account/second-factor", CSRF: "csrf", Back: "/account", Setup: "setup", Secret: "ABCD EFGH", Picture: "M4 4h1v1h-1z", Size: 9,
			Problem: language.Detail(hostile),
		}
		with := SecondFactor{Action: "/account/second-factor", CSRF: "csrf", Back: "/account", Set: true, Left: 2, Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
		return errors.Join(s.SecondFactor(w, without), s.SecondFactor(w, with))
	},
	"recovery": func(s *Set, w io.Writer) error {
		return s.RecoveryCodes(w, RecoveryCodes{Codes: []string{hostile, "0000-0000-0000-0000"}, Back: "/account"})
	},
	"password": func(s *Set, w io.Writer) error {
		return s.ChangePassword(w, ChangePassword{
			Action: "/account/password", CSRF: "csrf", Back: "/account", UserName: hostile, Least: 8, Problem: language.Detail(hostile),
		})
	},
	"invite": func(s *Set, w io.Writer) error {
		return s.Invite(w, Invite{
			Action: "/invite", CSRF: "csrf", UserName: hostile, Password: true, Least: 8, Prompt: samplePrompt(true), Problem: language.Detail(hostile),
		})
	},
	"registry-list": func(s *Set, w io.Writer) error {
		return (&Registry{s}).List(w, RegistryList{
			Title: hostile, Home: "/", Search: hostile, Total: 2, Next: "/?cursor=a", Start: "/", API: "/v0.1/servers",
			Servers: []RegistryRow{{Name: hostile, Title: hostile, Description: hostile, Version: hostile, Page: "/servers/a", Icon: "/icon", Deprecated: true}},
		})
	},
	"registry-server": func(s *Set, w io.Writer) error {
		day := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		inputs := []RegistryInput{{Name: hostile, Description: hostile, Required: true, Secret: true}}
		return (&Registry{s}).Server(w, RegistryServer{
			ListTitle: hostile, Home: "/", Name: hostile, Title: hostile, Description: hostile, Version: hostile, Deprecated: true, Message: hostile,
			LatestPage: "/servers/a", Published: day, Updated: day, Website: "https://example.com/", Source: "https://example.com/",
			Remotes: []RegistryRemote{{Type: hostile, URL: hostile, Inputs: inputs}}, Packages: []RegistryPackage{{Type: hostile, Identifier: hostile, Inputs: inputs}},
			Facts: []RegistryFact{{hostile, hostile}}, Versions: []RegistryVersion{{Version: hostile, Page: "/servers/a", Published: day}}, API: "/v0.1/servers/a",
		})
	},
}

func sampleClient() Client { return Client{Name: hostile, Host: "app.example.org", Logo: "/logo"} }

func samplePrompt(enrol bool) *PasskeyPrompt {
	return &PasskeyPrompt{Action: "/passkey", Script: "/passkey.js", Options: hostile, Enrol: enrol}
}

func sampleProviders() []Provider {
	return []Provider{{ID: "company", Name: hostile}, {ID: "other", Name: hostile}}
}

func sampleAccount() Account {
	return Account{UserName: hostile, SignOut: "/logout", Token: "token"}
}

func sampleResources() []Resource {
	return []Resource{{URI: "https://one.example.com/mcp", Name: hostile}, {URI: "https://two.example.com/mcp", Name: hostile}}
}
