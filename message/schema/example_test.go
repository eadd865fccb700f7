package schema_test

import (
	"context"
	"errors"
	"fmt"

	"gatehouse.example/message/schema"
)

func ExampleCompile() {
	_, err := schema.Compile([]byte(`{"$schema":"http://json-schema.org/draft-03/schema#"}`), schema.Options{})
	if dialect := (*schema.UnsupportedDialectError)(nil); errors.As(err, &dialect) {
		fmt.Println(dialect)
	}
	// Output:
	// unsupported dialect "http://json-schema.org/draft-03/schema#": supported are https://json-schema.org/draft/2020-12/schema, https://json-schema.org/draft/2019-09/schema, http://json-schema.org/draft-07/schema#
}

func ExampleSchema_Validate() {
	s, err := schema.Compile([]byte(`{"type":"object","properties":{"limit":{"type":"integer","maximum":100}},"required":["query"]}`),
		schema.Options{ObjectRoot: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = s.Validate(context.Background(), []byte(`{"limit":1000}`))
	if invalid := (*schema.InvalidError)(nil); errors.As(err, &invalid) {
		for _, fault := range invalid.Faults {
			fmt.Println(fault)
		}
	}
	// Output:
	// at "": required: it must have "query"
	// at "/limit": maximum: it must be at most 100
}
