package doctor

import "net/http"

// firstCalls are the requests with which clients begin, without a token.
var firstCalls = []string{"call.stateless", "call.session"}

// challenged are the requests whose challenge clients read: the first of them that is refused.
var challenged = []string{"call.stateless", "call.session", "call.list", "call.tool"}

// messages are the requests without a token that a person with a browser does not send, and so no
// page is for.
var messages = []string{"call.stateless", "call.session", "call.list", "call.tool", "call.unknown"}

// use returns the last of the requests that use a server which answered initialize without a token,
// nil if it did not.
func (w *walk) use() *exchange {
	if e := w.call("call.tool"); e != nil {
		return e
	}
	return w.call("call.list")
}

// opens reports whether a message is answered, and not with a page.
func (e *exchange) opens() bool { return e.code()/100 == 2 && e.media() != "text/html" }

// page reports whether a program is sent to a page.
func (e *exchange) page() bool {
	return e.redirect() && !e.moved() || e.media() == "text/html" && (e.code() == http.StatusForbidden || e.code()/100 == 2)
}
