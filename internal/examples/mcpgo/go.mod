// A module of its own: mcp-go asks for a newer Go than the rest of the project.
module gatehouse.example/internal/examples/mcpgo

go 1.25.5

require (
	gatehouse.example v0.0.0
	github.com/mark3labs/mcp-go v1.2.1
)

require (
	github.com/go-jose/go-jose/v4 v4.1.9 // indirect
	github.com/google/jsonschema-go v0.4.3 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3 // indirect
	github.com/spf13/cast v1.7.1 // indirect
	github.com/yosida95/uritemplate/v3 v3.0.2 // indirect
	golang.org/x/text v0.41.0 // indirect
)

replace gatehouse.example => ../../..
