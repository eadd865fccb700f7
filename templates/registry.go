package templates

import (
	"io"
	"net/url"
	"strings"
	"time"

	"gatehouse.example/templates/language"
)

// Registry holds the parsed pages of a registry: a list of servers, and a page for each.
// Nearly all of their text comes from third parties. It is safe for concurrent use.
type Registry struct {
	set *Set
}

// registryNames are the pages of a Registry. Each has a sample in samples.
var registryNames = []string{"registry-list", "registry-server", "error"}

var registryPages = newKind([]string{"style.css", "registry.css"}, []string{"registry.html"}, registryNames)

// NewRegistry parses the embedded pages. A missing or broken page is an error.
func NewRegistry() (*Registry, error) { return Look{}.Registry() }

// Registry is [Look.Pages] for the pages of a registry.
func (l Look) Registry() (*Registry, error) {
	set, err := l.rehearsed(registryPages)
	if err != nil {
		return nil, err
	}
	return &Registry{set}, nil
}

// ContentSecurityPolicy returns the policy for the pages: no script, no frame, no style but
// their own, and pictures of this origin only.
func (r *Registry) ContentSecurityPolicy() string { return r.set.ContentSecurityPolicy() }

// For returns the pages for a reader.
func (r *Registry) For(reader Reader) *Registry { return &Registry{r.set.For(reader)} }

// Error writes the error page.
func (r *Registry) Error(w io.Writer, p Error) error { return r.set.Error(w, p) }

// RegistryList is one page of the list: a search form with the input search, and servers.
type RegistryList struct {
	// Title is the heading; empty means r.set.say("registry.title"). Home is the path of the first page, which the form is sent to.
	Title, Home string
	// Search is the search term, Problem an error message about it.
	Search  string
	Problem language.Text
	// Total is the number of servers in the list.
	Total int
	// Servers are the servers on this page. Next is the path of the next page, Start that of
	// the first one; empty if there is none or it is this page.
	Servers     []RegistryRow
	Next, Start string
	// API is the path of the same list for programs.
	API string
}

// RegistryRow is a server in a list.
type RegistryRow struct {
	Name, Title, Description, Version string
	// Page is the path of the server's page, Icon that of its picture.
	Page, Icon string
	Deprecated bool
}

// RegistryServer is the page of one version of one server.
type RegistryServer struct {
	// ListTitle is the title of the list, Home the path of its first page.
	ListTitle, Home string

	Name, Title, Description, Version string
	Icon                              string
	// Deprecated and Message are the status of the version, Latest means that no version is
	// newer.
	Deprecated, Latest bool
	Message            string
	// LatestPage is the path of the latest version's page.
	LatestPage         string
	Published, Updated time.Time
	Website, Source    string // URLs of other sites
	Remotes            []RegistryRemote
	Packages           []RegistryPackage
	Facts              []RegistryFact // added by the registry
	Versions           []RegistryVersion
	// Older is the path of the page with the versions before these, Newest that of the newest
	// versions. Both may be empty.
	Older, Newest string
	// API is the path of the same server for programs.
	API string
}

// RegistryRemote is a URL at which a server runs.
type RegistryRemote struct {
	Type, URL string
	Inputs    []RegistryInput
}

// RegistryPackage is a package that contains a server.
type RegistryPackage struct {
	Type, Identifier, Version, Base, Digest, Runtime, Transport string
	Inputs                                                      []RegistryInput
}

// RegistryInput is a value that the user of a server must provide.
type RegistryInput struct {
	Name, Description string
	Required, Secret  bool
}

// RegistryFact is a statement of the registry about a server.
type RegistryFact struct{ Name, Value string }

// RegistryVersion is an entry in the list of versions on a server's page.
type RegistryVersion struct {
	Version, Page                 string
	Published                     time.Time
	Current, Deprecated, IsLatest bool
}

// The greatest numbers of parts on a page.
const (
	maxParts    = 50
	maxVersions = 200
	maxInputs   = 30
)

// List writes a page of the list.
func (r *Registry) List(w io.Writer, p RegistryList) error {
	p.Title = orElse(shorten(p.Title, maxName), r.set.say("registry.title"))
	p.Search, p.Problem = shorten(p.Search, maxName), shortText(p.Problem)
	p.Home, p.API, p.Next, p.Start = ownPath(p.Home), ownPath(p.API), ownPath(p.Next), ownPath(p.Start)
	rows := make([]rowView, len(p.Servers))
	for i, s := range p.Servers {
		rows[i] = s.view()
	}
	return r.set.render(w, "registry-list", p.Title, struct {
		RegistryList
		Servers []rowView
	}{p, rows})
}

// rowView is a RegistryRow with safe text.
type rowView struct {
	RegistryRow
	Initial string
}

