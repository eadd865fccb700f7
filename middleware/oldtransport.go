package middleware

import (
	"net/http"
	"strings"

	"gatehouse.example/internal/headername"
	"gatehouse.example/message"
)

// queryHandles are the query parameters by which servers find a session or a stream, in
// lowercase and without separators. In the transport of revision 2024-11-05, the id alone gives
// access to the session.
var queryHandles = map[string]bool{"sessionid": true, "mcpsessionid": true, "lasteventid": true}

// refuseQuery refuses handles in a query, because they are not bound to a caller, and a method in it,
// because that of the request line was judged. The refusal of a message with an id has an error response.
func (g *Guard) refuseQuery(w http.ResponseWriter, r *http.Request, got received) error {
	refused := challenge{status: http.StatusBadRequest}
	switch {
	case queriesMethod(r.URL.RawQuery):
		refused.description = "Name the method in the request line and nowhere else."
	case g.sessions != nil && hasHandle(r.URL.RawQuery):
		refused.description = "Sessions and streams that the query names are not supported here, because they cannot be bound to a person. Use Streamable HTTP."
	default:
		return nil
	}
	if !g.policy.reads {
		got, _ = g.receive(w, r) // only for the id
	}
	if !got.id.IsZero() {
		refused.body, _ = message.Encode(message.ErrorResponse{ID: got.id, Error: message.Error{Code: message.CodeInvalidRequest, Message: refused.description}}) // cannot fail for a decoded id
	}
	return refused
}

func hasHandle(query string) bool {
	for part := range strings.FieldsFuncSeq(query, func(c rune) bool { return c == '&' || c == ';' }) {
		name, _, _ := strings.Cut(part, "=")
		if queryHandles[strings.ReplaceAll(headername.Fold(unescape(name)), "-", "")] {
			return true
		}
	}
	return false
}
