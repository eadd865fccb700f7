package middleware

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"gatehouse.example/message"
)

// maxList bounds what is read of an answer that may hold a list, and one event of a
// stream, in bytes.
const maxList = 16 << 20

var errListTooLarge = fmt.Errorf("middleware: the answer has more than %d bytes", maxList)

// lists are the members of results that hold lists of what the policy names, and the
// member by which an item is named there.
var lists = [...]struct {
	method, member, name string
	kind                 kind
}{
	{"tools/list", "tools", "name", tool},
	{"prompts/list", "prompts", "name", prompt},
	{"resources/list", "resources", "uri", resourceURI},
	{"resources/templates/list", "resourceTemplates", "uriTemplate", resourceURI},
}

// mayList reports whether the answer to a request may hold a list that the policy changes:
// the answer to its method, and a stream that is opened again, which repeats answers.
func (g *Guard) mayList(r *http.Request, got received) bool {
	if g.policy.listing == ListAll {
		return false
	}
	for _, l := range lists {
		if len(g.policy.part(l.kind)) > 0 && (got.Method == l.method || (got.Method == "" && r.Method == http.MethodGet)) {
			return true
		}
	}
	return false
}

// lister takes out of lists what a token may not see.
type lister struct {
	guard *Guard
	token *Token
}

// message returns a message as the client may see it.
func (l lister) message(data []byte) ([]byte, error) {
	m, err := message.Decode(data, message.Limits{MaxBytes: maxList, MaxDepth: maxListDepth})
	if err != nil {
		return nil, err
	}
	response, ok := m.(message.ResultResponse)
	if !ok {
		return data, nil
	}
	var members map[string]json.RawMessage
	if err := response.Result.Decode(&members); err != nil {
		return nil, err
	}
	changed, err := l.result(members)
	if err != nil || !changed {
		return data, err
	}
	if response.Result, err = message.NewObject(members); err != nil {
		return nil, err
	}
	return message.Encode(response)
}

// maxListDepth is more than what schemas of tools need.
const maxListDepth = 256

// result filters the lists in a result. What depends on the token must not be cached for
// others (MCP, Caching: cacheScope).
func (l lister) result(members map[string]json.RawMessage) (changed bool, err error) {
	for _, list := range lists {
		raw, ok := members[list.member]
		if !ok || len(l.guard.policy.part(list.kind)) == 0 {
			continue
		}
		var items []json.RawMessage
		if err := json.Unmarshal(raw, &items); err != nil {
			return false, fmt.Errorf("middleware: %s: %w", list.member, err)
		}
		seen := make([]json.RawMessage, 0, len(items))
		for _, item := range items {
			shown, err := l.item(list.kind, list.name, item)
			if err != nil {
				return false, fmt.Errorf("middleware: %s: %w", list.member, err)
			}
			if shown != nil {
				seen = append(seen, shown)
			}
		}
		if members[list.member], err = json.Marshal(seen); err != nil {
			return false, err
		}
		changed = true
	}
	if _, ok := members["cacheScope"]; ok && changed {
		members["cacheScope"] = json.RawMessage(`"private"`)
	}
	return changed, nil
}

// item returns an item as the client may see it, nil if not at all.
func (l lister) item(k kind, member string, raw json.RawMessage) (json.RawMessage, error) {
	o, err := message.NewObject(raw)
	if err != nil {
		return nil, err
	}
	name, err := text(o, member)
	if err != nil {
		return nil, err
	}
	needed, known := l.guard.policy.needs(operation{Operation{calls(k), name}, k, []string{name}})
	missing := l.token.missing(needed)
	switch {
	case !known:
		return nil, nil
	case len(missing) == 0:
		return raw, nil
	case l.guard.policy.listing == ListGranted || !l.guard.acquirable(missing):
		return nil, nil
	}
	return marked(o, missing)
}

// calls is the method that uses an item.
func calls(k kind) string {
	switch k {
	case tool:
		return "tools/call"
	case prompt:
		return "prompts/get"
	}
	return "resources/read"
}

// acquirable reports whether a client can get a token with some scopes: the metadata lists
// them, or lists none.
func (g *Guard) acquirable(scopes []string) bool {
	if len(g.scopes) == 0 {
		return true
	}
	for _, scope := range scopes {
		if !slices.Contains(g.policy.effective(g.scopes), scope) {
			return false
		}
	}
	return true
}

