// Package message implements the messages of the context protocol.
//
// A [Message] is one of four kinds of JSON-RPC 2.0: a [Request], a [Notification], a
// [ResultResponse] or an [ErrorResponse]. [Decode] parses one from untrusted bytes, and
// [Encode] formats one. Decode refuses every ambiguous message:
//
//   - names in another case, duplicate members at any depth, unknown members, and messages
//     that are a mixture of two kinds;
//   - an [ID] that is null, has a fraction or an exponent. An integer keeps every digit, of
//     whatever size, and a string every character, so a response has exactly the id of its
//     request;
//   - parameters and results that are not objects;
//   - batches, several values, invalid UTF-8, and messages that are too large or nested too
//     deep.
//
// Only a Request can be answered: [Request.Respond] and [Request.Fail] return its response. The
// error of Decode is a [DecodeError], whose Response method returns the response to send, if the
// message may be answered at all.
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
// [SessionIDs] and [InFlight] enforce the rule that a requester does not use an id twice.
// [Meta] and [MetaKey] represent the property _meta of parameters and results.
//
// An [Icon] is a picture for an implementation, a tool, a prompt, a resource or a resource
// template. Its members are untrusted: package message/icon fetches the picture and checks its
// bytes.
package message

// Message is a [Request], a [Notification], a [ResultResponse] or an [ErrorResponse].
type Message interface {
	// wire checks the message and returns its wire form. Being unexported, it keeps other
	// types from being messages.
	wire() (wire, error)
}

// Request is a message that the receiver must answer. Up to revision 2025-11-25 of the
// protocol, client and server may send requests; from 2026-07-28 on only clients do.
type Request struct {
	ID     ID
	Method string
	// Params are the parameters; the zero Object if there are none.
	Params Object
}

// Respond returns the response to the request with a result.
func (r Request) Respond(result Object) ResultResponse {
	return ResultResponse{ID: r.ID, Result: result}
}

// Fail returns the response to the request with an error.
func (r Request) Fail(e Error) ErrorResponse {
	return ErrorResponse{ID: r.ID, Error: e}
}

// Notification is a message without an id, which the receiver must not answer, not even if it
// is malformed.
type Notification struct {
	Method string
	// Params are the parameters; the zero Object if there are none.
	Params Object
}

// ResultResponse is the successful response to the request with the same id.
type ResultResponse struct {
	ID     ID
	Result Object
}

// ErrorResponse is the response to the request with the same id if the request failed.
type ErrorResponse struct {
	ID ID
	// Unread is true if the id of the request could not be read because the request was
	// malformed. Then the response has no id; otherwise it must have one.
	Unread bool
	Error  Error
}
