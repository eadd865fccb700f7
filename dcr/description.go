package dcr

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"gatehouse.example/metadata"
)

const (
	maxName     = 200 // runes of client_name
	maxText     = 255 // bytes of any other text
	maxContacts = 10
	maxLink     = 2048 // bytes of a URI
)

// texts registers the values that are shown to people and in logs: of limited length, and
// without characters that could hide or reorder the text around them.
func texts(asked metadata.Client, m *metadata.Client) error {
	var err error
	if m.ClientName, err = clientName("client_name", asked.ClientName); err != nil {
		return err
	}
	if m.SoftwareID, err = text("software_id", asked.SoftwareID); err != nil {
		return err
	}
	if m.SoftwareVersion, err = text("software_version", asked.SoftwareVersion); err != nil {
		return err
	}
	if len(asked.Contacts) > maxContacts {
		return invalidMetadata("contacts", "there are more than %d", maxContacts)
	}
	for i, contact := range asked.Contacts {
		kept, err := text(fmt.Sprintf("contacts[%d]", i), contact)
		if err != nil {
			return err
		}
		if kept != "" {
			m.Contacts = append(m.Contacts, kept)
		}
	}
	return nil
}

func clientName(member, raw string) (string, error) {
	kept := visible(raw)
	if utf8.RuneCountInString(kept) > maxName {
		return "", invalidMetadata(member, "it has more than %d characters", maxName)
	}
	return kept, nil
}

func text(member, raw string) (string, error) {
	kept := visible(raw)
	if len(kept) > maxText {
		return "", invalidMetadata(member, "it has more than %d bytes", maxText)
	}
	return kept, nil
}

// visible removes control and format characters, including those that change the direction
// of text, and replaces each run of white space by one space. The two joiners stay, because
// several scripts and many emoji need them.
func visible(s string) string {
	if plainWords(s) {
		return s
	}
	s = strings.Map(func(c rune) rune {
		switch {
		case unicode.IsSpace(c):
			return ' '
		case c == '\u200c' || c == '\u200d':
			return c
		case unicode.In(c, unicode.Cc, unicode.Cf):
			return -1
		}
		return c
	}, s)
	return strings.Join(strings.Fields(s), " ")
}

// plainWords reports whether s is printable ASCII with single spaces inside, which is most of what
// clients state.
func plainWords(s string) bool {
	space := true // the character before, or the end
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' || space && c == ' ' {
			return false
		}
		space = c == ' '
	}
	return !space || s == ""
}

// links registers the URIs of pages and pictures, without fetching them.
func links(asked metadata.Client, m *metadata.Client) error {
	for _, link := range []struct {
		member, raw string
		kept        *string
	}{
		{"client_uri", asked.ClientURI, &m.ClientURI},
		{"logo_uri", asked.LogoURI, &m.LogoURI},
		{"tos_uri", asked.TOSURI, &m.TOSURI},
		{"policy_uri", asked.PolicyURI, &m.PolicyURI},
	} {
		if why := refusesLink(link.raw, true); why != "" {
			return invalidMetadata(link.member, "%s", why)
		}
		*link.kept = link.raw
	}
	return nil
}

// refusesLink returns why a URI cannot be registered, or "" if it can. The empty string
// means that the member was left out. loopback also allows http on a loopback host.
func refusesLink(raw string, loopback bool) string {
	if raw == "" {
		return ""
	}
	if len(raw) > maxLink {
		return fmt.Sprintf("it has more than %d bytes", maxLink)
	}
	u, err := url.Parse(raw)
	if err := metadata.CheckHost(raw); err != nil {
		return strings.TrimPrefix(err.Error(), "metadata: host: ")
	}
	switch {
	case err != nil || u.Scheme == "":
		return "it is not an absolute URL"
	case !securelyFetched(u, loopback):
		return "it must be https"
	case u.Hostname() == "":
		return "it has no host"
	case strings.ContainsFunc(raw, mustBeEscaped):
		return "it holds a character that must be percent-encoded"
	case u.User != nil || strings.Contains(u.Host, "@"):
		return "it must not carry user information"
	}
	return ""
}

// mustBeEscaped reports whether c may stand in a URI in its percent-encoded form only (RFC
// 3986 section 2).
func mustBeEscaped(c rune) bool {
	return c <= ' ' || c > '~' || strings.ContainsRune("\"\\<>^`{|}", c)
}

// securelyFetched reports whether u is https, or http on a loopback host if loopback allows
// it.
func securelyFetched(u *url.URL, loopback bool) bool {
	return u.Scheme == "https" || loopback && u.Scheme == "http" && metadata.IsLoopbackHost(u.Hostname())
}
