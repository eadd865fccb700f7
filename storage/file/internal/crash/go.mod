// A module of its own: it tests with a disk that crashes, which needs go-fuse.
module gatehouse.example/storage/file/internal/crash

go 1.25.0

require (
	gatehouse.example v0.0.0
	github.com/hanwen/go-fuse/v2 v2.12.1
)

require (
	go.etcd.io/bbolt v1.5.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
)

replace gatehouse.example => ../../../..
