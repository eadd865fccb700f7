package templates

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"net/url"
	"strings"
	"time"
)

// Registry is the parsed pages of a registry: a list of servers and a page about one. Nearly
// all that they show was written by strangers. It is safe for concurrent use.
type Registry struct {
	set          *Set
	list, server *template.Template
}

// NewRegistry parses the embedded pages; a page that is missing or broken is an error.
func NewRegistry() (*Registry, error) {
	css, err := registryStyle()
	if err != nil {
		return nil, fmt.Errorf("templates: style: %w", err)
	}
	sum := sha256.Sum256(css)
	r := &Registry{set: &Set{
		style: template.CSS(css),
		policy: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
			"'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'",
	}}
	for name, page := range map[string]**template.Template{
		"registry-list": &r.list, "registry-server": &r.server, "error": &r.set.problem,
	} {
		*page, err = template.New("layout.html").Option("missingkey=error").
			ParseFS(embedded, "pages/layout.html", "pages/registry.html", "pages/"+name+".html")
		if err != nil {
			return nil, fmt.Errorf("templates: page %s: %w", name, err)
		}
	}
	return r, nil
}

// registryStyle is the style of all pages and what these have besides.
func registryStyle() ([]byte, error) {
	css, err := embedded.ReadFile("pages/style.css")
	if err != nil {
		return nil, err
	}
	more, err := embedded.ReadFile("pages/registry.css")
	return append(css, more...), err
}

// ContentSecurityPolicy returns the policy under which the pages work: no script, no frame,
// no style but their own, and pictures of this origin only.
func (r *Registry) ContentSecurityPolicy() string { return r.set.ContentSecurityPolicy() }

// Error writes the error page.
func (r *Registry) Error(w io.Writer, p Error) error { return r.set.Error(w, p) }

// RegistryList is a page of the list: a form that searches with the input search, and
// servers.
type RegistryList struct {
	// Title is the heading, Home where the list begins and the form is sent to.
	Title, Home string
	// Search is what was searched for, Problem what is wrong with it.
	Search, Problem string
	// Total is how many servers there are in all.
	Total int
	// Servers are those of this page. Next is where the next one is, Start where the first
	// one is, if they are others.
	Servers     []RegistryRow
	Next, Start string
	// API is where programs read the same.
	API string
}

// RegistryRow is a server in a list.
type RegistryRow struct {
	Name, Title, Description, Version string
	// Page is where the page of the server is, Icon where a picture of it is.
	Page, Icon string
	Deprecated bool
}

// RegistryServer is the page of one version of one server.
type RegistryServer struct {
	// ListTitle and Home name the list and lead to it.
	ListTitle, Home string

	Name, Title, Description, Version string
	Icon                              string
	// Deprecated and Message are the status, Latest says that no version is newer.
	Deprecated, Latest bool
	Message            string
	// LatestPage is where the page of the latest version is.
	LatestPage         string
	Published, Updated time.Time
	Website, Source    string // links to elsewhere
	Remotes            []RegistryRemote
	Packages           []RegistryPackage
	Facts              []RegistryFact // what the registry adds
	Versions           []RegistryVersion
	// Older leads to the versions before those, Newest to the first ones. Both may be empty.
	Older, Newest string
	// API is where programs read the same.
	API string
}

// RegistryRemote is a place where a server runs.
type RegistryRemote struct {
	Type, URL string
	Inputs    []RegistryInput
}

// RegistryPackage is something to install.
type RegistryPackage struct {
	Type, Identifier, Version, Base, Digest, Runtime, Transport string
	Inputs                                                      []RegistryInput
}

// RegistryInput is something that whoever uses a server has to provide.
type RegistryInput struct {
	Name, Description string
	Required, Secret  bool
}

// RegistryFact is something that a registry says about a server.
type RegistryFact struct{ Name, Value string }

// RegistryVersion is a version of the server that a page is about.
type RegistryVersion struct {
	Version, Page                 string
	Published                     time.Time
	Current, Deprecated, IsLatest bool
}

// Limits for the parts of a page that have many parts themselves.
const (
	maxParts    = 50
	maxVersions = 200
	maxInputs   = 30
)

// List writes a page of the list.
func (r *Registry) List(w io.Writer, p RegistryList) error {
	p.Title = orElse(brief(p.Title, maxName), "Servers")
	p.Search, p.Problem = brief(p.Search, maxName), brief(p.Problem, maxMessage)
	p.Home, p.API, p.Next, p.Start = ours(p.Home), ours(p.API), ours(p.Next), ours(p.Start)
	rows := make([]rowView, len(p.Servers))
	for i, s := range p.Servers {
		rows[i] = s.view()
	}
	return r.set.render(w, r.list, p.Title, struct {
		RegistryList
		Servers []rowView
	}{p, rows})
}

