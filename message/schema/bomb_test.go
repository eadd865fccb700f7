package schema_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"gatehouse.example/message/schema"
)

// doubling is a schema of n definitions, each of which applies the next one twice.
func doubling(n int, keyword, last string) string {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/d0","$defs":{`)
	for i := range n {
		fmt.Fprintf(&b, `"d%d":{"%s":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, keyword, i+1, i+1)
	}
	fmt.Fprintf(&b, `"d%d":%s}}`, n, last)
	return b.String()
}

// nested is a value of n objects, one inside the other.
func nested(n int) string {
	return strings.Repeat(`{"a":`, n) + `1` + strings.Repeat(`}`, n)
}

// TestBombs validates small values with small schemas that would take years.
func TestBombs(t *testing.T) {
	const old = `{"$schema":"http://json-schema.org/draft-07/schema#","allOf":[{"$ref":"#/definitions/x"}],"definitions":{
		"x":{"$ref":"#/definitions/y"},
		"y":{"properties":{"a":{"anyOf":[{"$ref":"#/definitions/y"},{"$ref":"#/definitions/x"}]}},"required":["b"]}}}`
	const twice = `[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}}}]`
	const override = `{"$id":"https://example.com/main","$ref":"base","$defs":{
		"base":{"$id":"base","properties":{"a":{"$dynamicRef":"#x"}},"$defs":{"d":{"$dynamicAnchor":"x"}}},
		"heavy":{"$dynamicAnchor":"x","oneOf":[{"properties":{"a":{"$ref":"#/$defs/heavy"}}},{"properties":{"a":{"$ref":"#/$defs/heavy"}}}]}}}`
	for name, test := range map[string]struct{ schema, value string }{
		"reached dynamically only": {override, nested(60)},
		"allOf, valid":             {doubling(60, "allOf", `true`), `1`},
		"allOf, invalid":           {doubling(60, "allOf", `false`), `1`},
		"anyOf, invalid":           {doubling(60, "anyOf", `{"type":"string"}`), `1`},
		"oneOf, invalid":           {doubling(60, "oneOf", `{"const":2}`), `1`},
		"inside not":               {strings.Replace(doubling(60, "anyOf", `{"type":"string"}`), `"$ref":"#/$defs/d0"`, `"not":{"$ref":"#/$defs/d0"}`, 1), `1`},
		"draft-07":                 {old, nested(60)},
		"twice at each level":      {`{"allOf":` + twice + `}`, nested(60)},
		"twice, and wrong below":   {`{"type":"object","oneOf":` + twice + `}`, nested(60)},
		"unevaluated at each":      {`{"allOf":` + twice + `,"unevaluatedProperties":false}`, nested(60)},
		"a large enum, many times": {`{"items":{"enum":[` + strings.Repeat(`[1,[2,[3]]],`, 5000) + `0]}}`, `[` + strings.Repeat(`1,`, 20000) + `1]`},
		"many patterns":            {`{"items":{"pattern":"(a?){900}$"}}`, `["` + strings.Repeat("a", 500_000) + `"]`},
		"unique, all alike":        {`{"uniqueItems":true}`, `[` + alike(13) + `]`},
		"many subschemas":          {`{"items":{"allOf":[` + strings.Repeat(`{"minimum":0},`, 900) + `true]}}`, `[` + strings.Repeat(`1,`, 20000) + `1]`},
		"dynamic":                  {`{"$dynamicAnchor":"a","allOf":[{"properties":{"a":{"$dynamicRef":"#a"}}},{"properties":{"a":{"$dynamicRef":"#a"}}}]}`, nested(60)},
	} {
		t.Run(name, func(t *testing.T) {
			s := compiled(t, test.schema)
			if err := s.Validate(t.Context(), []byte(test.value)); !errors.Is(err, schema.ErrTooMuch) {
				t.Errorf("%.300v, want %v", err, schema.ErrTooMuch)
			}
		})
	}
}

// alike returns 2^n different arrays whose strings are equal when concatenated with a separator.
func alike(n int) string {
	var elements []string
	for i := range 1 << n {
		element := `"x`
		for bit := range n {
			if i>>bit&1 == 1 {
				element += `","x`
			} else {
				element += `\u0004x`
			}
		}
		elements = append(elements, "["+element+`"]`)
	}
	return strings.Join(elements, ",")
}

