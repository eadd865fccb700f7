package local

import (
	"time"

	"gatehouse.example/storage"
)

// Receive reads a snapshot from an answer.
var Receive = receive

// ServeWithStall is [Serve] with another time for which a client may take no bytes of a snapshot.
func ServeWithStall(path string, backend storage.Backend, stall time.Duration) (*Server, error) {
	return serve(path, handler{backend, stall})
}
