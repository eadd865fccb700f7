package middleware

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"gatehouse.example/internal/strictjson"
)

const (
	// defaultMaxToken and maxMaxToken are the default and the maximum of [Config.MaxToken].
	defaultMaxToken = 8 << 10
	maxMaxToken     = maxDocument
)

var (
	// ErrNoToken means that there is no verified token in a context.
	ErrNoToken = errors.New("middleware: there is no verified access token")
	// ErrNoClaims means that the claims of a token are not kept: it was made by hand, its
	// [Verifier] gave none, its provider has an interface of its own for lookups, or its
	// introspection response is larger than [Config.MaxToken] or repeats the token.
	ErrNoClaims = errors.New("middleware: the claims of the access token are not known")
)

// payload is the JSON object with the claims of a token. The two pointers on the way from a [Token]
// keep fmt from printing it, whatever the verb.
type payload struct{ object *string }

// Claims decodes all claims of the token into v, a pointer to a struct or to a map with string
// keys: the payload of a JWT, or the introspection response for an opaque token. Member names match
// exactly, and numbers in interfaces are [encoding/json.Number]. What v points to is replaced, and
// unchanged if there is an error.
//
// Each call decodes anew, so that the result belongs to the caller. It is for claims of the
// provider's own: where Token has a field, use that. A claim "scope", for example, may hold scopes
// that the issuer withdrew since, or that Scopes has under other names.
//
// The error is [ErrNoClaims], or says which claim has another type than v wants.
func (t *Token) Claims(v any) error {
	if t == nil || t.own == nil {
		return ErrNoClaims
	}
	to := reflect.ValueOf(v)
	if to.Kind() != reflect.Pointer || to.IsNil() || !holdsClaims(to.Type().Elem()) {
		return fmt.Errorf("middleware: claims are decoded into a pointer to a struct or to a map with string keys, not into %T", v)
	}
	fresh := reflect.New(to.Type().Elem())
	if err := strictjson.Unmarshal([]byte(*t.own.object), fresh.Interface(), strictjson.Options{MaxBytes: maxDocument}); err != nil {
		return fmt.Errorf("middleware: claims of the access token: %w", err)
	}
	to.Elem().Set(fresh.Elem())
	return nil
}

func holdsClaims(t reflect.Type) bool {
	return t.Kind() == reflect.Struct || t.Kind() == reflect.Map && t.Key().Kind() == reflect.String
}

// ClaimsFrom returns the claims of the token of a request that passed [Guard.Protect], as
// [Token.Claims] decodes them. The error is [ErrNoToken] if there is no token.
func ClaimsFrom[T any](ctx context.Context) (T, error) {
	var claims T
	token, ok := TokenFrom(ctx)
	if !ok {
		return claims, ErrNoToken
	}
	err := token.Claims(&claims)
	return claims, err
}

// keep makes the claims of a token known to [Token.Claims], unless they are larger than a token may
// be: the cache keeps them for as long as the token.
func (c *jwtClaims) keep(object string, largest int) {
	if len(object) <= largest {
		c.object = object
	}
}

// own returns the claims for a token, nil if they are not known.
func (c *jwtClaims) own() *payload {
	if c.object == "" {
		return nil
	}
	object := c.object
	return &payload{&object}
}
