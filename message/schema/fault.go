package schema

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Fault is one reason why a value does not match.
type Fault struct {
	// Location is a JSON pointer to the part that does not match, empty for the whole value.
	// Long names in it are shortened.
	Location string
	// Keyword is the keyword that is not satisfied, or "false" for the schema false.
	Keyword string
	// Reason is the requirement, for people. It contains names of members, but no values.
	Reason string
}

// String returns the fault as one sentence.
func (f Fault) String() string { return fmt.Sprintf("at %q: %s: %s", f.Location, f.Keyword, f.Reason) }

// InvalidError reports that a value does not match a schema, or a schema its meta-schema.
type InvalidError struct {
	// Faults are in the order of their locations.
	Faults []Fault
	// More is the number of faults that were left out.
	More int
}

// Error returns all faults in one line.
func (e *InvalidError) Error() string {
	sentences := make([]string, len(e.Faults), len(e.Faults)+1)
	for i, fault := range e.Faults {
		sentences[i] = fault.String()
	}
	if e.More > 0 {
		sentences = append(sentences, fmt.Sprintf("and %d more", e.More))
	}
	return strings.Join(sentences, "; ")
}

func invalid(root *jsonschema.ValidationError, most int) *InvalidError {
	leaves := collect(root, nil)
	slices.SortStableFunc(leaves, func(a, b *jsonschema.ValidationError) int {
		return cmp.Or(slices.Compare(a.InstanceLocation, b.InstanceLocation), cmp.Compare(a.SchemaURL, b.SchemaURL))
	})
	var e InvalidError
	for _, leaf := range leaves {
		if len(e.Faults) == most {
			e.More++
			continue
		}
		if fault := describe(leaf); !slices.Contains(e.Faults, fault) {
			e.Faults = append(e.Faults, fault)
		}
	}
	return &e
}

// metaFaults returns why a document is not a valid schema. For a pattern that is not supported it
// returns the error about that pattern.
func metaFaults(refused *jsonschema.SchemaValidationError) error {
	root := (*jsonschema.ValidationError)(nil)
	if !errors.As(refused.Err, &root) {
		return ErrBroken
	}
	for _, leaf := range collect(root, nil) {
		if format, ok := leaf.ErrorKind.(*kind.Format); ok && errors.Is(format.Err, ErrPattern) {
			return format.Err
		}
	}
	return invalid(root, new(Options).withDefaults().MaxFaults)
}

// collect appends e and its causes to leaves, without errors that only group others.
func collect(e *jsonschema.ValidationError, leaves []*jsonschema.ValidationError) []*jsonschema.ValidationError {
	switch e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
	default:
		leaves = append(leaves, e)
	}
	for _, cause := range e.Causes {
		leaves = collect(cause, leaves)
	}
	return leaves
}

func describe(e *jsonschema.ValidationError) Fault {
	f := Fault{Keyword: "false", Reason: "nothing is allowed here"}
	for _, token := range e.InstanceLocation {
		f.Location += "/" + escape(cut(token))
	}
	if path := e.ErrorKind.KeywordPath(); len(path) > 0 {
		f.Keyword, f.Reason = path[0], reason(e.ErrorKind)
	}
	switch k := e.ErrorKind.(type) {
	case *kind.FalseSchema:
		f.Keyword = falseKeyword(e.SchemaURL)
	case *kind.Not:
		f.Keyword, f.Reason = "not", "it must not match"
	case *kind.RefCycle:
		f.Keyword, f.Reason = "$ref", "the schema leads back to itself"
	case *kind.Dependency:
		f.Keyword = "dependencies"
	case *kind.ContentEncoding, *kind.InvalidJsonValue:
		f.Reason = fmt.Sprintf("it does not match (%T)", k)
	}
	return f
}

// falseKeyword returns the keyword whose schema is false.
func falseKeyword(location string) string {
	last := location[strings.LastIndexByte(location, '/')+1:]
	switch last {
	case "unevaluatedProperties", "unevaluatedItems", "items", "additionalItems", "contains", "additionalProperties":
		return last
	}
	return "false"
}

// reason returns the requirement of the keyword that is not satisfied.
func reason(k jsonschema.ErrorKind) string {
	for _, of := range []func(jsonschema.ErrorKind) string{ofValue, ofElements, ofMembers, ofSize, ofNumber} {
		if text := of(k); text != "" {
			return text
		}
	}
	return "it does not match"
}

