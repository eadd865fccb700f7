package middleware

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"unicode"
	"unicode/utf8"

	"gatehouse.example/internal/strictjson"
)

// maxList is the maximum size of a response that may contain a list, and of one event of a
// stream that may, in bytes.
const maxList = 16 << 20

var (
	errListTooLarge = fmt.Errorf("middleware: the answer has more than %d bytes", maxList)
	errLateList     = errors.New("middleware: the answer to another request has a list, after more than could be kept")
)

// wholeAnswer is a response that may contain a list. It is sent when it is complete, or from the moment
// at which it is too long for one in which no list is expected.
type wholeAnswer struct {
	*response
	status int
	media  string
	kept   bytes.Buffer
	over   bool // whether the rest of the response is withheld
	passed bool // whether its beginning was sent
	watch  listWatch
}

// Write buffers the response.
func (a *wholeAnswer) Write(p []byte) (int, error) {
	watched := a.watches && !a.watch.scan(a.guard, p)
	switch {
	case a.over:
	case watched && (a.passed || a.kept.Len()+len(p) > maxLine):
		return a.pass(p)
	case a.passed:
		a.over = true
		a.warn(errLateList)
		a.stop()
	case a.kept.Len()+len(p) > maxList:
		a.over = true
		a.withhold(a.status, errListTooLarge)
	}
	if a.over {
		return len(p), nil
	}
	return a.kept.Write(p)
}

// pass sends a part of a response, and what was kept of it.
func (a *wholeAnswer) pass(p []byte) (int, error) {
	a.sendKept()
	a.passed = true
	return a.response.ResponseWriter.Write(p)
}

// sendKept sends what was kept of a response as it is.
func (a *wholeAnswer) sendKept() {
	if !a.passed {
		a.response.ResponseWriter.WriteHeader(a.status)
		_, _ = a.response.ResponseWriter.Write(a.kept.Bytes()) // fails only when the client is gone
		a.kept.Reset()
	}
}

// flush flushes a response of which the beginning was sent. finish sends any other.
func (a *wholeAnswer) flush() error {
	if !a.passed {
		return nil
	}
	return http.NewResponseController(a.response.ResponseWriter).Flush()
}

// finish writes what was not written yet.
func (a *wholeAnswer) finish() {
	switch {
	case a.over || a.passed:
		return
	case a.watches && !a.watch.found:
		a.sendKept()
		return
	}
	a.sendFiltered()
}

// sendFiltered writes the response as the client may see it. It withholds one that it cannot read,
// because that could contain items that the policy hides.
func (a *wholeAnswer) sendFiltered() {
	body, why := a.kept.Bytes(), error(nil)
	switch {
	case isJSON(a.media):
		if body, why = (lister{a.guard, a.token, a.got}).message(body); why == nil {
			a.Header().Set("Content-Type", jsonType) // without parameters, which some readers interpret
		} else if body = a.kept.Bytes(); isFlat(body) && !a.got.repeats(string(body)) {
			why = nil
		}
	case !isPlain(body) || a.got.repeats(string(body)):
		why = fmt.Errorf("middleware: an answer of the type %.50q", a.media)
	}
	if why != nil {
		a.withhold(a.status, why)
		return
	}
	if !bytes.Equal(body, a.kept.Bytes()) {
		dropBodyHeaders(a.Header())
	}
	if len(body) > 0 {
		a.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	a.response.ResponseWriter.WriteHeader(a.status)
	_, _ = a.response.ResponseWriter.Write(body) // fails only when the client is gone
}

// isFlat reports whether a text is an object without arrays and objects in it, as errors of
// OAuth and of many servers are. Such a text contains no list.
func isFlat(text []byte) bool {
	var members map[string]json.RawMessage
	return strictjson.Unmarshal(text, &members, strictjson.Options{MaxBytes: maxPlain, MaxDepth: 1}) == nil
}

// maxPlain is the maximum size of a response that is not a message, in bytes.
const maxPlain = 4 << 10

// isPlain reports whether a text is plain or empty, as errors of many servers are: it contains
// no JSON object or array, however a client reads it.
func isPlain(text []byte) bool {
	return len(text) <= maxPlain && utf8.Valid(text) && !bytes.ContainsAny(text, "{[") &&
		!bytes.ContainsFunc(text, func(c rune) bool { return unicode.IsControl(c) && c != '\n' && c != '\r' && c != '\t' })
}

// These types implement rewrite.
var _, _, _ rewrite = withheld{}, (*wholeAnswer)(nil), (*eventStream)(nil)