// rowView is a RegistryRow made safe to look at.
type rowView struct {
	RegistryRow
	Initial string
}

func (s RegistryRow) view() rowView {
	v := rowView{RegistryRow: RegistryRow{
		Name: address(s.Name), Title: brief(s.Title, maxName), Description: brief(s.Description, maxURI),
		Version: brief(s.Version, maxName), Page: ours(s.Page), Icon: ours(s.Icon), Deprecated: s.Deprecated,
	}}
	v.Title = orElse(v.Title, local(v.Name))
	v.Initial = initial(v.Title)
	return v
}

// local is the part of a name behind its namespace, which stands for a title.
func local(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// ours returns a path of this origin as it is, and of everything else nothing.
func ours(path string) string {
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

// initial is what stands where there is no picture.
func initial(title string) string { return strings.ToUpper(firstRunes(title, 1)) }

// Server writes the page of a server.
func (r *Registry) Server(w io.Writer, p RegistryServer) error {
	v := p.view()
	return r.set.render(w, r.server, v.Title, v)
}

// serverView is RegistryServer made safe to look at.
type serverView struct {
	RegistryServer
	Initial                                            string
	Website, Source                                    *outward
	MoreRemotes, MorePackages, MoreFacts, MoreVersions int
}

func (p RegistryServer) view() serverView {
	v := serverView{RegistryServer: p, Website: outwardTo(p.Website), Source: outwardTo(p.Source)}
	v.ListTitle = orElse(brief(p.ListTitle, maxName), "Servers")
	v.Name, v.Title, v.Version = address(p.Name), brief(p.Title, maxName), brief(p.Version, maxName)
	v.Title = orElse(v.Title, local(v.Name))
	v.Initial = initial(v.Title)
	v.Description, v.Message = brief(p.Description, maxURI), brief(p.Message, maxMessage)
	v.Home, v.API, v.Icon, v.LatestPage = ours(p.Home), ours(p.API), ours(p.Icon), ours(p.LatestPage)
	v.Older, v.Newest = ours(p.Older), ours(p.Newest)
	v.Remotes, v.MoreRemotes = atMost(p.Remotes, maxParts, RegistryRemote.view)
	v.Packages, v.MorePackages = atMost(p.Packages, maxParts, RegistryPackage.view)
	v.Facts, v.MoreFacts = atMost(p.Facts, maxParts, RegistryFact.view)
	v.Versions, v.MoreVersions = atMost(p.Versions, maxVersions, RegistryVersion.view)
	return v
}

// atMost returns the first parts made safe to look at, and how many are left out.
func atMost[T any](parts []T, most int, view func(T) T) (shown []T, more int) {
	more = max(len(parts)-most, 0)
	for _, part := range parts[:len(parts)-more] {
		shown = append(shown, view(part))
	}
	return shown, more
}

func (r RegistryRemote) view() RegistryRemote {
	inputs, _ := atMost(r.Inputs, maxInputs, RegistryInput.view)
	return RegistryRemote{brief(r.Type, maxName), address(r.URL), inputs}
}

func (p RegistryPackage) view() RegistryPackage {
	inputs, _ := atMost(p.Inputs, maxInputs, RegistryInput.view)
	return RegistryPackage{
		brief(p.Type, maxName), address(p.Identifier), brief(p.Version, maxName), address(p.Base),
		brief(p.Digest, maxName), brief(p.Runtime, maxName), brief(p.Transport, maxName), inputs,
	}
}

func (i RegistryInput) view() RegistryInput {
	return RegistryInput{brief(i.Name, maxName), brief(i.Description, maxURI), i.Required, i.Secret}
}

func (f RegistryFact) view() RegistryFact {
	return RegistryFact{brief(f.Name, maxName), brief(f.Value, maxURI)}
}

func (v RegistryVersion) view() RegistryVersion {
	v.Version, v.Page = brief(v.Version, maxName), ours(v.Page)
	return v
}

// outward is a link to elsewhere.
type outward struct{ URL, Shown string }

// outwardTo returns nil unless the link is https or http, and its host is all that says where
// it leads.
func outwardTo(raw string) *outward {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		return nil
	}
	return &outward{URL: u.String(), Shown: address(raw)}
}
