// Package message is the values that client and server of the context protocol exchange.
//
// So far it has the [Icon], by which an implementation, a tool, a prompt, a resource or a
// resource template shows what it looks like. What an icon says about itself is untrusted:
// package message/icon fetches one and looks at what it is.
package message
