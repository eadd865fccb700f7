package middleware

import (
	"encoding/json"
	"errors"
	"fmt"

	"gatehouse.example/internal/wildcard"
	"gatehouse.example/message"
)

// Operation describes the message in a request.
type Operation struct {
	// Method is the method of the message, such as "tools/call". It is empty for a request
	// without a body, which opens or ends a stream or a session, and for a response.
	Method string
	// Name is the name of the tool or prompt, or the URI of the resource. It may be empty.
	Name string
}

// kind is the kind of the names of an operation.
type kind int

const (
	nameless kind = iota
	tool
	prompt
	resourceURI
)

// operation is the input of the policy.
type operation struct {
	Operation
	kind  kind
	names []string // of all tools, prompts or resources; the first is Operation.Name
}

// understand returns the operation of a message. The method must be one that no server takes
// for another one; the members that name the target must be present, and not a second time in
// another case, which other readers could use. Its errors are refusals.
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
		return got, nil // a response: the handler knows its request
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
	case completing:
		op.kind, op.names, err = completed(params)
	case "subscriptions/listen":
		op.kind, op.names, err = watched(params)
	}
	if len(op.names) > 0 {
		op.Name = op.names[0]
	}
	return op, err
}

// named reads the member with the name of the target. A message without it has the empty name:
// the method may not exist in the revision that the client uses, and then the handler answers
// with an error.
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

// completed reads the target of completion/complete: a prompt, or a resource template.
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

// watched reads the resources that a client subscribes to (MCP 2026-07-28). There may be none.
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
		return nameless, nil, errTooMany // checked before the array is decoded
	}
	var uris []string
	if json.Unmarshal(value, &uris) != nil {
		return nameless, nil, errors.New("resourceSubscriptions: it must be an array of strings")
	}
	return resourceURI, uris, nil
}

// maxWatched bounds resourceSubscriptions as JSON, in bytes. It leaves room for maxNames bytes
// of names with each character escaped, and for space between them.
const maxWatched = 16 * maxNames

// text returns a member that must be a non-empty string.
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

// judgeable refuses operations whose names the policy cannot compare at a bounded cost or at
// all: too many or too long names, an empty name unless a pattern matches it, and URIs that
// this package cannot read in every way in which a server could.
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
			return fmt.Errorf("the names in the message have more than %d bytes", maxNames)
		}
		if name == "" {
			if _, fits := part.find(new(wildcard.Work), name); !fits {
				return errors.New("the message does not name what it is about")
			}
		} else if op.kind == resourceURI && !canBeRead(name) {
			return errURI
		}
	}
	return nil
}

// maxNamed bounds how many names one message may be about.
const maxNamed = 512

var errTooMany = fmt.Errorf("the message is about more than %d names", maxNamed)
