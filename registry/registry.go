// Package registry has the records of servers of the protocol and the rules for them.
//
// A [Record] is one server.json, one version of one server, in the bytes in which it came.
// An [Item] is a record together with what a registry says about it: its status, the only
// part that changes, and when that happened. What this registry offers itself is an
// [OwnServer]. The rooms of a registry are packages of their own: upstream reads the list of
// another registry, mirror brings it into a catalogue (storage/catalogue), and serve answers
// readers from there.
//
// Records come from strangers, and are shown and handed on to others. A record is refused
// with an [*InvalidError] that names every place where it is wrong:
//
//   - JSON that two readers could understand differently: duplicate members, a member that
//     differs from a known one only in case, more than [MaxRecord] bytes or [MaxDepth] levels;
//   - what the schema of server.json of 2025-12-11 does not allow, for records that name that
//     schema or none; of every other date, what server.json of all dates has in common;
//   - a $schema without a date, as the contract of the registry wants one;
//   - versions that are ranges, or named latest; names and versions that are no path segment;
//   - links that are neither https nor http, or carry a password; icons that are not https;
//   - keys of _meta that the protocol does not allow, and in a record of its own the key
//     under which registries speak.
//
// Members that nobody knows stay, byte for byte.
package registry
