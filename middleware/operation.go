package middleware

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"

	"gatehouse.example/internal/wildcard"
	"gatehouse.example/message"
)

// defaultMaxBody bounds messages, in bytes.
const defaultMaxBody = 4 << 20

// Operation is what a request does, as its message says.
type Operation struct {
	// Method is that of the message, such as "tools/call". It is empty for a request
	// without a body, which opens or ends a stream or a session, and for a response.
	Method string
	// Name is the tool, the prompt or the URI of the resource that it is about. It may be
	// empty.
	Name string
}

// kind says what the names of an operation are.
type kind int

const (
	nameless kind = iota
	tool
	prompt
	resourceURI
)

// operation is what the policy decides by.
type operation struct {
	Operation
	kind  kind
	names []string // all that it is about; the first is Operation.Name
}

// received is a message that was read for the policy.
type received struct {
	operation
	id     message.ID       // zero for what has no answer
	list   *message.Request // for a list that the policy filters
	cursor string           // the server's, with which that goes on; empty without one
}

// receive reads the message in the body of a request and puts the same bytes back for the
// handler. A request without a body has no message. Its errors are refusals.
func (g *Guard) receive(w http.ResponseWriter, r *http.Request) (received, error) {
	if r.Body == nil || r.Body == http.NoBody || (r.ContentLength == 0 && len(r.TransferEncoding) == 0) {
		return received{}, headersFor(r, received{})
	}
	if err := readable(r); err != nil {
		return received{}, err
	}
	body, err := whole(http.MaxBytesReader(w, r.Body, int64(g.maxBody)), min(r.ContentLength, int64(g.maxBody)))
	if err != nil {
		return received{}, unread(err)
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.TransferEncoding = nil
	m, err := message.Decode(body, message.Limits{MaxBytes: g.maxBody})
	if err != nil {
		return received{}, undecoded(err)
	}
	got, err := g.policy.understand(m)
	if err != nil {
		return received{}, err
	}
	if request, ok := m.(message.Request); ok && g.filtersMethod(request.Method) {
		got.list = &request
	}
	return got, headersFor(r, got)
}

// whole reads to the end. The size that is expected saves room, and is not believed.
func whole(r io.Reader, expected int64) ([]byte, error) {
	var b bytes.Buffer
	b.Grow(int(min(max(expected, 0), 64<<10)) + bytes.MinRead)
	_, err := b.ReadFrom(r)
	return b.Bytes(), err
}

// readable wants a body that every reader understands alike: JSON in UTF-8, as it is.
func readable(r *http.Request) error {
	media, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset, ok := params["charset"]
	if err != nil || media != "application/json" || (ok && !strings.EqualFold(charset, "utf-8")) || len(r.Header["Content-Type"]) != 1 {
		return challenge{status: http.StatusUnsupportedMediaType, description: "Send messages with Content-Type: application/json, in UTF-8."}
	}
	if encoding := strings.Join(r.Header["Content-Encoding"], ","); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return challenge{status: http.StatusUnsupportedMediaType, description: "Send messages without Content-Encoding."}
	}
	return nil
}

// unread is the refusal of a body that did not arrive.
func unread(err error) error {
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return challenge{status: http.StatusRequestEntityTooLarge, description: fmt.Sprintf("A message may have at most %d bytes.", tooLarge.Limit)}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return challenge{status: http.StatusRequestTimeout, description: "The message took too long to arrive."}
	}
	return challenge{status: http.StatusBadRequest, description: "The message did not arrive as a whole."}
}

// undecoded is the refusal of a body that is no message. A notification and a response are
// never answered with a message (JSON-RPC 2.0 section 4.1).
func undecoded(err error) error {
	refused := challenge{status: http.StatusBadRequest, description: "The body is not a message of the protocol.", cause: err}
	var de *message.DecodeError
	if errors.As(err, &de) {
		if answer, ok := de.Response(); ok {
			refused.body, _ = message.Encode(answer) // the answer to what was refused can be written
		}
	}
	return refused
}

// fault is the refusal of a message by a message.
func fault(id message.ID, code message.Code, why error) error {
	refused := challenge{status: http.StatusBadRequest, description: "The message cannot be judged: " + why.Error() + ".", cause: why}
	if !id.IsZero() {
		refused.body, _ = message.Encode(message.ErrorResponse{ID: id, Error: message.Error{Code: code, Message: why.Error()}})
	}
	return refused
}