// ofValue returns the reason for a keyword about a whole value, or "".
func ofValue(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return fmt.Sprintf("it must be %s, not %s", strings.Join(k.Want, " or "), k.Got)
	case *kind.Enum:
		return fmt.Sprintf("it must be one of %d values", len(k.Want))
	case *kind.Const:
		return "it must be the one value that is allowed"
	case *kind.AnyOf:
		return "it must match one of several schemas, and matches none"
	case *kind.OneOf:
		return oneOf(k)
	case *kind.Pattern:
		return fmt.Sprintf("it must match %q", cut(k.Want))
	case *kind.Format:
		return "it must be of format " + k.Want
	}
	return ""
}

// ofElements returns the reason for a keyword about the elements of an array, or "".
func ofElements(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.UniqueItems:
		return fmt.Sprintf("the elements %d and %d are equal", k.Duplicates[0], k.Duplicates[1])
	case *kind.Contains:
		return "no element matches"
	case *kind.MinContains:
		return fmt.Sprintf("%d elements match, and at least %d must", len(k.Got), k.Want)
	case *kind.MaxContains:
		return fmt.Sprintf("%d elements match, and at most %d may", len(k.Got), k.Want)
	case *kind.AdditionalItems:
		return fmt.Sprintf("it has %d elements too many", k.Count)
	}
	return ""
}

func oneOf(k *kind.OneOf) string {
	if len(k.Subschemas) < 2 {
		return "it must match one of several schemas, and matches none"
	}
	return fmt.Sprintf("it must match one schema only, and matches number %d and number %d", k.Subschemas[0]+1, k.Subschemas[1]+1)
}

// ofMembers returns the reason for a keyword about the members of an object, or "".
func ofMembers(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Required:
		return "it must have " + names(k.Missing)
	case *kind.Dependency:
		return fmt.Sprintf("with %s it must have %s", names([]string{k.Prop}), names(k.Missing))
	case *kind.DependentRequired:
		return fmt.Sprintf("with %s it must have %s", names([]string{k.Prop}), names(k.Missing))
	case *kind.AdditionalProperties:
		return "it must not have " + names(k.Properties)
	case *kind.PropertyNames:
		return fmt.Sprintf("%s is not a name that is allowed", names([]string{k.Property}))
	}
	return ""
}

// ofSize returns the reason for a keyword about a number of members, elements or characters, or
// "".
func ofSize(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.MinProperties:
		return fmt.Sprintf("it has %d members, and must have at least %d", k.Got, k.Want)
	case *kind.MaxProperties:
		return fmt.Sprintf("it has %d members, and may have at most %d", k.Got, k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("it has %d elements, and must have at least %d", k.Got, k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("it has %d elements, and may have at most %d", k.Got, k.Want)
	case *kind.MinLength:
		return fmt.Sprintf("it has %d characters, and must have at least %d", k.Got, k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("it has %d characters, and may have at most %d", k.Got, k.Want)
	}
	return ""
}

// ofNumber returns the reason for a keyword about a number, or "".
func ofNumber(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Minimum:
		return "it must be at least " + number(k.Want)
	case *kind.Maximum:
		return "it must be at most " + number(k.Want)
	case *kind.ExclusiveMinimum:
		return "it must be greater than " + number(k.Want)
	case *kind.ExclusiveMaximum:
		return "it must be less than " + number(k.Want)
	case *kind.MultipleOf:
		return "it must be a multiple of " + number(k.Want)
	}
	return ""
}

// number formats a number of a schema with all its digits, unless there are many.
func number(n *big.Rat) string {
	if n.IsInt() {
		return cut(n.Num().String())
	}
	digits, exact := n.FloatPrec()
	if !exact || digits > maxName {
		return n.FloatString(12)
	}
	return cut(n.FloatString(digits))
}

// maxNames bounds the names in a reason, and maxName the length of each in bytes.
const (
	maxNames = 5
	maxName  = 96
)

func names(all []string) string {
	sorted := slices.Sorted(slices.Values(all))
	quoted := make([]string, 0, maxNames+1)
	for i, name := range sorted {
		if i == maxNames {
			quoted = append(quoted, fmt.Sprintf("%d more", len(sorted)-i))
			break
		}
		quoted = append(quoted, fmt.Sprintf("%q", cut(name)))
	}
	return strings.Join(quoted, ", ")
}

// cut shortens untrusted text to maxName bytes.
func cut(text string) string {
	if len(text) <= maxName {
		return text
	}
	end := maxName
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}
