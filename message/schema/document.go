package schema

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"gatehouse.example/internal/strictjson"
)

// document is a parsed schema within its limits.
type document struct {
	root    any
	dialect string
	// dynamic are JSON pointers to the schemas that a $dynamicRef may refer to.
	dynamic []string
	// declared are the values of $schema anywhere in the document.
	declared map[string]bool
	// huge is a keyword that limits a count and whose number exceeds every count.
	huge string
	// foreign is the dialect of a resource inside the document, if it is not supported. The
	// library does not notice a dialect with another keyword for identifiers, as draft-04 has.
	foreign string
}

func readSchema(raw []byte, o Options) (document, error) {
	root, err := read(raw, o.MaxSchemaBytes, o.MaxSchemaDepth)
	if err != nil {
		return document{}, err
	}
	doc := document{root: root, declared: map[string]bool{}}
	if doc.dialect, err = dialectOf(root); err != nil {
		return document{}, err
	}
	if o.ObjectRoot {
		if object, _ := root.(map[string]any); object["type"] != "object" {
			return document{}, fmt.Errorf("%w: %w", ErrSchema, ErrRoot)
		}
	}
	if n := doc.survey(root, ""); n > o.MaxSubschemas {
		return document{}, fmt.Errorf("%w: more than %d", ErrTooMany, o.MaxSubschemas)
	}
	if doc.foreign != "" {
		return document{}, unsupported(doc.foreign)
	}
	if doc.huge != "" {
		return document{}, fmt.Errorf("%w: %s is larger than any value", ErrNumber, doc.huge)
	}
	return doc, nil
}

// survey counts the values that could be subschemas, and records the fields of d.
func (d *document) survey(v any, at string) (n int) {
	switch v := v.(type) {
	case bool:
		return 1
	case []any:
		for i, element := range v {
			n += d.survey(element, at+"/"+strconv.Itoa(i))
		}
	case map[string]any:
		n = 1
		d.declaration(v)
		if _, ok := v["$dynamicAnchor"].(string); ok {
			d.dynamic = append(d.dynamic, at)
		}
		for name, member := range v {
			if exceedsInt64(name, member) {
				d.huge = name
			}
			n += d.survey(member, at+"/"+escape(name))
		}
	}
	return n
}

// declaration records the dialect of an object that can be a schema.
func (d *document) declaration(object map[string]any) {
	named, ok := object["$schema"].(string)
	if !ok {
		return
	}
	d.declared[named] = true
	_, err := dialectOf(object)
	if _, resource := object["$id"].(string); resource && err != nil {
		d.foreign = named
	}
}

// exceedsInt64 reports whether the limit on a count does not fit in 64 bits; the library would
// truncate it to another number.
func exceedsInt64(keyword string, v any) bool {
	switch keyword {
	case "minLength", "maxLength", "minItems", "maxItems", "minContains", "maxContains", "minProperties", "maxProperties":
		n, ok := v.(json.Number)
		exact, isNumber := new(big.Rat).SetString(string(n))
		return ok && isNumber && exact.IsInt() && !exact.Num().IsInt64()
	}
	return false
}

// escape returns a member name as a token of a JSON pointer.
func escape(name string) string {
	// RFC 6901 section 3.
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

func readValue(raw []byte, o Options) (any, error) {
	return read(raw, o.MaxBytes, o.MaxDepth)
}

func read(raw []byte, maxBytes, maxDepth int) (any, error) {
	var v any
	if err := strictjson.Unmarshal(raw, &v, strictjson.Options{MaxBytes: maxBytes, MaxDepth: maxDepth}); err != nil {
		return nil, err
	}
	return v, checkNumbers(v)
}

// checkNumbers refuses numbers with few bytes that are expensive to compute with.
func checkNumbers(v any) error {
	switch v := v.(type) {
	case json.Number:
		return checkNumber(string(v))
	case []any:
		for _, element := range v {
			if err := checkNumbers(element); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, member := range v {
			if err := checkNumbers(member); err != nil {
				return err
			}
		}
	}
	return nil
}

const (
	maxDigits   = 512
	maxExponent = 512
)

func checkNumber(n string) error {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(n), "e")
	if len(mantissa) > maxDigits {
		return fmt.Errorf("%w: more than %d digits", ErrNumber, maxDigits)
	}
	if exponent == "" {
		return nil
	}
	if e, err := strconv.Atoi(exponent); err != nil || e > maxExponent || e < -maxExponent {
		return fmt.Errorf("%w: an exponent beyond %d", ErrNumber, maxExponent)
	}
	return nil
}
