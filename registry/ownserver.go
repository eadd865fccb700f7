package registry

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"gatehouse.example/message"
)

// OwnServer is an own server: one that the operator of this registry adds to the catalogue.
// Set URL, and Name if [NameFor] cannot make a name from the URL or makes an unwanted one; or
// set Record to a whole server.json.
type OwnServer struct {
	Name        string // default: [NameFor] of URL
	Version     string // default: 1.0.0
	Title       string
	Description string // default: the title and the host
	Website     string
	// URL is the endpoint of the server. Transport is streamable-http (the default) or sse.
	URL, Transport string
	// Scopes are the scopes of access tokens for the server. Set them if the server requires
	// tokens: the record then has the scopes under [MetaPublisher], and URL as the resource
	// that the tokens are for.
	Scopes []OwnScope
	Icons  []message.Icon

	// Status is active by default.
	Status        Status
	StatusMessage string

	// Record is a whole server.json. Set it instead of all other fields except Status and
	// StatusMessage.
	Record json.RawMessage
}

// OwnScope is a scope and its description for people.
type OwnScope struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

// Item returns the server as an item of a list. The error is an [*InvalidError] or names the
// wrong field.
func (s OwnServer) Item() (Item, error) {
	official := Official{Status: cmp.Or(s.Status, StatusActive), StatusMessage: s.StatusMessage}
	if err := official.Status.Validate(); err != nil {
		return Item{}, err
	}
	if utf8.RuneCountInString(s.StatusMessage) > maxStatusMessage {
		return Item{}, fmt.Errorf("registry: own server: the status message has more than %d characters", maxStatusMessage)
	}
	raw, err := s.record()
	if err != nil {
		return Item{}, err
	}
	record, err := ParseRecord(raw)
	if err == nil && len(record.Version()) > MaxVersion {
		err = fmt.Errorf("registry: own server: a version of more than %d bytes", MaxVersion)
	}
	return Item{Record: record, Official: official}, err
}

// ownRecord is the server.json of an own server.
type ownRecord struct {
	Schema      string         `json:"$schema"`
	Name        string         `json:"name"`
	Title       string         `json:"title,omitempty"`
	Description string         `json:"description"`
	Version     string         `json:"version"`
	Website     string         `json:"websiteUrl,omitempty"`
	Icons       []message.Icon `json:"icons,omitempty"`
	Remotes     []ownRemote    `json:"remotes"`
	Meta        map[string]any `json:"_meta,omitempty"`
}

type ownRemote struct {
	Type string `json:"type"`
	URL  string `json:"url"`
}

// ownPublished is the value of MetaPublisher for a server that requires access tokens.
type ownPublished struct {
	Resource string     `json:"resource"`
	Scopes   []OwnScope `json:"scopes"`
}

func (s OwnServer) record() (json.RawMessage, error) {
	if len(s.Record) > 0 {
		if s.Name+s.Version+s.Title+s.Description+s.Website+s.URL+s.Transport != "" || len(s.Scopes)+len(s.Icons) > 0 {
			return nil, errors.New("registry: own server: a whole record allows nothing beside it but a status")
		}
		return s.Record, nil
	}
	u, err := url.Parse(s.URL)
	if err != nil || u.Hostname() == "" {
		return nil, fmt.Errorf("registry: own server: %.200q is not the URL of a server", s.URL)
	}
	name := s.Name
	if name == "" {
		if name, err = NameFor(s.URL); err != nil {
			return nil, err
		}
	}
	r := ownRecord{
		Schema: CurrentSchema, Name: name, Title: s.Title, Version: cmp.Or(s.Version, "1.0.0"), Website: s.Website, Icons: s.Icons,
		Description: cmp.Or(s.Description, cut(strings.TrimSpace(s.Title+" at "+u.Host), maxDescription)),
		Remotes:     []ownRemote{{cmp.Or(s.Transport, "streamable-http"), s.URL}},
	}
	if len(s.Scopes) > 0 {
		r.Meta = map[string]any{MetaPublisher: ownPublished{s.URL, s.Scopes}}
	}
	return json.Marshal(r)
}

// maxDescription is the length limit of a description in characters.
const maxDescription = 100

func cut(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most])
	}
	return text
}

// NameFor returns a server name made from a URL: the host with its labels reversed, a slash,
// and the port and path joined by hyphens. The name for https://notes.example.com/mcp is
// com.example.notes/mcp. It returns an error if the result is not a valid name.
func NameFor(serverURL string) (string, error) {
	u, err := url.Parse(serverURL)
	if err != nil || u.Hostname() == "" {
		return "", fmt.Errorf("registry: own server: %.200q is not the URL of a server", serverURL)
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	labels := strings.Split(host, ".")
	if net.ParseIP(host) == nil {
		slices.Reverse(labels)
	} else { // an IP address has no hierarchy of labels that could be reversed
		labels = []string{"ip", strings.Map(plainLetter, strings.Join(labels, "-"))}
	}
	parts := strings.FieldsFunc(u.Path, func(c rune) bool { return c == '/' })
	if u.Port() != "" {
		parts = append([]string{u.Port()}, parts...)
	}
	name := strings.Join(labels, ".") + "/" + cmp.Or(strings.Map(plainLetter, strings.Join(parts, "-")), "server")
	if !ValidName(name) {
		return "", fmt.Errorf("registry: own server: no name can be made from %.200q: set a name", serverURL)
	}
	return name, nil
}

// plainLetter replaces characters that names do not allow by hyphens.
func plainLetter(c rune) rune {
	if isAlphanumeric(c) || c == '.' || c == '_' || c == '-' {
		return c
	}
	return '-'
}

// MaxOwn is the maximum number of own servers. Each version counts.
const MaxOwn = 500

// CheckOwn returns an error if there are more than [MaxOwn] own servers, or two with the same
// name and version.
func CheckOwn(items []Item) error {
	if len(items) > MaxOwn {
		return fmt.Errorf("registry: own servers: there are %d, the limit is %d", len(items), MaxOwn)
	}
	var errs []error
	seen := map[[2]string]bool{}
	for _, item := range items {
		id := [2]string{item.Record.Name(), item.Record.Version()}
		if seen[id] {
			errs = append(errs, fmt.Errorf("registry: own servers: there are two of %s %s: change the name or version of one", id[0], id[1]))
		}
		seen[id] = true
	}
	return errors.Join(errs...)
}
