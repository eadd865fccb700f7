// Package schema compiles untrusted JSON Schemas, as tools, prompts and records have them, and
// validates untrusted values.
//
// A schema without $schema is of dialect 2020-12; $schema may name another one of [Dialects].
// The error for every other dialect is an [*UnsupportedDialectError]. A schema is validated
// against the meta-schema of its dialect first.
//
// Because schemas and values are untrusted, these are refused:
//
//   - references that leave the document. Nothing is ever fetched, neither from the network
//     nor from a file; only the meta-schemas of the dialects are built in;
//   - references that lead back to their start for the same value;
//   - patterns that Go's regexp does not support, such as lookaheads and back-references: all
//     others take linear time;
//   - schemas and values that are too large, too deep or too much work. Work is counted while
//     it is done, and ends with the context: a schema of a few lines can take hours.
//
// Numbers of any size are compared exactly. The keywords format, contentEncoding,
// contentMediaType and contentSchema are annotations, which refuse no value, in all dialects.
//
//	s, err := schema.Compile(raw, schema.Options{ObjectRoot: true})
//	if dialect := (*schema.UnsupportedDialectError)(nil); errors.As(err, &dialect) {
//		// say so: the error lists the dialects that are supported
//	}
//	err = s.Validate(ctx, arguments)
//	if invalid := (*schema.InvalidError)(nil); errors.As(err, &invalid) {
//		for _, fault := range invalid.Faults {
//			// at "/query/limit": maximum: it must be at most 100
//		}
//	}
package schema

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

var (
	// ErrSchema reports that a schema is not valid under its dialect, or cannot be used.
	ErrSchema = errors.New("not a valid schema")
	// ErrRoot reports that the root of a schema is not an object with "type": "object", which
	// the parameters of a tool must have.
	ErrRoot = errors.New(`the root must be an object with "type": "object"`)
	// ErrReference reports a reference to nothing in the document.
	ErrReference = errors.New("a reference that cannot be followed")
	// ErrLoop reports a reference that leads back to itself for the same value.
	ErrLoop = errors.New("a reference that leads back to itself")
	// ErrPattern reports a regular expression that is malformed, too large, or not supported
	// by Go's regexp.
	ErrPattern = errors.New("a pattern that is not supported")
	// ErrNumber reports a number with too many digits or too large an exponent.
	ErrNumber = errors.New("a number out of bounds")
	// ErrTooMany reports more subschemas than Options.MaxSubschemas.
	ErrTooMany = errors.New("too many subschemas")
	// ErrTooMuch reports that validation took more than Options.MaxSteps.
	ErrTooMuch = errors.New("too much work")
	// ErrBroken reports that the library under this package panicked, which is a bug.
	ErrBroken = errors.New("the validator failed")
)

// Options configures the limits on schemas and values. The zero value has safe limits.
type Options struct {
	// ObjectRoot requires that the root of the schema is an object whose type is "object".
	// Set it for the inputSchema of a tool.
	ObjectRoot bool

	MaxSchemaBytes int // 0 means 256 KiB
	MaxSchemaDepth int // nested arrays and objects in the schema; 0 means 64
	MaxSubschemas  int // objects and booleans in the schema; 0 means 2000

	MaxBytes int // of a value; 0 means 1 MiB
	MaxDepth int // nested arrays and objects in a value; 0 means 64
	// MaxSteps bounds the work of one validation; 0 means 100 000. One step is roughly the
	// application of one schema to one value, and takes at most some microseconds.
	MaxSteps  int
	MaxFaults int // faults in one InvalidError; 0 means 20
}

func (o Options) withDefaults() Options {
	for field, value := range map[*int]int{
		&o.MaxSchemaBytes: 256 << 10, &o.MaxSchemaDepth: 64, &o.MaxSubschemas: 2000,
		&o.MaxBytes: 1 << 20, &o.MaxDepth: 64, &o.MaxSteps: 100_000, &o.MaxFaults: 20,
	} {
		if *field <= 0 {
			*field = value
		}
	}
	return o
}

// Schema is a compiled schema. It is safe for concurrent use.
type Schema struct {
	doc     document
	options Options
	// programs has one element for each validation that may run at the same time: a program
	// that is not in use, or nil for one that was not compiled yet.
	programs chan *program
}

// Compile parses a schema, validates it against its meta-schema, and compiles it.
func Compile(raw []byte, o Options) (*Schema, error) {
	o = o.withDefaults()
	doc, err := readSchema(raw, o)
	if err != nil {
		return nil, fmt.Errorf("schema: compile: %w", err)
	}
	first, err := doc.compile()
	if err != nil {
		return nil, fmt.Errorf("schema: compile: %w", err)
	}
	s := &Schema{doc: doc, options: o, programs: make(chan *program, runtime.GOMAXPROCS(0))}
	s.programs <- first
	for len(s.programs) < cap(s.programs) {
		s.programs <- nil
	}
	return s, nil
}

// Dialect returns the dialect of the root, one of [Dialects].
func (s *Schema) Dialect() string { return s.doc.dialect }

// Validate parses one JSON value and validates it. The error is an [*InvalidError] if the value
// does not match; every other error means that the result is not known.
func (s *Schema) Validate(ctx context.Context, raw []byte) error {
	value, err := readValue(raw, s.options)
	if err != nil {
		return fmt.Errorf("schema: validate: %w", err)
	}
	p, err := s.take(ctx)
	if err != nil {
		return fmt.Errorf("schema: validate: %w", err)
	}
	defer func() { s.programs <- p }()
	if err := p.run(ctx, value, s.options); err != nil {
		return fmt.Errorf("schema: validate: %w", err)
	}
	return nil
}

// take waits for a program that is not in use.
func (s *Schema) take(ctx context.Context) (*program, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case p := <-s.programs:
		if p != nil {
			return p, nil
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	p, err := s.doc.compile()
	if err != nil {
		s.programs <- nil
	}
	return p, err
}
