package dcr

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// localizable are the members for people, which may be given in several languages, such as
// client_name#de (RFC 7591 section 2.2).
var localizable = []string{"client_name", "client_uri", "logo_uri", "tos_uri", "policy_uri"}

const (
	maxLocalized   = 40
	maxLanguageTag = 35 // bytes, as RFC 5646 section 4.4.1 suggests
)

// languageTag is the syntax of a language tag (RFC 5646 section 2.1), without the few
// irregular tags that were registered before that syntax existed.
var languageTag = regexp.MustCompile(`(?i)^(?:` +
	`(?:[a-z]{2,3}(?:-[a-z]{3}){0,3}|[a-z]{4}|[a-z]{5,8})` + // language
	`(?:-[a-z]{4})?` + // script
	`(?:-(?:[a-z]{2}|[0-9]{3}))?` + // region
	`(?:-(?:[a-z0-9]{5,8}|[0-9][a-z0-9]{3}))*` + // variants
	`(?:-[a-wyz0-9](?:-[a-z0-9]{2,8})+)*` + // extensions
	`(?:-x(?:-[a-z0-9]{1,8})+)?` + // private use
	`|x(?:-[a-z0-9]{1,8})+)$`)

// localized returns the members of a request with a language tag. Most requests have none: the number
// sign in a name is itself or escaped.
func (asked request) localized() (map[string]string, error) {
	if !bytes.ContainsAny(asked.body, `#\`) {
		return nil, nil
	}
	return localized(asked.members())
}

// localized returns the members with a language tag, under the rules of the members without
// one.
func localized(members map[string]json.RawMessage) (map[string]string, error) {
	var kept map[string]string
	spelled := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		member, tag, tagged := strings.Cut(name, "#")
		if !tagged || !slices.Contains(localizable, member) || absent(members[name]) {
			continue
		}
		if len(tag) > maxLanguageTag || !languageTag.MatchString(tag) {
			return nil, invalidMetadata(name, "what follows the number sign is not a language tag (BCP 47)")
		}
		// RFC 5646 section 2.1.1: tags are case insensitive.
		folded := strings.ToLower(name)
		if spelled[folded] != "" {
			return nil, invalidMetadata(name, "%s is the same language", spelled[folded])
		}
		spelled[folded] = name
		value, err := localizedValue(name, member, members[name])
		if err != nil {
			return nil, err
		}
		if value == "" {
			continue
		}
		if len(kept) == maxLocalized {
			return nil, invalidMetadata(name, "there are more than %d members with a language tag", maxLocalized)
		}
		if kept == nil {
			kept = map[string]string{}
		}
		kept[name] = value
	}
	return kept, nil
}

func localizedValue(name, member string, raw json.RawMessage) (string, error) {
	var value string
	if json.Unmarshal(raw, &value) != nil {
		return "", invalidMetadata(name, "wrong type: it must be a string")
	}
	if member == "client_name" {
		return clientName(name, value)
	}
	if why := refusesLink(value, true); why != "" {
		return "", invalidMetadata(name, "%s", why)
	}
	return value, nil
}
