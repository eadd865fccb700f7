package doctor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// failure is why an exchange has no answer, "" if it has one.
type failure string

const (
	failLookup  failure = "lookup"  // the name has no address
	failForbid  failure = "forbid"  // the address may not be asked, see Options.AllowHosts
	failConnect failure = "connect" // nothing listens there, or it hung up
	failTLS     failure = "tls"     // the handshake failed, or the certificate is not valid
	failTime    failure = "time"    // no answer in time
	failAnswer  failure = "answer"  // the answer is not HTTP, or its header is too large
	failHeader  failure = "header"  // the header has what HTTP forbids
	failBudget  failure = "budget"  // not asked, or not until its end: the requests, bytes or time were used up
	failLimited failure = "limited" // the server asks to come later, see limited
)

// exchange is a request with its answer.
type exchange struct {
	place   string // the question, as the walk names it: "call.session", "token", …
	method  string
	url     string
	sent    http.Header
	failure failure
	reason  string // why it failed, for people
	status  int    // 0 without an answer
	header  http.Header
	body    []byte // at most MaxBody
	cut     bool   // the body goes on: it is too large, did not end in time, or broke off
	over    bool   // it is too large
	late    bool   // it did not end in time
	wrote   bool   // the request may have reached the server
	asked   time.Time
	took    time.Duration // until the header arrived
	expires time.Time     // when the certificate of the server ends; zero without TLS
}

// ok reports whether the answer is 200.
func (e *exchange) ok() bool { return e != nil && e.status == http.StatusOK }

// answered reports whether there is an answer, of any status.
func (e *exchange) answered() bool { return e != nil && e.status > 0 }

// get returns a header of the answer, "" without an answer.
func (e *exchange) get(name string) string {
	if e == nil {
		return ""
	}
	return e.header.Get(name)
}

// code returns the status of the answer, 0 without an answer.
func (e *exchange) code() int {
	if e == nil {
		return 0
	}
	return e.status
}

// media returns the media type of the answer in lower case, without parameters.
func (e *exchange) media() string {
	media, _, err := mime.ParseMediaType(e.get("Content-Type"))
	if err != nil && media == "" {
		return strings.ToLower(strings.TrimSpace(e.get("Content-Type")))
	}
	return media
}

// redirect reports whether the answer is a redirect.
func (e *exchange) redirect() bool {
	return e.answered() && e.status >= 300 && e.status < 400 && e.get("Location") != ""
}

// moved reports whether the answer is a redirect that stays at the host, with any scheme and port.
func (e *exchange) moved() bool {
	if !e.redirect() {
		return false
	}
	from, err := url.Parse(e.url)
	if err != nil {
		return false
	}
	to, err := from.Parse(e.get("Location"))
	return err == nil && same(to.Hostname(), from.Hostname()) && (to.Scheme == "http" || to.Scheme == "https")
}

// String names the request and its outcome for people: "GET https://… answers 404".
func (e *exchange) String() string {
	if e == nil {
		return "a request that was not sent"
	}
	outcome := fmt.Sprintf("answers %d", e.status)
	if !e.answered() {
		outcome = "has no answer: " + e.reason
	}
	if e.failure == failLimited {
		outcome = e.reason
	}
	at := e.url
	if strings.HasPrefix(e.place, "try.") || strings.HasPrefix(e.place, "authorize.") {
		at, _, _ = strings.Cut(at, "?") // the parameters are the doctor's own
	}
	return fmt.Sprintf("%s %s %s", e.method, clean(at), outcome)
}

// document is an answer that should be a JSON object.
type document struct {
	*exchange
	form    string // where it was asked for: "header", "inserted", "root", "appended"
	members map[string]any
	mistake string // why it has no members, though the answer is no refusal
}

// newDocument reads the answer. Readers of other makers are lenient, so this one is: of two
// members of one name the last counts.
func newDocument(e *exchange, form string) *document {
	d := &document{exchange: e, form: form}
	if !e.ok() {
		if code := e.code(); code >= 200 && code < 400 && !e.redirect() {
			d.mistake = "is no document"
		}
		return d
	}
	if e.over || e.late { // what it is, is not known
		return d
	}
	if !jsonObject(e.body) {
		d.mistake = "is not a JSON object but begins with " + excerpt(e.body)
		return d
	}
	if err := json.Unmarshal(e.body, &d.members); err != nil {
		d.mistake = "is not JSON: " + err.Error()
	}
	return d
}

func jsonObject(body []byte) bool {
	trimmed := bytes.TrimLeft(bytes.TrimPrefix(body, []byte("\ufeff")), " \t\r\n")
	return len(trimmed) > 0 && trimmed[0] == '{'
}

// found reports whether the document can be read.
func (d *document) found() bool { return d != nil && d.members != nil }

// text returns a member that is a string, else "".
func (d *document) text(name string) string {
	if !d.found() {
		return ""
	}
	s, _ := d.members[name].(string)
	return s
}

// has reports whether there is such a member that is not null.
func (d *document) has(name string) bool { return d.found() && d.members[name] != nil }

// list returns a member that is an array of strings. ok is false if it is something else.
func (d *document) list(name string) (list []string, ok bool) {
	if !d.has(name) {
		return nil, true
	}
	values, ok := d.members[name].([]any)
	for _, v := range values {
		s, text := v.(string)
		ok = ok && text
		list = append(list, s)
	}
	return list, ok
}

// mistyped returns those members that are not arrays of strings.
func (d *document) mistyped(names ...string) (wrong []string) {
	for _, name := range names {
		if _, ok := d.list(name); !ok {
			wrong = append(wrong, name)
		}
	}
	return wrong
}

// lacks returns those members that do not exist.
func (d *document) lacks(names ...string) (missing []string) {
	for _, name := range names {
		if !d.has(name) {
			missing = append(missing, name)
		}
	}
	return missing
}

// yes reports whether a member is true.
func (d *document) yes(name string) bool {
	if !d.found() {
		return false
	}
	b, _ := d.members[name].(bool)
	return b
}

// walk is the record of an examination, of which every check is a function.
type walk struct {
	target    string
	alone     bool // an authorization server without a protected one
	now       time.Time
	exchanges []*exchange // all, in their order
	places    []*document // the resource metadata, in the order in which clients look for it
	servers   []*server
	skipped   []string // authorization servers that were not asked, because there are too many
	token     string   // that the protected server was asked with, "" for none
	signIn    *signIn  // nil without one
	left      []string // what was registered and could not be removed
}

// server is what was asked of one authorization server.
type server struct {
	issuer    string
	guessed   bool // no metadata names it
	documents []*document
	calls     []*exchange
	clients   []*registration
	hostile   *registration // with a redirect URI that no server may accept
}

// call returns the answer to a question of the walk, nil if it was not asked.
func (w *walk) call(place string) *exchange { return find(w.exchanges, place) }

// call returns the answer to a question of the walk, nil if it was not asked.
func (s *server) call(place string) *exchange { return find(s.calls, place) }

func find(all []*exchange, place string) *exchange {
	for _, e := range all {
		if e.place == place {
			return e
		}
	}
	return nil
}

// resource returns the resource metadata that clients use: the first that can be read.
func (w *walk) resource() *document { return first(w.places) }

// metadata returns the metadata that clients use: the first that can be read.
func (s *server) metadata() *document { return first(s.documents) }

func first(all []*document) *document {
	for _, d := range all {
		if d.found() {
			return d
		}
	}
	return nil
}
