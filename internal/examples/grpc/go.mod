// A module of its own: programs that import package middleware do not download it.
module gatehouse.example/internal/examples/grpc

go 1.25.0

require (
	gatehouse.example v0.0.0
	google.golang.org/grpc v1.84.0
)

require (
	github.com/go-jose/go-jose/v4 v4.1.9 // indirect
	golang.org/x/net v0.58.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/text v0.41.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260819154853-08b0e4226688 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace gatehouse.example => ../../..