// understand finds what a message is about. Its method must be one that no server takes for
// another; the members that it looks at must be there and must not be there in another case
// as well, which others would read. Its errors are refusals.
func (p *policy) understand(m message.Message) (received, error) {
	var got received
	var method string
	var params message.Object
	switch m := m.(type) {
	case message.Request:
		got.id, method, params = m.ID, m.Method, m.Params
	case message.Notification:
		method, params = m.Method, m.Params
	default:
		return got, nil // a response: what it answers, the handler knows
	}
	if err := p.unclear(method); err != nil {
		return got, fault(got.id, message.CodeInvalidRequest, err)
	}
	var err error
	if got.operation, err = operationOf(method, params); err == nil {
		err = p.judgeable(got.operation)
	}
	if err != nil {
		return got, fault(got.id, message.CodeInvalidParams, err)
	}
	return got, nil
}

func operationOf(method string, params message.Object) (operation, error) {
	op := operation{Operation: Operation{Method: method}}
	var err error
	switch method {
	case "tools/call":
		op.kind, op.names, err = named(tool, params, "name")
	case "prompts/get":
		op.kind, op.names, err = named(prompt, params, "name")
	case "resources/read", "resources/subscribe", "resources/unsubscribe":
		op.kind, op.names, err = named(resourceURI, params, "uri")
	case "completion/complete":
		op.kind, op.names, err = completed(params)
	case "subscriptions/listen":
		op.kind, op.names, err = watched(params)
	}
	if len(op.names) > 0 {
		op.Name = op.names[0]
	}
	return op, err
}

// named reads the member that names what a method is about. A message without the member
// has the empty name: a revision of the protocol may not know the method at all, and then
// the handler says so.
func named(k kind, params message.Object, member string) (kind, []string, error) {
	if value, err := params.Member(member); err == nil && value == nil {
		return k, []string{""}, nil
	}
	name, err := text(params, member)
	if err != nil {
		return k, nil, err
	}
	return k, []string{name}, nil
}

// completed reads what completions are asked for: a prompt, or a template of resources.
func completed(params message.Object) (kind, []string, error) {
	ref, err := object(params, "ref")
	if err != nil {
		return nameless, nil, err
	}
	switch of, err := text(ref, "type"); {
	case err != nil:
		return nameless, nil, err
	case of == "ref/prompt":
		return named(prompt, ref, "name")
	case of == "ref/resource":
		return named(resourceURI, ref, "uri")
	}
	return nameless, nil, errors.New("ref: the type is not known")
}

// watched reads the resources that a client wants to hear of (MCP 2026-07-28). There may
// be none.
func watched(params message.Object) (kind, []string, error) {
	filter, err := object(params, "notifications")
	if err != nil {
		return nameless, nil, err
	}
	value, err := filter.Member("resourceSubscriptions")
	if err != nil || value == nil {
		return nameless, nil, err
	}
	if len(value) > maxWatched {
		return nameless, nil, errTooMany // nobody takes them apart first
	}
	var uris []string
	if json.Unmarshal(value, &uris) != nil {
		return nameless, nil, errors.New("resourceSubscriptions: it must be an array of strings")
	}
	return resourceURI, uris, nil
}

// maxWatched is more than the names that may be in a message have in JSON, each character
// escaped, and the space between them.
const maxWatched = 16 * maxNames

// text returns a member that must be a string which is not empty.
func text(o message.Object, member string) (string, error) {
	value, err := o.Member(member)
	if err != nil {
		return "", err
	}
	var s *string
	if value == nil || json.Unmarshal(value, &s) != nil || s == nil || *s == "" {
		return "", fmt.Errorf("%s: it must be a string that is not empty", member)
	}
	return *s, nil
}

// object returns a member that must be an object.
func object(o message.Object, member string) (message.Object, error) {
	value, err := o.Member(member)
	if err != nil {
		return message.Object{}, err
	}
	if value == nil {
		return message.Object{}, fmt.Errorf("%s: it must be an object", member)
	}
	inner, err := message.NewObject(value)
	if err != nil {
		return message.Object{}, fmt.Errorf("%s: it must be an object", member)
	}
	return inner, nil
}

// judgeable refuses what the policy cannot judge in little time or at all: long names and many
// of them, none at all, unless a pattern is for that too, and URIs that this program cannot
// read in every way in which a server could.
func (p *policy) judgeable(op operation) error {
	part := p.part(op.kind)
	if len(part) == 0 {
		return nil
	}
	if len(op.names) > maxNamed {
		return errTooMany
	}
	size := 0
	for _, name := range op.names {
		if size += len(name); size > maxNames {
			return fmt.Errorf("the names that it is about have more than %d bytes", maxNames)
		}
		if name == "" {
			if _, fits := part.find(new(wildcard.Work), name); !fits {
				return errors.New("it does not say what it is about")
			}
		} else if op.kind == resourceURI && !canBeRead(name) {
			return errURI
		}
	}
	return nil
}

// maxNamed bounds how many names one message may be about.
const maxNamed = 512

var errTooMany = fmt.Errorf("it is about more than %d names", maxNamed)
