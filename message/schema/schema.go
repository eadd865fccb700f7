// Package schema is the gate for JSON Schema: it reads the schemas that tools, prompts and
// records carry, and holds values against them.
//
// A schema without $schema is of dialect 2020-12; $schema may name another one of
// [Dialects]. Every other dialect is an [*UnsupportedDialectError], which lists them. A
// schema is held against the meta-schema of its dialect before anything else is done
// with it.
//
// Both schemas and values come from strangers, so that more is refused:
//
//   - references that leave the document. Nothing is ever fetched, neither from the network
//     nor from a file; only the meta-schemas of the dialects are known without it;
//   - references that lead back to where they started without going into the value;
//   - patterns that Go's regexp does not have, such as lookaheads and back-references: what
//     is left takes linear time;
//   - what is too large, too deep or too much work. Work is counted while it is done, and
//     ends with the context: a schema of a few lines can ask for hours.
//
// Numbers are compared exactly, of whatever size. The keywords format, contentEncoding,
// contentMediaType and contentSchema say something about a value and refuse none, in all
// dialects.
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
	// ErrSchema says that a schema is not valid under its dialect, or cannot be used.
	ErrSchema = errors.New("not a valid schema")
	// ErrRoot says that the root of a schema is not an object with "type": "object", which
	// the parameters of a tool must have.
	ErrRoot = errors.New(`the root must be an object with "type": "object"`)
	// ErrReference says that a reference points to nothing in the document.
	ErrReference = errors.New("a reference that cannot be followed")
	// ErrLoop says that a reference leads back to itself without going into the value.
	ErrLoop = errors.New("a reference that leads back to itself")
	// ErrPattern says that a regular expression is wrong, too large, or uses what Go's
	// regexp does not have.
	ErrPattern = errors.New("a pattern that is not supported")
	// ErrNumber says that a number has too many digits or too large an exponent.
	ErrNumber = errors.New("a number out of bounds")
	// ErrTooMany says that a schema has more subschemas than Options.MaxSubschemas.
	ErrTooMany = errors.New("too many subschemas")
	// ErrTooMuch says that validation took more than Options.MaxSteps.
	ErrTooMuch = errors.New("too much work")
	// ErrBroken says that the library under this package gave up. That should not happen.
	ErrBroken = errors.New("the validator failed")
)

// Options bounds schemas and values. The zero value has safe bounds.
type Options struct {
	// ObjectRoot demands that the root of the schema is an object whose type is "object", as
	// the inputSchema of a tool.
	ObjectRoot bool

	MaxSchemaBytes int // 0 means 256 KiB
	MaxSchemaDepth int // nested arrays and objects in the schema; 0 means 64
	MaxSubschemas  int // objects and booleans in the schema; 0 means 2000

	MaxBytes int // of a value; 0 means 1 MiB
	MaxDepth int // nested arrays and objects in a value; 0 means 64
	// MaxSteps bounds the work of one validation; 0 means 100 000. One step is about one
	// schema applied to one value, and takes some microseconds at most.
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

// Schema is a compiled schema. It may be used by several goroutines at once.
type Schema struct {
	doc     document
	options Options
	// programs are what may run at the same time. One that was not needed yet is nil.
	programs chan *program
}

// Compile reads a schema, holds it against its meta-schema and makes it ready to validate.
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

// Validate reads one JSON value and holds it against the schema. An [*InvalidError] says
// that the value does not match; every other error that it could not be found out.
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

// take waits for a program that nobody runs.
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