// marked adds to the _meta of an item which scopes are missing.
func marked(item message.Object, missing []string) (json.RawMessage, error) {
	members := map[string]json.RawMessage{}
	if err := item.Decode(&members); err != nil {
		return nil, err
	}
	meta := map[string]json.RawMessage{}
	if raw, ok := members["_meta"]; ok {
		if err := json.Unmarshal(raw, &meta); err != nil || meta == nil {
			return nil, errors.New("_meta: it must be an object")
		}
	}
	var err error
	if meta[MissingScopesKey], err = json.Marshal(missing); err != nil {
		return nil, err
	}
	if members["_meta"], err = json.Marshal(meta); err != nil {
		return nil, err
	}
	return json.Marshal(members)
}

// wholeList is an answer that is one message.
type wholeList struct {
	lister
	to   http.ResponseWriter
	body bytes.Buffer
}

func (b *wholeList) Write(p []byte) (int, error) {
	if b.body.Len()+len(p) > maxList {
		return 0, errListTooLarge
	}
	return b.body.Write(p)
}

// finish writes the message. One that cannot be read is not shown: it could hold what the
// policy hides.
func (b *wholeList) finish() error {
	out, err := b.message(b.body.Bytes())
	if err != nil {
		plainJSON(b.to.Header())
		b.to.Header().Del("Content-Length")
		writeJSON(b.to, http.StatusBadGateway, problem{Description: "The list could not be read."})
		return err
	}
	b.to.Header().Set("Content-Length", strconv.Itoa(len(out)))
	b.to.WriteHeader(http.StatusOK)
	_, err = b.to.Write(out)
	return err
}

// listStream is an answer that is a stream of events (HTML standard, section 9.2.6). An
// event goes on when it is complete.
type listStream struct {
	lister
	to    http.ResponseWriter
	began bool
	event bytes.Buffer // the lines of the event so far, each with its end
	line  []byte       // the beginning of a line
	err   error        // why the stream ended
}

func (s *listStream) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0 && s.err == nil; {
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			s.line = append(s.line, rest...)
			break
		}
		s.line = append(s.line, rest[:end+1]...)
		rest = rest[end+1:]
		s.err = s.take()
	}
	if s.err == nil && s.event.Len()+len(s.line) > maxList {
		s.err = errListTooLarge
	}
	if s.err != nil {
		return 0, s.err
	}
	return len(p), nil
}

// take adds a complete line to the event, and sends the event on after its last one.
func (s *listStream) take() error {
	if !s.began { // a byte order mark before the first line is none of its characters
		s.began, s.line = true, bytes.TrimPrefix(s.line, []byte("\ufeff"))
	}
	blank := len(bytes.TrimRight(s.line, "\r\n")) == 0
	s.event.Write(s.line)
	s.line = s.line[:0]
	if !blank {
		return nil
	}
	defer s.event.Reset()
	out, err := s.filtered(s.event.Bytes())
	if err != nil { // it could hold what the policy hides
		s.guard.log.Warn("an event of a stream was left out", "error", err)
		return nil
	}
	_, err = s.to.Write(out)
	return err
}

// filtered returns an event with its message as the client may see it. Other fields of the
// event stay.
func (s *listStream) filtered(event []byte) ([]byte, error) {
	var data [][]byte
	var others bytes.Buffer
	for line := range bytes.Lines(event) {
		field := bytes.TrimRight(line, "\r\n")
		if bytes.IndexByte(field, '\r') >= 0 {
			return nil, errors.New("middleware: a carriage return inside of a line") // other readers end the line there
		}
		if value, ok := bytes.CutPrefix(field, []byte("data")); ok && (len(value) == 0 || value[0] == ':') {
			data = append(data, bytes.TrimPrefix(bytes.TrimPrefix(value, []byte(":")), []byte(" ")))
		} else if len(field) > 0 {
			others.Write(line)
		}
	}
	joined := bytes.Join(data, []byte("\n"))
	if len(bytes.TrimSpace(joined)) == 0 {
		return event, nil
	}
	out, err := s.message(joined)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(out, joined) {
		return event, nil
	}
	return slices.Concat(others.Bytes(), []byte("data: "), out, []byte("\n\n")), nil
}

// finish lets go of an event that was not completed: no reader would use it.
func (s *listStream) finish() error { return s.err }