func (s RegistryRow) view() rowView {
	v := rowView{RegistryRow: RegistryRow{
		Name: address(s.Name), Title: shorten(s.Title, maxName), Description: shorten(s.Description, maxURI),
		Version: shorten(s.Version, maxName), Page: ownPath(s.Page), Icon: ownPath(s.Icon), Deprecated: s.Deprecated,
	}}
	v.Title = orElse(v.Title, localName(v.Name))
	v.Initial = initial(v.Title)
	return v
}

// localName returns the part of a name after its namespace. It replaces a missing title.
func localName(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// ownPath returns path if it is a path of this origin, and otherwise "".
func ownPath(path string) string {
	if strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "//") && !strings.HasPrefix(path, `/\`) {
		return path
	}
	return ""
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// initial returns the letter that replaces a missing picture.
func initial(title string) string { return strings.ToUpper(firstRunes(title, 1)) }

// Server writes the page of a server.
func (r *Registry) Server(w io.Writer, p RegistryServer) error {
	v := p.view(r.set)
	return r.set.render(w, "registry-server", v.Title, v)
}

// serverView is a RegistryServer with safe text.
type serverView struct {
	RegistryServer
	Initial                                            string
	Website, Source                                    *externalLink
	MoreRemotes, MorePackages, MoreFacts, MoreVersions int
}

func (p RegistryServer) view(s *Set) serverView {
	v := serverView{RegistryServer: p, Website: newExternalLink(p.Website), Source: newExternalLink(p.Source)}
	v.ListTitle = orElse(shorten(p.ListTitle, maxName), s.say("registry.title"))
	v.Name, v.Title, v.Version = address(p.Name), shorten(p.Title, maxName), shorten(p.Version, maxName)
	v.Title = orElse(v.Title, localName(v.Name))
	v.Initial = initial(v.Title)
	v.Description, v.Message = shorten(p.Description, maxURI), shorten(p.Message, maxMessage)
	v.Home, v.API, v.Icon, v.LatestPage = ownPath(p.Home), ownPath(p.API), ownPath(p.Icon), ownPath(p.LatestPage)
	v.Older, v.Newest = ownPath(p.Older), ownPath(p.Newest)
	v.Remotes, v.MoreRemotes = atMost(p.Remotes, maxParts, RegistryRemote.view)
	v.Packages, v.MorePackages = atMost(p.Packages, maxParts, RegistryPackage.view)
	v.Facts, v.MoreFacts = atMost(p.Facts, maxParts, RegistryFact.view)
	v.Versions, v.MoreVersions = atMost(p.Versions, maxVersions, RegistryVersion.view)
	return v
}

// atMost returns the views of the first parts, at most most of them, and the number of parts
// that are left out.
func atMost[T any](parts []T, most int, view func(T) T) (shown []T, more int) {
	more = max(len(parts)-most, 0)
	for _, part := range parts[:len(parts)-more] {
		shown = append(shown, view(part))
	}
	return shown, more
}

func (r RegistryRemote) view() RegistryRemote {
	inputs, _ := atMost(r.Inputs, maxInputs, RegistryInput.view)
	return RegistryRemote{shorten(r.Type, maxName), address(r.URL), inputs}
}

func (p RegistryPackage) view() RegistryPackage {
	inputs, _ := atMost(p.Inputs, maxInputs, RegistryInput.view)
	return RegistryPackage{
		shorten(p.Type, maxName), address(p.Identifier), shorten(p.Version, maxName), address(p.Base),
		shorten(p.Digest, maxName), shorten(p.Runtime, maxName), shorten(p.Transport, maxName), inputs,
	}
}

// Kind returns what a package is, as a text: its type, where it comes from, and how it is run
// and spoken to.
func (p RegistryPackage) Kind() language.Text {
	kind := language.Say("registry.kind", "type", p.Type)
	for _, more := range []struct{ id, name, value string }{
		{"registry.from", "base", p.Base}, {"registry.runWith", "runtime", p.Runtime}, {"registry.over", "transport", p.Transport},
	} {
		if more.value != "" {
			kind = language.Say(more.id, "type", kind, more.name, more.value)
		}
	}
	return kind
}

func (i RegistryInput) view() RegistryInput {
	return RegistryInput{shorten(i.Name, maxName), shorten(i.Description, maxURI), i.Required, i.Secret}
}

func (f RegistryFact) view() RegistryFact {
	return RegistryFact{shorten(f.Name, maxName), shorten(f.Value, maxURI)}
}

func (v RegistryVersion) view() RegistryVersion {
	v.Version, v.Page = shorten(v.Version, maxName), ownPath(v.Page)
	return v
}

// externalLink is a link to another site.
type externalLink struct{ URL, Shown string }

// newExternalLink returns nil unless the URL is https or http and its host alone determines
// its destination.
func newExternalLink(raw string) *externalLink {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		return nil
	}
	return &externalLink{URL: u.String(), Shown: address(raw)}
}
