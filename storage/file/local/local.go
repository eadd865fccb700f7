// Package local lets programs on the same machine use a store in a file that a server has open: the
// server listens on a socket beside the file, and [Open] returns a [storage.Backend] that sends
// each operation there.
//
// The socket is in a folder that only the server's user may enter. The server also asks the system
// who connected, and refuses everybody but its own user and root. Where the system does not tell,
// [Serve] refuses to listen.
package local

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"time"

	"gatehouse.example/storage"
)

// The protocol: a request is a POST to [operationPath] with a [request] in its body, and the answer
// is 200 with an [answer]. Any status from 400 to 499, and 501, means that nothing was done.
// Other paths are for what one day does not fit into an operation; a path that this version does
// not know is 404.
const (
	// version changes with every field of a message: one that the other side does not know would
	// be left out silently.
	version       = "2"
	operationPath = "/" + version + "/operation"

	// The greatest size of a request and of an answer, in bytes.
	maxRequest = 16 << 20
	maxAnswer  = 64 << 20
)

// ErrNoServer means that nothing listens beside the file.
var ErrNoServer = errors.New("storage/file/local: no server has the file open")

// request is one operation: the name of a method of [storage.Backend] and its arguments.
type request struct {
	Method        string
	Key, Index    string
	Keys          []string
	Entry, Prefix string
	After         string // of IndexPage; before, of IndexPageBefore; the cursor of Scan
	Limit         int
	Data          []byte
	Any           bool // the condition of a Put: Any, or Expected
	Expected      storage.Version
	Operation     storage.Version
	TTL           time.Duration
	Listed        []storage.Listing
	On            storage.Lineage
	Confirmation  bool
	Forgettable   bool
	Pool          string // of Count
	Counts        []storage.Count
}

// answer is the result of an operation.
type answer struct {
	Items   []storage.Item
	Names   []string // keys or entries
	Next    string
	Number  int
	Lineage storage.Lineage
	Counted storage.Counted
	Fault   string // which of the known errors it is, other for an unknown one, empty for none
	Text    string // of the error
}

// pack returns the bytes of a message, of at most so many.
func pack(message any, limit int) ([]byte, error) {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(message); err != nil {
		return nil, err
	}
	if b.Len() > limit {
		return nil, fmt.Errorf("a message of %d bytes, and at most %d are sent", b.Len(), limit)
	}
	return b.Bytes(), nil
}

// unpack reads the message that the bytes are, and nothing else.
func unpack(data []byte, message any) error {
	r := bytes.NewReader(data)
	if err := gob.NewDecoder(r).Decode(message); err != nil {
		return err
	}
	if r.Len() > 0 {
		return fmt.Errorf("%d bytes follow the message", r.Len())
	}
	return nil
}

// other is the fault of an error that is none of the known ones.
const other = "other"

// faults are the errors that a caller of a backend tells apart. One that wraps several is the
// first of them.
var faults = []struct {
	name string
	err  error
}{
	{"uncertain", storage.ErrUncertain},
	{"full", storage.ErrFull},
	{"unavailable", storage.ErrUnavailable},
	{"lineage", storage.ErrLineage},
	{"conflict", storage.ErrConflict},
	{"not found", storage.ErrNotFound},
	{"record", storage.ErrRecord},
}

// explain sets the error of an answer.
func (a *answer) explain(err error) {
	if err == nil {
		return
	}
	a.Fault, a.Text = other, err.Error()
	for _, f := range faults {
		if errors.Is(err, f.err) {
			a.Fault = f.name
			return
		}
	}
}

// told is an error that a server told: it is one of the known errors, with the server's text.
type told struct {
	text string
	err  error
}

func (t told) Error() string { return t.text }
func (t told) Unwrap() error { return t.err }

// err returns the error of an answer.
func (a answer) err() error {
	if a.Fault == "" {
		return nil
	}
	for _, f := range faults {
		if f.name == a.Fault {
			return told{a.Text, f.err}
		}
	}
	return errors.New(a.Text)
}
