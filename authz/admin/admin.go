// Package admin manages the people, grants, signing keys and clients of an authorization
// server. It implements the operator commands, and other operator interfaces can use it too.
//
// All functions work on the store of the server, opened with the same issuer and master keys,
// while any number of servers use it. Servers see a change of a person or a grant at once, of
// a client within 5 seconds, and of a key when they next read the keys.
//
// The views of records, [User], [Grant], [Client] and [Key], contain no hashes, seeds or
// private keys, and can be written as JSON.
//
// The functions refuse names that could be mistaken for one another, an empty password, and
// clients that break the rules of package dcr. They do not check permissions: access to the
// store and its keys makes the caller the operator.
//
//	for grant, err := range admin.Grants(ctx, store, admin.GrantFilter{User: "ada"}) {
//		if err != nil {
//			return err
//		}
//		_, _, err = admin.RevokeGrant(ctx, store, grant.ID)
//	}
package admin
