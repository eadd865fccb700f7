package registry

import (
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"gatehouse.example/message"
)

const (
	// MetaPublisher is the key in _meta of a record under which its publisher speaks.
	MetaPublisher = "io.modelcontextprotocol.registry/publisher-provided"
	// MetaOfficial is the key in _meta of an item under which a registry speaks.
	MetaOfficial = "io.modelcontextprotocol.registry/official"
)

// faults returns what is wrong with a record beyond its schema.
func (k known) faults() (faults []Fault) {
	add := func(place, reason string) {
		if reason != "" {
			faults = append(faults, Fault{place, reason})
		}
	}
	add("name", wrongName(k.Name))
	add("version", wrongVersion(k.Version))
	add("title", wrongText(k.Title))
	add("description", wrongText(k.Description))
	add("websiteUrl", wrongLink(k.Website, "https", "http"))
	add("repository.url", wrongLink(k.Repository.URL, "https", "http"))
	add("repository.subfolder", wrongFolder(k.Repository.Subfolder))
	for i, icon := range k.Icons {
		add(fmt.Sprintf("icons[%d]", i), wrongIcon(icon))
	}
	for i, remote := range k.Remotes {
		add(fmt.Sprintf("remotes[%d].url", i), wrongTemplate(remote.URL))
	}
	for i, p := range k.Packages {
		p.faults(fmt.Sprintf("packages[%d]", i), add)
		if k.current() && p.RegistryType == "mcpb" && p.FileSHA256 == "" {
			add(fmt.Sprintf("packages[%d].fileSha256", i), "a package of type mcpb must have one")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(k.Meta)) {
		add("_meta", wrongKey(key))
	}
	if k.Meta[MetaOfficial] != nil {
		add("_meta", MetaOfficial+": that is where a registry speaks about a record, and no part of it")
	}
	if k.Status != nil {
		add("status", "that is what a registry says about a record, and no part of it")
	}
	return faults
}

// current reports a record that is held against the current schema as a whole.
func (k known) current() bool { return k.Schema == "" || k.Schema == CurrentSchema }

func (p Package) faults(at string, add func(place, reason string)) {
	add(at+".identifier", wrongIdentifier(p.Identifier))
	if p.Version != "" {
		add(at+".version", wrongVersion(p.Version))
	}
	add(at+".registryBaseUrl", wrongLink(p.RegistryBaseURL, "https", "http"))
	add(at+".transport.url", wrongTemplate(p.Transport.URL))
}

// grammar is that of names, which the schemas have too.
var grammar = regexp.MustCompile(`^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$`)

// MaxName is how many bytes the name of a server may have.
const MaxName = 200

const (
	minName    = 3
	maxVersion = 255 // characters
)

// MaxVersion is how many bytes of a version a catalogue holds.
const MaxVersion = 512

// ValidName reports whether a text can be the name of a server. Such a name is two segments of
// a path that need no escaping.
func ValidName(name string) bool {
	return len(name) >= minName && len(name) <= MaxName && grammar.MatchString(name) && wrongName(name) == ""
}

// wrongName says why a name that the schema allows cannot be used, or "". Both parts stand
// in paths, where a part of dots is none.
func wrongName(name string) string {
	namespace, local, _ := strings.Cut(name, "/")
	for _, part := range []string{namespace, local} {
		if !strings.ContainsFunc(part, isAlphanumeric) {
			return "both of its parts must have a letter or a digit"
		}
	}
	return ""
}

func isAlphanumeric(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// Ranges of versions as package managers write them.
var (
	comparator = regexp.MustCompile(`^[~^<>=][~<>=]?\s*v?[0-9]`)
	either     = regexp.MustCompile(`\|\||[0-9]\s+-\s+v?[0-9]`)
	wildcard   = regexp.MustCompile(`^v?([0-9]+|[xX*])(\.([0-9]+|[xX*])){0,2}(-[0-9A-Za-z.-]+)?$`)
)

// Latest is how the latest version is asked for. No version has that name.
const Latest = "latest"

// ValidVersion reports whether a text can be the version of a server: one version and not a
// range, which can be seen and told from others.
func ValidVersion(version string) bool { return wrongVersion(version) == "" }

func wrongVersion(version string) string {
	switch {
	case version == "" || version == "." || version == "..":
		return "it must be a version"
	case version == Latest:
		return "latest is the name of the latest one"
	case strings.TrimSpace(version) != version || strings.ContainsFunc(version, invisible):
		return "it must have no white space around it, no control characters in it and nothing invisible"
	case isRange(version):
		return "it must be one version, not a range"
	}
	return ""
}

// invisible reports what nobody sees, or takes for something else: two texts that differ in it
// only look the same. A plain space is seen.
func invisible(c rune) bool {
	return c != ' ' && (!unicode.IsGraphic(c) || unicode.IsSpace(c)) || unicode.In(c, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) ||
		c == '\u2800' // a Braille pattern without dots
}

func isRange(version string) bool {
	return comparator.MatchString(version) || either.MatchString(version) ||
		wildcard.MatchString(version) && strings.ContainsAny(strings.SplitN(version, "-", 2)[0], "xX*")
}

func wrongText(text string) string {
	if text != "" && strings.TrimSpace(text) == "" {
		return "it must have more than white space"
	}
	if strings.ContainsRune(text, 0) {
		return "it must have no NUL"
	}
	return ""
}

func wrongFolder(path string) string {
	if path != "" && (path == "." || !fs.ValidPath(path) || strings.Contains(path, `\`)) {
		return "it must be a relative path without dots for segments"
	}
	return ""
}

// wrongIcon says why an icon cannot be used, or "". The schema wants an https URL, where the
// protocol allows data: as well.
func wrongIcon(icon message.Icon) string {
	if wrong := wrongLink(icon.Src, "https"); wrong != "" {
		return "src: " + wrong
	}
	if err := icon.Validate(); err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return strings.TrimPrefix(first, "message: icon: ")
	}
	return ""
}

func wrongIdentifier(identifier string) string {
	if strings.ContainsFunc(identifier, unicode.IsSpace) || strings.ContainsFunc(identifier, invisible) {
		return "it must have no white space and nothing invisible"
	}
	if strings.Contains(identifier, "://") {
		return wrongLink(identifier, "https", "http")
	}
	return ""
}

// wrongLink says why somebody should not be led to a URL, or "".
func wrongLink(raw string, schemes ...string) string {
	if raw == "" {
		return ""
	}
	if strings.ContainsFunc(raw, notInURL) {
		return "it has a character that a URL does not have"
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Hostname() == "" || !slices.Contains(schemes, u.Scheme):
		return "it must be an absolute URL, with " + strings.Join(schemes, " or ")
	case u.User != nil:
		return "it must have no user name and no password"
	}
	return ""
}

// notInURL reports characters that RFC 3986 section 2 does not have and that end an
// attribute or a line somewhere. Other letters than those of ASCII are allowed.
func notInURL(c rune) bool {
	return unicode.IsSpace(c) || invisible(c) || strings.ContainsRune("\"<>\\^`", c)
}

// variable is a variable in a URL.
var variable = regexp.MustCompile(`\{[^{}]*\}`)

// wrongTemplate is wrongLink for a URL that may have variables. One that begins with a
// variable says nothing about where it leads; the schema says whether it may.
func wrongTemplate(raw string) string {
	filled := variable.ReplaceAllString(raw, "1") // it can be a host, a port and a path
	if strings.HasPrefix(raw, "{") {
		filled = "https://example.com/" + filled
	}
	return wrongLink(filled, "https", "http")
}

func wrongKey(key string) string {
	if _, err := message.ParseMetaKey(key); err != nil {
		return strings.TrimPrefix(err.Error(), "message: _meta: ")
	}
	return ""
}

// CheckMetaKey refuses a key of _meta under which a registry must not speak about the items of
// others: it needs a reversed domain name, so that it reflects the registry, and must not be
// reserved for the protocol.
func CheckMetaKey(s string) error {
	key, err := message.ParseMetaKey(s)
	switch {
	case err != nil:
		return err
	case !strings.Contains(key.Prefix, ".") || key.Name == "":
		return fmt.Errorf("the MetaKey %q is not a reversed domain name, a slash and a name", s)
	case key.Reserved():
		return fmt.Errorf("the MetaKey %q is reserved for the protocol", s)
	}
	return nil
}
