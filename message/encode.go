package message

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// wire is the wire form of a message.
type wire struct {
	JSONRPC string `json:"jsonrpc"`
	ID      ID     `json:"id,omitzero"`
	Method  string `json:"method,omitempty"`
	Params  Object `json:"params,omitzero"`
	Result  Object `json:"result,omitzero"`
	Error   *Error `json:"error,omitempty"`
}

// Encode returns a message in one line, without a line break at its end. It returns an error for
// a message that [Decode] would refuse for another reason than its size and depth.
func Encode(m Message) ([]byte, error) {
	if m == nil {
		return nil, errors.New("message: encode: there is no message")
	}
	w, err := m.wire()
	if err != nil {
		return nil, err
	}
	w.JSONRPC = "2.0"
	data, err := encode(w)
	if err != nil {
		return nil, fmt.Errorf("message: encode: %w", err)
	}
	return data, nil
}

var (
	errNoID     = errors.New("message: encode: there is no id")
	errMethod   = errors.New("message: encode: the method is empty or not UTF-8")
	errNoResult = errors.New("message: encode: there is no result")
	errUnread   = errors.New("message: encode: an unread request has no id that could be answered")
)

func (r Request) wire() (wire, error) {
	if r.ID.IsZero() {
		return wire{}, errNoID
	}
	w, err := Notification{Method: r.Method, Params: r.Params}.wire()
	w.ID = r.ID
	return w, err
}

func (n Notification) wire() (wire, error) {
	if n.Method == "" || !utf8.ValidString(n.Method) {
		return wire{}, errMethod
	}
	return wire{Method: n.Method, Params: n.Params}, nil
}

func (r ResultResponse) wire() (wire, error) {
	switch {
	case r.ID.IsZero():
		return wire{}, errNoID
	case r.Result.IsZero():
		return wire{}, errNoResult
	}
	return wire{ID: r.ID, Result: r.Result}, nil
}

func (r ErrorResponse) wire() (wire, error) {
	switch {
	case r.Unread && !r.ID.IsZero():
		return wire{}, errUnread
	case !r.Unread && r.ID.IsZero():
		return wire{}, errNoID
	}
	return wire{ID: r.ID, Error: &r.Error}, r.Error.check()
}
