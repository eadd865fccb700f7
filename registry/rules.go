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
	// MetaPublisher is the key in _meta of a record for the data of its publisher.
	MetaPublisher = "io.modelcontextprotocol.registry/publisher-provided"
	// MetaOfficial is the key in _meta of an item for the statement of a registry, an
	// [Official].
	MetaOfficial = "io.modelcontextprotocol.registry/official"
)

// faults returns the faults of a record that its schema does not find.
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
		add("_meta", MetaOfficial+": only a registry may set it, it is not part of a record")
	}
	if k.Status != nil {
		add("status", "only a registry may set it, it is not part of a record")
	}
	return faults
}

// current reports whether the record is validated against the whole current schema.
func (k known) current() bool { return k.Schema == "" || k.Schema == CurrentSchema }

func (p Package) faults(at string, add func(place, reason string)) {
	add(at+".identifier", wrongIdentifier(p.Identifier))
	if p.Version != "" {
		add(at+".version", wrongVersion(p.Version))
	}
	add(at+".registryBaseUrl", wrongLink(p.RegistryBaseURL, "https", "http"))
	add(at+".transport.url", wrongTemplate(p.Transport.URL))
}

// grammar is the pattern of names, the same as in the schemas.
var grammar = regexp.MustCompile(`^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$`)

// MaxName is the length limit of a server name in bytes.
const MaxName = 200

const (
	minName    = 3
	maxVersion = 255 // characters
)

// MaxVersion is the length limit of a version in a catalogue, in bytes.
const MaxVersion = 512

// ValidName reports whether name is a valid server name: two path segments that need no
// escaping, each with a letter or a digit.
func ValidName(name string) bool {
	return len(name) >= minName && len(name) <= MaxName && grammar.MatchString(name) && wrongName(name) == ""
}

// wrongName returns the fault of a name that the schema allows, or "". Both parts become path
// segments, so they cannot consist of dots.
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

// Version ranges as package managers write them.
var (
	comparator = regexp.MustCompile(`^[~^<>=][~<>=]?\s*v?[0-9]`)
	either     = regexp.MustCompile(`\|\||[0-9]\s+-\s+v?[0-9]`)
	wildcard   = regexp.MustCompile(`^v?([0-9]+|[xX*])(\.([0-9]+|[xX*])){0,2}(-[0-9A-Za-z.-]+)?$`)
)

// Latest stands for the latest version in requests. No version has that name.
const Latest = "latest"

// ValidVersion reports whether version is a valid version of a server: a single version, not a
// range, without invisible characters.
func ValidVersion(version string) bool { return wrongVersion(version) == "" }

func wrongVersion(version string) string {
	switch {
	case version == "" || version == "." || version == "..":
		return "it must be a version"
	case version == Latest:
		return "latest is reserved for the latest version"
	case strings.TrimSpace(version) != version || strings.ContainsFunc(version, invisible):
		return "it must have no white space around it, no control characters in it and nothing invisible"
	case isRange(version):
		return "it must be one version, not a range"
	}
	return ""
}

// invisible reports whether c is invisible or looks like a space, so that two texts that
// differ only in such characters look the same. The plain space is not invisible.
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

// wrongIcon returns the fault of an icon, or "". The schema requires an https URL; the
// protocol would allow data: as well.
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

// wrongLink returns the fault of a URL that readers may follow, or "". An empty URL has none.
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

// notInURL reports whether RFC 3986 section 2 excludes c from URLs and c could end an
// attribute or a line in another program. Letters outside of ASCII are allowed.
func notInURL(c rune) bool {
	return unicode.IsSpace(c) || invisible(c) || strings.ContainsRune("\"<>\\^`", c)
}

// variable matches a variable in a URL.
var variable = regexp.MustCompile(`\{[^{}]*\}`)

// wrongTemplate is wrongLink for a URL that may have variables. If the URL begins with a
// variable, its host is unknown and not checked; the schema decides whether that is allowed.
func wrongTemplate(raw string) string {
	filled := variable.ReplaceAllString(raw, "1") // "1" is valid as a host, a port and a path
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

// CheckMetaKey returns an error unless s is a key of _meta that this registry may add to items:
// it must begin with a reversed domain name, so that it identifies the registry, and must not
// be reserved for the protocol.
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
