// Package registry defines the records of a server registry of the context protocol, and
// validates them.
//
// A [Record] is one server.json: one version of one server, in its original bytes. An [Item]
// is a record with a registry's statement about it: its status, which is the only part that
// changes, and the times of changes. An [OwnServer] describes a server that the operator adds
// to this registry. The other packages of the registry are upstream, which reads the list of
// another registry; mirror, which copies that list into a catalogue (storage/catalogue); and
// serve, which answers readers from the catalogue.
//
// Records come from unauthenticated publishers, and this registry displays them and passes
// them on. [ParseRecord] refuses a record with an [*InvalidError] that lists every fault:
//
//   - ambiguous JSON: duplicate members, a member that differs from a known one only in
//     case; more than [MaxRecord] bytes or [MaxDepth] levels;
//   - a violation of the schema of server.json of 2025-12-11, for records that name that
//     schema or none; for records of every other date, of the rules that all dates share;
//   - a $schema without a date;
//   - a version that is a range or is named latest; a name or version that is not a path
//     segment;
//   - a link that is neither https nor http, or that contains a password; an icon that is not
//     https;
//   - a key of _meta that the protocol does not allow, and the key [MetaOfficial], which
//     belongs to registries.
//
// Unknown members are kept byte for byte.
package registry
