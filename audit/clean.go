package audit

import "strings"

const (
	// maxID bounds the ids in an event, maxName the names that clients choose, in bytes, and
	// maxList the resources and the scopes.
	maxID   = 2048
	maxName = 256
	maxList = 64
)

// Hidden takes the place of a text that has the form of a secret.
const Hidden = "[secret]"

// Clean returns the event with texts of bounded length, none of which has the form of a secret of
// this software or of a token: those are [Hidden]. It is for texts that clients choose; a password
// has no form by which it could be recognised, and no field takes one.
func (e Event) Clean() Event {
	clean(maxID, &e.Request)
	clean(maxID, &e.Person)
	clean(maxID, &e.Client)
	clean(maxID, &e.Grant)
	clean(maxID, &e.Token)
	clean(maxID, &e.Key)
	clean(maxID, &e.Provider)
	clean(maxID, &e.Issuer)
	clean(maxName, &e.How)
	clean(maxName, &e.Code)
	clean(maxID, &e.Target)
	clean(maxName, &e.Operator)
	clean(maxName, &e.Method)
	clean(maxName, &e.Name)
	clean(maxName, &e.Route)
	e.Resources, e.Scopes = cleanList(e.Resources), cleanList(e.Scopes)
	return e
}

func cleanList[T ~string](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	out := append([]T(nil), list[:min(len(list), maxList)]...)
	for i := range out {
		clean(maxName*2, &out[i])
	}
	return out
}

func clean[T ~string](limit int, text *T) {
	s := string(*text)
	if secret(s) {
		*text = Hidden
		return
	}
	if len(s) > limit {
		s = s[:limit]
	}
	*text = T(strings.ToValidUTF8(s, ""))
}

// secret reports whether a text contains a secret of this software or a JWT.
func secret(s string) bool { return after(s, "gate_", ownSecret) || after(s, "eyJ", restOfJWT) }

// after reports whether a text goes on, after a mark in it, in a way that is wanted.
func after(s, mark string, wanted func(string) bool) bool {
	for {
		_, rest, found := strings.Cut(s, mark)
		if !found {
			return false
		}
		if wanted(rest) {
			return true
		}
		s = rest
	}
}

// ownSecret reports whether a text goes on like a secret of this software: two to four characters,
// "_" and at least 20 more.
func ownSecret(s string) bool {
	kind, value, ok := strings.Cut(s, "_")
	return ok && len(kind) >= 2 && len(kind) <= 4 && base64Run(value) >= 20
}

// restOfJWT reports whether a text goes on like the header of a JWT, and with its claims.
func restOfJWT(s string) bool {
	n := base64Run(s)
	return n >= 8 && n < len(s) && s[n] == '.' && base64Run(s[n+1:]) >= 8
}

// base64Run returns how many characters of base64url a text begins with.
func base64Run(s string) int {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return i
		}
	}
	return len(s)
}
