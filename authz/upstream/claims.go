package upstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"gatehouse.example/internal/strictjson"
)

const (
	maxGroups = 1000
	maxName   = 256 // bytes of a group's name
)

// claims are the members of an ID token, a logout token or an answer of userinfo.
type claims map[string]json.RawMessage

// readClaims reads an object under strict rules: no name twice, bounded depth.
func readClaims(data []byte) (claims, error) {
	var c claims
	if err := strictjson.Unmarshal(data, &c, strictjson.Options{MaxBytes: maxBody}); err != nil {
		return nil, err
	}
	if c == nil {
		return nil, errors.New("not a JSON object")
	}
	return c, nil
}

// has reports a claim that is there and not null.
func (c claims) has(name string) bool {
	raw, ok := c[name]
	return ok && string(raw) != "null"
}

// text returns a claim that is a string, and "" for one that is missing or of another type.
func (c claims) text(name string) string {
	var s string
	_ = json.Unmarshal(c[name], &s) // of anything else s stays empty
	return s
}

// yes reports that a claim is the boolean true. The string "true" is something else: none of the
// presets sends it, and a provider that sends text may send any text.
func (c claims) yes(name string) bool { return string(c[name]) == "true" }

// moment returns a claim that is a NumericDate (RFC 7519 section 2), zero if it is missing.
func (c claims) moment(name string) (time.Time, error) {
	if !c.has(name) {
		return time.Time{}, nil
	}
	var seconds float64
	if json.Unmarshal(c[name], &seconds) != nil || seconds <= 0 || seconds >= 1<<40 {
		return time.Time{}, fmt.Errorf("%s is no time", name)
	}
	return time.Unix(int64(seconds), 0), nil
}

// list returns a claim that is a list of strings, or one string, which is a list of one.
func (c claims) list(name string) ([]string, error) {
	if !c.has(name) {
		return nil, nil
	}
	var one string
	if json.Unmarshal(c[name], &one) == nil {
		return []string{one}, nil
	}
	var many []*string
	if json.Unmarshal(c[name], &many) != nil {
		return nil, fmt.Errorf("%s is no list of strings", name)
	}
	list := make([]string, 0, len(many))
	for _, s := range many {
		if s == nil {
			return nil, fmt.Errorf("%s has a null", name)
		}
		list = append(list, *s)
	}
	return list, nil
}

// hides reports that the provider put a claim that is missing elsewhere (OpenID Connect Core section 5.6.2), as
// Entra does with more than 200 groups.
func (c claims) hides(name string) bool {
	var names map[string]json.RawMessage
	_ = json.Unmarshal(c["_claim_names"], &names) // of anything else there are none
	_, elsewhere := names[name]
	return elsewhere || c.has("hasgroups")
}

// subject returns sub: 1 to 255 bytes without control characters.
func (c claims) subject() (string, error) {
	sub := c.text("sub")
	if sub == "" || !plain(sub, 255) {
		return "", errors.New("sub is missing or not 1 to 255 bytes of text")
	}
	return sub, nil
}

// groupName reports a name that can stand behind "ID/" without being mistaken for another one.
func groupName(s string) bool {
	return s != "" && plain(s, maxName) && strings.TrimSpace(s) == s
}
