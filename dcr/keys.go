package dcr

import (
	"encoding/json"
	"fmt"
	"slices"

	"gatehouse.example/internal/strictjson"
	"gatehouse.example/metadata"
)

// privateMembers of a JSON Web Key hold secrets: RFC 7518 sections 6.2.2, 6.3.2 and
// 6.4.1, RFC 8037 section 2, and the key type AKP.
var privateMembers = []string{"d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv"}

// keys checks the public keys of a client. They are not registered, because no
// authentication method here uses them; a mistake is reported all the same, above all a
// private key that must be replaced now that it was sent to somebody.
func keys(asked metadata.Client, _ *metadata.Client) error {
	switch {
	case !absent(asked.JWKS) && asked.JWKSURI != "":
		// RFC 7591 section 2: jwks_uri and jwks MUST NOT both be present.
		return invalidMetadata("jwks", "use either jwks or jwks_uri")
	case !absent(asked.JWKS):
		return publicKeys(asked.JWKS)
	}
	if why := refusesLink(asked.JWKSURI, false); why != "" {
		return invalidMetadata("jwks_uri", "%s", why)
	}
	return nil
}

func publicKeys(raw json.RawMessage) error {
	var set struct {
		Keys []map[string]json.RawMessage `json:"keys"`
	}
	if err := strictjson.Unmarshal(raw, &set, strictjson.Options{MaxBytes: maxBody}); err != nil || len(set.Keys) == 0 {
		return invalidMetadata("jwks", "it must be an object with an array of keys (RFC 7517 section 5)")
	}
	for i, key := range set.Keys {
		member := fmt.Sprintf("jwks.keys[%d]", i)
		var kty string
		if json.Unmarshal(key["kty"], &kty) != nil || kty == "" {
			return invalidMetadata(member, "it has no kty")
		}
		secret := slices.ContainsFunc(privateMembers, func(name string) bool { return key[name] != nil })
		if kty == "oct" || secret {
			return invalidMetadata(member, "it is a private or symmetric key; send public keys only and stop using this one")
		}
	}
	return nil
}
