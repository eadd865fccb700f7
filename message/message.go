// Package message is the values that client and server of the context protocol exchange.
//
// A [Message] is one of four kinds of JSON-RPC 2.0: a [Request], a [Notification], a
// [ResultResponse] or an [ErrorResponse]. [Decode] reads one from bytes that a stranger
// sent and [Encode] writes one; both know no others. What could be understood in two ways
// is refused rather than guessed:
//
//   - names in another case, duplicate members at any depth, members that no kind has, and
//     messages that are a mixture of two kinds;
//   - an [ID] that is null, has a fraction or an exponent. An integer keeps every digit, of
//     whatever size, and a string every character, so an answer carries the id as it came;
//   - parameters and results that are not objects;
//   - batches, several values, invalid UTF-8, and what is too large or nested too deep.
//
// Only a Request can be answered: [Request.Respond] and [Request.Fail] make what belongs to
// it, and a Notification has no such methods. What could not be decoded is a [DecodeError],
// which knows whether it may be answered, with which code and with which id.
//
//	m, err := message.Decode(data, message.Limits{})
//	if refused := (*message.DecodeError)(nil); errors.As(err, &refused) {
//		if answer, ok := refused.Response(); ok {
//			return message.Encode(answer)
//		}
//	}
//	switch m := m.(type) {
//	case message.Request:
//		return message.Encode(m.Fail(message.Error{Code: message.CodeMethodNotFound, Message: "not here"}))
//	case message.Notification:
//		// nothing to answer
//	}
//
// [SessionIDs] and [InFlight] keep the rule that a requester does not use an id twice.
// [Meta] and [MetaKey] are the property _meta, which parameters and results may have.
//
// An [Icon] shows what an implementation, a tool, a prompt, a resource or a resource
// template looks like. What an icon says about itself is untrusted: package message/icon
// fetches one and looks at what it is.
package message

// Message is a [Request], a [Notification], a [ResultResponse] or an [ErrorResponse].
type Message interface {
	// wire checks the message and returns what is written. It closes the set of messages.
	wire() (wire, error)
}

// Request asks the other side for something. Either side may send requests, up to revision
// 2025-11-25 of the protocol; from 2026-07-28 on only clients do.
type Request struct {
	ID     ID
	Method string
	// Params are the parameters; the zero Object if there are none.
	Params Object
}

// Respond returns the message that answers the request with a result.
func (r Request) Respond(result Object) ResultResponse {
	return ResultResponse{ID: r.ID, Result: result}
}

// Fail returns the message that answers the request with an error.
func (r Request) Fail(e Error) ErrorResponse {
	return ErrorResponse{ID: r.ID, Error: e}
}

// Notification tells the other side something. It has no id, and whoever receives one must
// not answer it, not even when it is wrong.
type Notification struct {
	Method string
	// Params are the parameters; the zero Object if there are none.
	Params Object
}

// ResultResponse answers the request with the same id.
type ResultResponse struct {
	ID     ID
	Result Object
}

// ErrorResponse says that the request with the same id failed.
type ErrorResponse struct {
	ID ID
	// Unread says that the request was malformed so that its id could not be read. The
	// response then has no id, and otherwise it must have one.
	Unread bool
	Error  Error
}
