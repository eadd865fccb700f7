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

// cursorOf and the method of a list form the purpose for which its cursors are sealed.
const cursorOf = "cursor of "

var (
	errCursor     = errors.New("cursor: it was not issued to you for this list: read the list from its beginning")
	errCursorText = errors.New("cursor: it must be a string")
)

// sealCursor seals the cursor in the result of a filtered list, because cursors of many servers
// contain the name of the next item, which the policy may hide. It reports whether there was a
// cursor that is not empty.
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

// cursorIn returns the cursor in a member of parameters or of a result, or the empty string if
// there is none.
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
		return "", nil // some clients send null for no cursor
	}
	return *cursor, nil
}

// digests are headers with a digest of the body (RFC 9530, RFC 3230, RFC 1864).
var digests = [...]string{"Content-Digest", "Repr-Digest", "Digest", "Content-Md5"}

// openCursor replaces the sealed cursor in the request for a filtered list by the cursor that
// the handler issued. Nothing else in the message changes; headers with a digest of the body
// are removed.
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

// repeats reports whether a text contains the cursor of its request: some servers quote a
// cursor that they refuse.
func (r *received) repeats(text string) bool {
	return r.cursor != "" && strings.Contains(text, r.cursor)
}

// withoutCursor returns an error response without a cursor that it quotes.
func (r *received) withoutCursor(failed message.ErrorResponse) (out message.ErrorResponse, changed bool) {
	if r.repeats(failed.Error.Message) || r.repeats(unescapedJSON(failed.Error.Data)) {
		failed.Error.Message, failed.Error.Data = "The server refused to go on with the list.", nil
		return failed, true
	}
	return failed, false
}

// unescapedJSON returns a JSON value as text without JSON escapes.
func unescapedJSON(value json.RawMessage) string {
	var any any
	if len(value) == 0 || json.Unmarshal(value, &any) != nil {
		return string(value)
	}
	return fmt.Sprint(any)
}

// withCursor returns an encoded request with another cursor.
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
