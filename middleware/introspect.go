package middleware

import "time"

// Introspection is how tokens of one issuer are looked up there (RFC 7662). What cannot be
// looked up is not let through: the answer is 503, and never 401.
type Introspection struct {
	// Endpoint is https, or http on loopback. The default is what the metadata of the
	// issuer says.
	Endpoint string
	// ClientID and ClientSecret authenticate this resource server there, with HTTP Basic.
	ClientID, ClientSecret string
	// Opaque says that tokens need not be JWTs, and that the answer alone decides. At most
	// one issuer may have it. Otherwise a token is a JWT that is right in itself, and is
	// looked up only to learn whether it was revoked.
	Opaque bool
	// Fresh is how long an answer is believed. The default is 10 s.
	Fresh time.Duration
}
