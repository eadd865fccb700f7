package templates

import "io"

// Provider is an identity provider at which people sign in.
type Provider struct {
	// ID is the value of its button, Name what the button says.
	ID, Name string
}

func (p Provider) view() Provider {
	p.Name = shorten(p.Name, maxName)
	return p
}

func viewProviders(providers []Provider) []Provider {
	views := make([]Provider, len(providers))
	for i, p := range providers {
		views[i] = p.view()
	}
	return views
}

// BeforeProvider is the page between the sign-in page and a provider: the person decides whether
// to go there for this client. It is a form with the submit buttons decision=allow and
// decision=deny, and the hidden inputs transaction, csrf and provider.
type BeforeProvider struct {
	// Action is the URL that the form is posted to.
	Action string
	// Transaction and CSRF are sent back unchanged with the form.
	Transaction, CSRF string
	// Provider is the provider to which the person goes.
	Provider Provider
	// Client is the client that asks for access, RedirectHost the host of its redirect URI.
	Client       Client
	RedirectHost string
	// LoopbackRedirect and PrivateUseRedirect add warnings, as in Consent.
	LoopbackRedirect   bool
	PrivateUseRedirect bool
	// Resources are the resources that the client wants to use.
	Resources []Resource
}

// beforeProviderView is a BeforeProvider with safe text.
type beforeProviderView struct {
	BeforeProvider
	Provider  Provider
	Client    clientView
	Host      string
	Resources []Resource
}

// Provider writes the page before a provider.
func (s *Set) Provider(w io.Writer, p BeforeProvider) error {
	provider := p.Provider.view()
	return s.render(w, "provider", s.say("provider.title", "provider", provider.Name), beforeProviderView{
		BeforeProvider: p, Provider: provider, Client: p.Client.view(s), Host: address(p.RedirectHost), Resources: viewResources(p.Resources),
	})
}

// Connected is the page of the accounts at providers with which a person signs in: a form with
// submit buttons connect=PROVIDER and disconnect=IDENTITY, and the hidden input csrf.
type Connected struct {
	// Action is the URL that the form is posted to. CSRF is sent back unchanged with it.
	Action, CSRF string
	// Account is the person.
	Account Account
	// Identities are the accounts that are connected, Providers those at which another one can be.
	Identities []Identity
	Providers  []Provider
}

// Identity is an account at a provider.
type Identity struct {
	// ID is the value of its button.
	ID string
	// Provider is the name of the provider, Handle that of the account there.
	Provider, Handle string
	// Removable means that the person can sign in without it.
	Removable bool
	// Former means that nobody can sign in with it now: its provider is not configured.
	Former bool
}

// Connected writes the page of the accounts at providers.
func (s *Set) Connected(w io.Writer, p Connected) error {
	p.Account = p.Account.view()
	p.Providers = viewProviders(p.Providers)
	identities := make([]Identity, len(p.Identities))
	for i, one := range p.Identities {
		one.Provider, one.Handle = shorten(one.Provider, maxName), shorten(one.Handle, maxName)
		identities[i] = one
	}
	p.Identities = identities
	return s.render(w, "connected", s.say("connected.title"), p)
}
