package schema

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// address is the URL of a schema without $id. It is never fetched.
const address = "https://schema.invalid/"

// program is a compiled schema for one validation at a time.
type program struct {
	root  *jsonschema.Schema
	meter *meter
}

// refusingLoader is a loader that refuses every URL. The library calls it for references that
// leave the document.
type refusingLoader struct{}

var errOutside = errors.New("it leaves the document")

func (refusingLoader) Load(string) (any, error) { return nil, errOutside }

// compile validates the document against the meta-schema of its dialect, and compiles it.
func (d document) compile() (p *program, err error) {
	defer func() {
		if r := recover(); r != nil {
			p, err = nil, fmt.Errorf("%w: %v", ErrBroken, r)
		}
	}()
	m := &meter{}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(refusingLoader{})
	c.UseRegexpEngine(patterns(m))
	if err := c.AddResource(address, d.root); err != nil {
		return nil, d.refusal(err)
	}
	root, err := c.Compile(address)
	if err != nil {
		return nil, d.refusal(err)
	}
	all := reachable(append(d.anchored(c), root))
	if err := prepare(all, m); err != nil {
		return nil, err
	}
	return &program{root: root, meter: m}, nil
}

// anchored returns the schemas that a $dynamicRef may refer to; there may be no other reference
// to them.
func (d document) anchored(c *jsonschema.Compiler) (schemas []*jsonschema.Schema) {
	for _, pointer := range d.dynamic {
		s, err := c.Compile(address + (&url.URL{Fragment: pointer}).String())
		if err == nil { // otherwise it is data that looks like a schema
			schemas = append(schemas, s)
		}
	}
	return schemas
}

// prepare makes the checks that the library lacks, and makes the schemas count their work.
func prepare(all []*jsonschema.Schema, m *meter) error {
	tracking := false
	for _, s := range all {
		if s.DraftVersion != 2020 && s.DraftVersion != 2019 && s.DraftVersion != 7 {
			return unsupported(fmt.Sprintf("http://json-schema.org/draft-%02d/schema#", s.DraftVersion))
		}
		tracking = tracking || s.UnevaluatedProperties != nil || s.UnevaluatedItems != nil
	}
	// JSON Schema 2020-12 Core section 9.4.1: a schema MUST NOT be run into an infinite loop.
	if loop(all) {
		return fmt.Errorf("%w: %w", ErrSchema, ErrLoop)
	}
	for _, s := range all {
		s.Format = metered(m, costOf(s, tracking))
	}
	return nil
}

// run validates a value.
func (p *program) run(ctx context.Context, value any, o Options) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case stopped:
			err = r.err
		default:
			err = fmt.Errorf("%w: %v", ErrBroken, r)
		}
	}()
	*p.meter = meter{ctx: ctx, left: o.MaxSteps}
	p.meter.charge(entryCost(p.root))
	found := (*jsonschema.ValidationError)(nil)
	if errors.As(p.root.Validate(value), &found) {
		return invalid(found, o.MaxFaults)
	}
	return nil
}

// refusal converts the error with which the library refuses a document to one of this package.
func (d document) refusal(err error) error {
	var (
		outside *jsonschema.LoadURLError
		meta    *jsonschema.SchemaValidationError
		regex   *jsonschema.InvalidRegexError
		pointer *jsonschema.JSONPointerNotFoundError
		anchor  *jsonschema.AnchorNotFoundError
	)
	switch {
	case errors.As(err, &outside) && d.declares(outside.URL):
		return unsupported(outside.URL)
	case errors.As(err, &outside):
		return fmt.Errorf("%w: %w: %q: %w", ErrSchema, ErrReference, withoutAddress(outside.URL), errOutside)
	case errors.As(err, &meta):
		return fmt.Errorf("%w: %w", ErrSchema, metaFaults(meta))
	case errors.As(err, &regex):
		return fmt.Errorf("%w: %w", ErrSchema, regex.Err)
	case errors.As(err, &pointer):
		return fmt.Errorf("%w: %w: %q points to nothing", ErrSchema, ErrReference, withoutAddress(pointer.URL))
	case errors.As(err, &anchor):
		return fmt.Errorf("%w: %w: %q points to nothing", ErrSchema, ErrReference, withoutAddress(anchor.Reference))
	}
	return fmt.Errorf("%w: %s", ErrSchema, withoutAddress(err.Error()))
}

// withoutAddress returns a text of the library, shortened and without the address that this
// package added.
func withoutAddress(text string) string { return cut(strings.ReplaceAll(text, address, "")) }

// declares reports whether a $schema in the document names the dialect at a URL.
func (d document) declares(at string) bool {
	for named := range d.declared {
		if normalized(named) == normalized(at) {
			return true
		}
	}
	return false
}
