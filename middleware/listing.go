package middleware

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"gatehouse.example/internal/wildcard"
	"gatehouse.example/message"
)

// maxListSteps bounds the work on the names of one list: some hundred thousand tools, or some
// ten thousand resources, each of which has many readings.
const maxListSteps = 1 << 28

var errListWork = errors.New("it has more or longer names than can be compared with the policy")

// list is a kind of lists: the method that returns it, the member of the result that contains
// it, and the member of an item that contains its name.
type list struct {
	method, member, name string
	kind                 kind
}

// lists are all kinds of lists whose items the policy can name.
var lists = [...]list{
	{"tools/list", "tools", "name", tool},
	{"prompts/list", "prompts", "name", prompt},
	resourceList,
	{"resources/templates/list", "resourceTemplates", "uriTemplate", resourceURI},
}

var resourceList = list{"resources/list", "resources", "uri", resourceURI}

// filters reports whether the policy changes lists of a kind.
func (g *Guard) filters(l list) bool {
	return g.policy.listing != ListAll && len(g.policy.part(l.kind)) > 0
}

// filtersMethod reports whether the policy changes the list that a method returns.
func (g *Guard) filtersMethod(method string) bool {
	for _, l := range lists {
		if l.method == method {
			return g.filters(l)
		}
	}
	return false
}

// mayList reports whether the response to a request may contain a list that the policy changes:
// the response to its method, or a resumed stream, which repeats responses. GET opens one, also if
// there is a message, which many handlers ignore then.
func (g *Guard) mayList(r *http.Request, got received) bool {
	if r.Method == http.MethodGet {
		return slices.ContainsFunc(lists[:], g.filters)
	}
	return got.completion != nil || g.filtersMethod(got.Method)
}

// lister removes items from lists that the policy hides from a token.
type lister struct {
	guard *Guard
	token *Token
	got   received // without a method for a stream that repeats responses
}

// unreadable is the reason why a message is not forwarded, with the id of the request that it
// responds to.
type unreadable struct {
	id  message.ID // zero if it is not known
	err error
}

// Error implements error.
func (u unreadable) Error() string { return u.err.Error() }

// Unwrap returns the reason.
func (u unreadable) Unwrap() error { return u.err }

// message returns a message as the client may see it. Its errors are unreadable.
func (l lister) message(data []byte) ([]byte, error) {
	m, err := message.Decode(data, message.Limits{MaxBytes: maxList, MaxDepth: maxListDepth})
	if err != nil {
		if failed, ok := errorIn(data); ok {
			return message.Encode(l.failure(failed))
		}
		var refused *message.DecodeError
		errors.As(err, &refused)
		return nil, unreadable{refused.ID, err}
	}
	if failed, ok := m.(message.ErrorResponse); ok {
		if failed, changed := l.got.withoutCursor(failed); changed {
			return message.Encode(failed)
		}
	}
	response, ok := m.(message.ResultResponse)
	if !ok {
		return data, nil
	}
	changed, err := l.result(&response)
	switch {
	case err != nil:
		return nil, unreadable{response.ID, err}
	case !changed:
		return data, nil
	}
	return message.Encode(response)
}

// failure returns an error response whose id was null (JSON-RPC 2.0, section 5) or missing with
// the id of the request.
func (l lister) failure(failed message.ErrorResponse) message.ErrorResponse {
	if failed.Unread && !l.got.id.IsZero() {
		failed.ID, failed.Unread = l.got.id, false
	}
	failed, _ = l.got.withoutCursor(failed)
	return failed
}

// maxListDepth is the maximum depth of JSON in a list, more than schemas of tools need.
const maxListDepth = 256

// result filters the lists in a result, and seals the cursor of the next page. A result that
// depends on the token must not be cached for others (MCP, Caching: cacheScope).
func (l lister) result(response *message.ResultResponse) (changed bool, err error) {
	members := map[string]json.RawMessage{}
	if err := response.Result.Decode(&members); err != nil {
		return false, err
	}
	method, changed, err := l.filter(response.Result, members)
	if err != nil {
		return false, err
	}
	sealed, err := l.sealCursor(method, response.Result, members)
	if err != nil || !changed && !sealed {
		return false, err
	}
	if _, ok := members["cacheScope"]; ok {
		members["cacheScope"] = json.RawMessage(`"private"`)
	}
	response.Result, err = message.NewObject(members)
	return true, err
}

