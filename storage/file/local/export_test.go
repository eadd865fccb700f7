package local

import (
	"os"
	"reflect"
	"time"

	"gatehouse.example/storage"
)

// The protocol, for tests that speak it by themselves.
const (
	Version       = version
	OperationPath = operationPath
	MaxRequest    = maxRequest
)

// PackAdd returns the body of a request for [storage.Backend.IndexAdd].
func PackAdd(index, entry string) []byte {
	body, err := pack(request{Method: "IndexAdd", Index: index, Entry: entry}, maxRequest)
	if err != nil {
		panic(err)
	}
	return body
}

// PackOther returns the body of a request for an operation that does not exist.
func PackOther() []byte {
	body, err := pack(request{Method: "Close"}, maxRequest)
	if err != nil {
		panic(err)
	}
	return body
}

// PackAnswer returns the body of an answer that has one lineage.
func PackAnswer(lineage storage.Lineage) []byte {
	body, err := pack(answer{Lineage: lineage}, maxAnswer)
	if err != nil {
		panic(err)
	}
	return body
}

// Messages returns the types of the messages.
func Messages() []reflect.Type {
	return []reflect.Type{reflect.TypeFor[request](), reflect.TypeFor[answer]()}
}

// ServeHasty serves with fewer connections, less patience with what clients send, and less at the
// end.
func ServeHasty(path string, backend storage.Backend, connections int, patience, end time.Duration) (*Server, error) {
	l := usual
	l.connections, l.header, l.body, l.close = connections, patience, patience, end
	return serve(path, backend, l)
}

// Longest is how long the path of a socket may be.
const Longest = longest

// AddressElsewhere returns the address of the socket in a folder on a system without shortcuts.
func AddressElsewhere(folder string) (string, error) {
	address, _, err := address(folder, func(*os.File) string { return "" })
	return address, err
}

// Receive reads a snapshot from an answer.
var Receive = receive

// ServeWithStall is [Serve] with another time for which a client may take no bytes of a snapshot.
func ServeWithStall(path string, backend storage.Backend, stall time.Duration) (*Server, error) {
	l := usual
	l.stall = stall
	return serve(path, backend, l)
}
