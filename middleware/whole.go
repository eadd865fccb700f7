package middleware

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"unicode"
	"unicode/utf8"

	"gatehouse.example/internal/strictjson"
)

// maxList bounds what is read of an answer that may hold a list, and one event of a stream
// of them, in bytes.
const maxList = 16 << 20

var errListTooLarge = fmt.Errorf("middleware: the answer has more than %d bytes", maxList)

// wholeAnswer is an answer that may be a list, and goes on as a whole.
type wholeAnswer struct {
	*response
	status int
	media  string
	kept   bytes.Buffer
	over   bool // whether something else was answered
}

// Write keeps what the handler writes.
func (a *wholeAnswer) Write(p []byte) (int, error) {
	if !a.over && a.kept.Len()+len(p) > maxList {
		a.over = true
		a.withhold(a.status, errListTooLarge)
	}
	if a.over {
		return len(p), nil
	}
	return a.kept.Write(p)
}

func (a *wholeAnswer) flush() error { return nil } // it goes out at the end

// finish writes the answer as the client may see it. One that cannot be read is not shown: it
// could hold what the policy hides.
func (a *wholeAnswer) finish() {
	if a.over {
		return
	}
	body, why := a.kept.Bytes(), error(nil)
	switch {
	case isJSON(a.media):
		if body, why = (lister{a.guard, a.token, a.got}).message(body); why == nil {
			a.Header().Set("Content-Type", jsonType) // without what some readers see in its parameters
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
		a.undescribe()
	}
	if len(body) > 0 {
		a.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	a.response.ResponseWriter.WriteHeader(a.status)
	_, _ = a.response.ResponseWriter.Write(body) // fails only when the client is gone
}

// isFlat reports whether a text is an object without arrays and objects in it, as errors of
// OAuth and of many servers are: it holds no list.
func isFlat(text []byte) bool {
	var members map[string]json.RawMessage
	return strictjson.Unmarshal(text, &members, strictjson.Options{MaxBytes: maxPlain, MaxDepth: 1}) == nil
}

// maxPlain bounds a text that is no message, in bytes.
const maxPlain = 4 << 10

// isPlain reports whether a text is a sentence or none, as errors of many servers are: there
// is no JSON in it, whatever a reader takes it for.
func isPlain(text []byte) bool {
	return len(text) <= maxPlain && utf8.Valid(text) && !bytes.ContainsAny(text, "{[") &&
		!bytes.ContainsFunc(text, func(c rune) bool { return unicode.IsControl(c) && c != '\n' && c != '\r' && c != '\t' })
}

// check at compile time that all of them are bodies.
var _, _, _ rewrite = withheld{}, (*wholeAnswer)(nil), (*eventStream)(nil)

var _ http.Flusher = (*response)(nil)
