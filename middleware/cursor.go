package middleware

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"gatehouse.example/message"
)

// cursorOf is the purpose for which cursors of a list are sealed, before its method.
const cursorOf = "cursor of "

var (
	errCursor     = errors.New("cursor: it was not given to you for this list: read the list from its beginning")
	errCursorText = errors.New("cursor: it must be a string")
)

// sealCursor seals the cursor in a result that goes on with a filtered list: cursors of many
// servers say what comes next, also when the policy hides it. It reports whether there was
// one. An empty cursor says nothing.
func (l lister) sealCursor(method string, result message.Object, members map[string]json.RawMessage) (bool, error) {
	if method == "" {
		return false, nil
	}
	cursor, err := cursorIn(result, "nextCursor")
	if err != nil || cursor == "" {
		return false, err
	}
	members["nextCursor"], err = json.Marshal(l.guard.handles.seal(cursorOf+method, l.token, cursor))
	return true, err
}

// cursorIn returns the cursor in parameters or a result, the empty string if there is none.
func cursorIn(o message.Object, member string) (string, error) {
	raw, err := o.Member(member)
	if err != nil || raw == nil {
		return "", err
	}
	var cursor *string
	switch err := json.Unmarshal(raw, &cursor); {
	case err != nil:
		return "", errCursorText
	case cursor == nil:
		return "", nil // null is what some clients write for none
	}
	return *cursor, nil
}

// digests are headers that are about the bytes of a body (RFC 9530, RFC 3230, RFC 1864).
var digests = [...]string{"Content-Digest", "Repr-Digest", "Digest", "Content-Md5"}

// openCursor gives the handler the cursor that it gave out, in the message of a request for a
// filtered list. Nothing else in the message changes, but what it says of its own bytes is gone.
func (g *Guard) openCursor(r *http.Request, got *received, token *Token) error {
	if got.list == nil {
		return nil
	}
	sealed, err := cursorIn(got.list.Params, "cursor")
	if err != nil {
		return fault(got.id, message.CodeInvalidParams, err)
	}
	if sealed == "" {
		return nil
	}
	cursor, err := g.handles.unseal(cursorOf+got.Method, token, sealed)
	if err != nil {
		return fault(got.id, message.CodeInvalidParams, errCursor)
	}
	body, err := withCursor(*got.list, cursor)
	if err != nil {
		return err
	}
	got.cursor = cursor
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	if r.Header["Content-Length"] != nil {
		r.Header["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	for _, name := range digests {
		delete(r.Header, name)
	}
	return nil
}

// repeats reports whether a text holds the cursor of its request, as some servers quote what
// they refuse.
func (r *received) repeats(text string) bool {
	return r.cursor != "" && strings.Contains(text, r.cursor)
}

// withoutCursor is the answer of a server that failed, without a cursor that it quotes.
func (r *received) withoutCursor(failed message.ErrorResponse) (out message.ErrorResponse, changed bool) {
	if r.repeats(failed.Error.Message) || r.repeats(unescapedJSON(failed.Error.Data)) {
		failed.Error.Message, failed.Error.Data = "The server refused to go on with the list.", nil
		return failed, true
	}
	return failed, false
}

// unescapedJSON is a value in JSON in which letters stand for themselves.
func unescapedJSON(value json.RawMessage) string {
	var any any
	if len(value) == 0 || json.Unmarshal(value, &any) != nil {
		return string(value)
	}
	return fmt.Sprint(any)
}

// withCursor is a request with another cursor.
func withCursor(request message.Request, cursor string) ([]byte, error) {
	members := map[string]json.RawMessage{}
	if err := request.Params.Decode(&members); err != nil {
		return nil, err
	}
	var err error
	if members["cursor"], err = json.Marshal(cursor); err != nil {
		return nil, err
	}
	if request.Params, err = message.NewObject(members); err != nil {
		return nil, err
	}
	return message.Encode(request)
}
