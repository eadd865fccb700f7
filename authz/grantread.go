package authz

import (
	"context"
	"errors"

	"gatehouse.example/authz/internal/people"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// grantReads reads the grant of a request for tokens: together with its client, if that has to be read
// too, which saves a round trip. What becomes of the client is decided before anybody looks at the grant.
type grantReads struct {
	of   *people.Directory
	form form

	id   string // of the grant that was read
	read func(context.Context, func(storage.Grant) bool) (storage.Grant, people.Holder, error)
}

// ask asks for the grant that the code or the refresh token names.
func (g *grantReads) ask(read *storage.Reading) {
	id, named := storage.CodeGrant(g.form.get("code"))
	if g.form.get("grant_type") == metadata.GrantRefreshToken {
		token, ok := storage.ParseRefreshToken(g.form.get("refresh_token"))
		id, named = token.GrantID, ok
	}
	if named {
		g.id, g.read = id, g.of.GrantWith(read, id)
	}
}

// grant returns the grant of a code or refresh token and, if that matters, whose it is now.
func (g *grantReads) grant(ctx context.Context, set *resourceSet, id string) (grant storage.Grant, holder people.Holder, err error) {
	if g.read != nil && g.id == id {
		grant, holder, err = g.read(ctx, set.isPersonal)
	} else {
		grant, holder, err = g.of.Grant(ctx, id, set.isPersonal)
	}
	if errors.Is(err, storage.ErrNotFound) {
		return storage.Grant{}, people.Holder{}, invalidGrant()
	}
	return grant, holder, err
}