// filter changes the members of a result that have hidden names. It returns the method of the list for a
// cursor, empty without a list.
func (l lister) filter(result message.Object, members map[string]json.RawMessage) (method string, changed bool, err error) {
	method = l.asked()
	work, missing := new(wildcard.Work), map[string][]string{}
	for _, list := range lists {
		raw, err := result.Member(list.member)
		if err != nil {
			return "", false, err // a reader that ignores case would take the other member for the list
		}
		if raw == nil || !l.guard.filters(list) {
			continue
		}
		if members[list.member], err = l.items(work, list, raw, missing); err != nil {
			return "", false, fmt.Errorf("middleware: %s: %w", list.member, err)
		}
		changed = true
		if method == "" {
			method = list.method
		}
	}
	completed, err := l.completion(work, result, members)
	if err != nil {
		return "", false, fmt.Errorf("middleware: %s: %w", completionMember, err)
	}
	return method, changed || completed, mark(members, missing)
}

// asked returns the method of the list that a request asked for, empty for a stream that repeats
// responses.
func (l lister) asked() string {
	if l.guard.filtersMethod(l.got.Method) {
		return l.got.Method
	}
	return ""
}

// items returns a list with the items that the client may see, and notes the missing scopes of
// those that the token does not cover.
func (l lister) items(w *wildcard.Work, of list, raw json.RawMessage, missing map[string][]string) (json.RawMessage, error) {
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, err
	}
	seen := make([]json.RawMessage, 0, len(items))
	for _, item := range items {
		shown, err := l.shows(w, of.kind, of.name, item, missing)
		if err != nil {
			return nil, err
		}
		if shown {
			seen = append(seen, item)
		}
	}
	return json.Marshal(seen)
}

// shows reports whether the client may see an item, which stays as it is: a client may compare it
// with what it got for another token.
func (l lister) shows(w *wildcard.Work, k kind, member string, raw json.RawMessage, missing map[string][]string) (bool, error) {
	if w.Steps > maxListSteps {
		return false, errListWork
	}
	o, err := message.NewObject(raw)
	if err != nil {
		return false, err
	}
	name, err := text(o, member)
	if err != nil {
		return false, err
	}
	lacks, seen := l.sees(w, k, name)
	if seen && len(lacks) > 0 {
		missing[name] = lacks
	}
	return seen, nil
}

// sees reports whether the client may see a name, and which scopes it misses to use it.
func (l lister) sees(w *wildcard.Work, k kind, name string) (missing []string, seen bool) {
	needed, known := l.guard.policy.needs(w, operation{Operation{calls(k), name}, k, []string{name}})
	if !known {
		return nil, false
	}
	missing = l.token.missing(needed)
	return missing, len(missing) == 0 || l.guard.policy.listing != ListGranted && l.guard.acquirable(missing) && !l.guard.unaskable(l.token, missing)
}

// calls returns the method that uses an item.
func calls(k kind) string {
	switch k {
	case tool:
		return "tools/call"
	case prompt:
		return "prompts/get"
	}
	return "resources/read"
}

// acquirable reports whether a client can get a token with these scopes: the metadata lists
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

// mark adds the missing scopes of a result's items to its _meta.
func mark(members map[string]json.RawMessage, missing map[string][]string) (err error) {
	if len(missing) == 0 {
		return nil
	}
	meta := map[string]json.RawMessage{}
	if raw, ok := members["_meta"]; ok {
		if err := json.Unmarshal(raw, &meta); err != nil {
			return errors.New("_meta: it must be an object")
		}
	}
	if meta == nil { // it was null
		meta = map[string]json.RawMessage{}
	}
	if meta[MissingScopesKey], err = json.Marshal(missing); err != nil {
		return err
	}
	members["_meta"], err = json.Marshal(meta)
	return err
}