// TestSteps: a schema without subschemas costs steps too.
func TestSteps(t *testing.T) {
	s, err := schema.Compile([]byte(`{"enum":[`+listed(1000, `"n%d",`)+`"n"]}`), schema.Options{MaxSteps: 100})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(t.Context(), []byte(`"n"`)); !errors.Is(err, schema.ErrTooMuch) {
		t.Error(err)
	}
}

// TestBombStops: work ends soon after the context.
func TestBombStops(t *testing.T) {
	s, err := schema.Compile([]byte(doubling(60, "allOf", `false`)), schema.Options{MaxSteps: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	// The context ends when it is looked at for the third time, so that it ends in the middle.
	ctx := &endsLater{Context: t.Context(), looks: 3}
	if err := s.Validate(ctx, []byte(`1`)); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if ctx.looks != 0 {
		t.Errorf("%d looks are left", ctx.looks)
	}
}

type endsLater struct {
	context.Context
	looks int
}

func (c *endsLater) Err() error {
	if c.looks--; c.looks > 0 {
		return nil
	}
	return context.DeadlineExceeded
}

// TestNoBombs: large but ordinary schemas and values are within the default limits.
func TestNoBombs(t *testing.T) {
	for name, test := range map[string]struct{ schema, value string }{
		"many rows":  {`{"items":{"type":"object","properties":{"country":{"enum":[` + strings.Repeat(`"aa",`, 249) + `"de"]},"n":{"type":"integer","minimum":0}},"required":["n"]}}`, `[` + strings.Repeat(`{"country":"de","n":1},`, 999) + `{"n":2}]`},
		"a tree":     {`{"$defs":{"t":{"type":"object","properties":{"a":{"$ref":"#/$defs/t"}},"additionalProperties":false}},"oneOf":[{"$ref":"#/$defs/t"},{"type":"number"}],"anyOf":[true]}`, strings.Replace(nested(50), "1", "{}", 1)},
		"words":      {`{"items":{"pattern":"^\\p{L}{1,200}$"}}`, `[` + strings.Repeat(`"Wörter",`, 1000) + `"Ende"]`},
		"a text":     {`{"type":"string","pattern":"^[^<>]*$","maxLength":1000000}`, `"` + strings.Repeat("a", 900_000) + `"`},
		"names":      {`{"items":{"type":"string"},"uniqueItems":true}`, `[` + listed(5000, `"n%d",`) + `"n"]`},
		"the number": {`{"type":"array","items":{"type":"number"}}`, `[` + strings.Repeat(`1.25,`, 20000) + `1]`},
	} {
		if err := compiled(t, test.schema).Validate(t.Context(), []byte(test.value)); err != nil {
			t.Errorf("%s: %.300v", name, err)
		}
	}
}

// TestCompileLarge compiles the largest schemas within the limits.
func TestCompileLarge(t *testing.T) {
	many := listed(1800, `"p%d":{"type":"string"},`)
	named := listed(1800, `"p%[1]d":{"$id":"https://example.com/%[1]d","$anchor":"a"},`)
	referred, places := listed(950, `"p%[1]d":{"$ref":"#/x-%[1]d"},`), listed(950, `"x-%d":{},`)
	for name, raw := range map[string]string{
		"properties":                `{"properties":{` + many + `"a":{}}}`,
		"places that are no schema": `{"properties":{` + referred + `"a":{}},` + places + `"y":{}}`,
		"resources":                 `{"$defs":{` + named + `"a":{}}}`,
		"depth":                     strings.Repeat(`{"not":`, 63) + `{}` + strings.Repeat(`}`, 63),
		"an enum":                   `{"enum":[` + strings.Repeat(`"abcdefgh",`, 20000) + `1]}`,
		"names":                     `{"required":[` + listed(15000, `"n%d",`) + `"n"]}`,
	} {
		if _, err := schema.Compile([]byte(raw), schema.Options{}); err != nil {
			t.Errorf("%s: %.300v", name, err)
		}
	}
}

// listed writes a format for each of the first n numbers.
func listed(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}
