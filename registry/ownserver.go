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

// OwnServer is a server of our own as an operator describes it. Name and URL are enough, and
// of a server with a name that can be made from its URL, that alone; or Record has all of it.
type OwnServer struct {
	Name        string // default: [NameFor] the URL
	Version     string // default: 1.0.0
	Title       string
	Description string // default: the title and the host
	Website     string
	// URL is where the server runs, and Transport how it is spoken to: streamable-http (the
	// default) or sse.
	URL, Transport string
	// Scopes are what access tokens for the server can cover. The record has them under
	// [MetaPublisher], together with the URL as the resource that tokens are for.
	Scopes []OwnScope
	Icons  []message.Icon

	// Status is active by default.
	Status        Status
	StatusMessage string

	// Record is a whole server.json, in place of everything above but the status.
	Record json.RawMessage
}

// OwnScope is a scope and what it means to people.
type OwnScope struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

// Item returns the server as an item of a list, or says what is wrong with it.
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

// ownRecord is the server.json of a server of our own.
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

// ownPublished is what a record says about how it is protected.
type ownPublished struct {
	Resource string     `json:"resource"`
	Scopes   []OwnScope `json:"scopes"`
}

func (s OwnServer) record() (json.RawMessage, error) {
	if len(s.Record) > 0 {
		if s.Name+s.Version+s.Title+s.Description+s.Website+s.URL+s.Transport != "" || len(s.Scopes)+len(s.Icons) > 0 {
			return nil, errors.New("registry: own server: a whole record has nothing beside it but a status")
		}
		return s.Record, nil
	}
	u, err := url.Parse(s.URL)
	if err != nil || u.Hostname() == "" {
		return nil, fmt.Errorf("registry: own server: %.200q is no URL of a server", s.URL)
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

// maxDescription is how many characters a description may have.
const maxDescription = 100

func cut(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most])
	}
	return text
}

// NameFor makes the name of a server from its URL: the host with its labels reversed, and the
// path, behind the port if there is one. That of https://notes.example.com/mcp is
// com.example.notes/mcp.
func NameFor(serverURL string) (string, error) {
	u, err := url.Parse(serverURL)
	if err != nil || u.Hostname() == "" {
		return "", fmt.Errorf("registry: own server: %.200q is no URL of a server", serverURL)
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	labels := strings.Split(host, ".")
	if net.ParseIP(host) == nil {
		slices.Reverse(labels)
	} else { // an address is no domain, so nothing of it is above the rest
		labels = []string{"ip", strings.Map(plainLetter, strings.Join(labels, "-"))}
	}
	parts := strings.FieldsFunc(u.Path, func(c rune) bool { return c == '/' })
	if u.Port() != "" {
		parts = append([]string{u.Port()}, parts...)
	}
	name := strings.Join(labels, ".") + "/" + cmp.Or(strings.Map(plainLetter, strings.Join(parts, "-")), "server")
	if !ValidName(name) {
		return "", fmt.Errorf("registry: own server: no name can be made from %.200q: give one", serverURL)
	}
	return name, nil
}

// plainLetter replaces what a name does not have.
func plainLetter(c rune) rune {
	if isAlphanumeric(c) || c == '.' || c == '_' || c == '-' {
		return c
	}
	return '-'
}

// MaxOwn is how many servers of our own there may be, counting versions.
const MaxOwn = 500

// CheckOwn reports what is wrong with servers of our own as a whole.
func CheckOwn(items []Item) error {
	if len(items) > MaxOwn {
		return fmt.Errorf("registry: own servers: %d of them, %d at most", len(items), MaxOwn)
	}
	var errs []error
	seen := map[[2]string]bool{}
	for _, item := range items {
		id := [2]string{item.Record.Name(), item.Record.Version()}
		if seen[id] {
			errs = append(errs, fmt.Errorf("registry: own servers: there are two of %s %s: give one another name or version", id[0], id[1]))
		}
		seen[id] = true
	}
	return errors.Join(errs...)
}
