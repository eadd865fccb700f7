package appendjson

import (
	"encoding/json"
	"strconv"
	"time"
)

// Object appends the members of an object, each with its name. Begin it with [Begin] and finish it with
// [Object.End]. Names are constants of characters that are not escaped.
type Object struct {
	// JSON is what was appended so far. Whoever appends the value of a member goes on behind [Object.Name].
	JSON []byte
	err  error
}

// Begin appends the beginning of an object.
func Begin(dst []byte) Object { return Object{JSON: append(dst, '{')} }

// End appends the end of the object. The error is that of a value that cannot be written.
func (o *Object) End() ([]byte, error) { return append(o.JSON, '}'), o.err }

// Name appends the name of a member.
func (o *Object) Name(name string) {
	if o.JSON[len(o.JSON)-1] != '{' {
		o.JSON = append(o.JSON, ',')
	}
	o.JSON = append(o.JSON, '"')
	o.JSON = append(o.JSON, name...)
	o.JSON = append(o.JSON, '"', ':')
}

// Text appends a string, TextIfAny one that is not empty.
func (o *Object) Text(name, value string) {
	o.Name(name)
	o.JSON = String(o.JSON, value)
}

func (o *Object) TextIfAny(name, value string) {
	if value != "" {
		o.Text(name, value)
	}
}

// List appends an array of strings, ListIfAny one that is not empty.
func (o *Object) List(name string, list []string) {
	o.Name(name)
	o.JSON = Strings(o.JSON, list)
}

func (o *Object) ListIfAny(name string, list []string) {
	if len(list) > 0 {
		o.List(name, list)
	}
}

// Bytes appends bytes as [Bytes] does, BytesIfAny those that are not empty.
func (o *Object) Bytes(name string, b []byte) {
	o.Name(name)
	o.JSON = Bytes(o.JSON, b)
}

func (o *Object) BytesIfAny(name string, b []byte) {
	if len(b) > 0 {
		o.Bytes(name, b)
	}
}

// Time appends a time as [Time] does, TimeIfAny one that is not zero.
func (o *Object) Time(name string, t time.Time) {
	o.Name(name)
	json, err := Time(o.JSON, t)
	if o.JSON = json; err != nil {
		o.err = err
	}
}

func (o *Object) TimeIfAny(name string, t time.Time) {
	if !t.IsZero() {
		o.Time(name, t)
	}
}

// FlagIfSet appends true.
func (o *Object) FlagIfSet(name string, set bool) {
	if set {
		o.Name(name)
		o.JSON = append(o.JSON, "true"...)
	}
}

// Number appends an integer.
func (o *Object) Number(name string, n int64) {
	o.Name(name)
	o.JSON = strconv.AppendInt(o.JSON, n, 10)
}

// Any appends a value that encoding/json writes.
func (o *Object) Any(name string, value any) {
	o.Name(name)
	encoded, err := json.Marshal(value)
	if o.JSON = append(o.JSON, encoded...); err != nil {
		o.err = err
	}
}

// Value appends a value that add appends.
func (o *Object) Value(name string, add func(dst []byte) ([]byte, error)) {
	o.Name(name)
	json, err := add(o.JSON)
	if o.JSON = json; err != nil {
		o.err = err
	}
}

// Embed appends the members of an object that add appends, as encoding/json does with those of an
// embedded struct.
func (o *Object) Embed(add func(dst []byte) ([]byte, error)) {
	at := len(o.JSON)
	json, err := add(o.JSON)
	switch {
	case err != nil:
		o.err = err
	case len(json) == at+len("{}"):
		o.JSON = json[:at]
	case json[at-1] == '{':
		o.JSON = append(json[:at], json[at+1:len(json)-1]...)
	default:
		json[at] = ','
		o.JSON = json[:len(json)-1]
	}
}
