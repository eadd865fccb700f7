package registry

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
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
	if err == nil && len(record.Version()) > maxStoredVersion {
		err = fmt.Errorf("registry: own server: a version of more than %d bytes", maxStoredVersion)
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
	if !validName(name) {
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
	seen := map[rowName]bool{}
	for _, item := range items {
		id := rowName{item.Record.Name(), item.Record.Version()}
		if seen[id] {
			errs = append(errs, fmt.Errorf("registry: own servers: there are two of %s %s: give one another name or version", id.Name, id.Version))
		}
		seen[id] = true
	}
	return errors.Join(errs...)
}

// digestOf tells sets of own servers apart.
func digestOf(items []Item) string {
	h := sha256.New()
	for _, item := range items {
		fmt.Fprintf(h, "%d %s%s %d %s", len(item.Record.raw), item.Record.raw, item.Official.Status, len(item.Official.StatusMessage), item.Official.StatusMessage)
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// publishOwn brings the servers of our own into the catalogue, if they are others than those
// that are there and this process has not done so before. Of several processes with
// different ones, that which started or changed last is heard.
func (r *round) publishOwn(ctx context.Context) error {
	if r.c.Own == nil {
		return nil
	}
	items := r.c.Own()
	if err := CheckOwn(items); err != nil {
		return err
	}
	digest := digestOf(items)
	r.mu.Lock()
	known := r.published == digest && r.ledger.OwnDigest != ""
	r.mu.Unlock()
	if !known && r.ledger.OwnDigest != digest || r.order.AcceptChanged {
		if err := r.replaceOwn(ctx, items, digest); err != nil {
			return err
		}
	}
	r.mu.Lock()
	r.published = digest
	r.mu.Unlock()
	return nil
}

// replaceOwn commits all servers of our own at once.
func (r *round) replaceOwn(ctx context.Context, items []Item, digest string) error {
	l := &r.ledger
	wanted := map[string][]Item{}
	var own []string
	for _, item := range items {
		name := item.Record.Name()
		if wanted[name] == nil {
			own = append(own, name)
		}
		wanted[name] = append(wanted[name], item)
	}
	slices.Sort(own)
	stamp := l.stamp(r.c.Now())
	var all []change
	for _, name := range union(own, l.Own) {
		f, err := r.family(ctx, name, func(version string) bool {
			return slices.ContainsFunc(wanted[name], func(item Item) bool { return item.Record.Version() == version })
		})
		if err != nil {
			return err
		}
		if len(wanted[name]) == 0 && r.release(f) { // what the upstream has with that name may come back
			l.FullDue, l.Tag = true, ""
		}
		r.own(ctx, f, wanted[name], stamp)
		changes := f.changes(stamp)
		for _, c := range changes {
			r.report.became(c)
		}
		all = append(all, changes...)
	}
	l.Own, l.OwnDigest = own, digest
	return r.commit(ctx, all)
}

func union(a, b []string) []string {
	all := append(slices.Clone(a), b...)
	slices.Sort(all)
	return slices.Compact(all)
}

// release reports whether the upstream has something under a name that was ours.
func (r *round) release(f *family) bool {
	return slices.ContainsFunc(f.was, func(e entry) bool { return flagged(e, FlagConflict) || flagged(e, FlagShadowed) })
}

// record puts a record of ours in its place. Another one under a name and version that readers
// have seen is refused, as an upstream's is: versions do not change (seed, States and
// transitions), and who has read the first one keeps to it.
func (r *round) record(ctx context.Context, e *entry, item Item) {
	raw := item.Record.Raw()
	if e.Server == nil || r.order.AcceptChanged || sameJSON(e.Server, raw) {
		if e.Server == nil || !sameJSON(e.Server, raw) {
			e.Server = raw
		}
		flag(e, FlagChanged, false)
		return
	}
	r.report.Changed++
	flag(e, FlagChanged, true)
	r.log.ErrorContext(ctx, "registry: the record of one of our servers is another one than before, and is refused: the first one stays; give the changed one another version",
		"name", e.Name, "version", e.Version, "differs_in", strings.Join(Record{raw: string(e.Server)}.Differs(item.Record), " "))
}

// contests reports whether a row shows that the upstream has a server with this name.
func contests(e entry) bool {
	return flagged(e, FlagConflict) || flagged(e, FlagShadowed) || e.Origin == OriginUpstream && live(e)
}

// own makes a family what it is to be: the versions that are wanted, and no others.
func (r *round) own(ctx context.Context, f *family, wanted []Item, stamp time.Time) {
	contested := slices.ContainsFunc(f.was, contests)
	for i := range f.is {
		e := &f.is[i]
		if slices.ContainsFunc(wanted, func(item Item) bool { return item.Record.Version() == e.Version }) || !live(*e) {
			continue
		}
		if e.Origin == OriginOwn {
			bury(e, sayGone, stamp)
			e.Flags = nil
		} else if len(wanted) > 0 {
			bury(e, sayShadowed, stamp)
			flag(e, FlagShadowed, true)
		}
	}
	for _, item := range wanted {
		there, known := f.find(item.Record.Version())
		e := *there
		if !known || e.Origin != OriginOwn {
			e = entry{Name: f.name, Version: item.Record.Version(), Origin: OriginOwn}
		}
		r.record(ctx, &e, item)
		e.Meta = metaOf(item.Meta)
		describe(&e, item.Official, stamp)
		if contested && !flagged(e, FlagConflict) {
			r.contest(ctx, &e)
		}
		f.put(e)
	}
}
