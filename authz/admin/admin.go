// Package admin is what an operator can do to the people, grants, signing keys and clients
// of an authorization server: the functions behind the verbs of the command, for any other
// interface too.
//
// All of it works on the store of the server, which is opened with the same issuer and master
// keys, while any number of servers run over it. They see a change of a person or a grant at
// once, of a client within 5 seconds, of a key with their next reading.
//
// What is shown of a record, [User], [Grant], [Client] and [Key], has no hash, no seed and no
// private part in it, and can be written as JSON.
//
// What is refused: names that could be mistaken for one another, a password that is empty,
// clients that break the rules of package dcr. Nothing is authorised here: whoever has the
// store and its keys is the operator.
//
//	for grant, err := range admin.Grants(ctx, store, admin.GrantFilter{User: "ada"}) {
//		if err != nil {
//			return err
//		}
//		_, _, err = admin.RevokeGrant(ctx, store, grant.ID)
//	}
package admin
