package schema_test

import (
	"errors"
	"strings"
	"testing"

	"gatehouse.example/message/schema"
)

// TestFaults has one row for each keyword, with location, keyword and reason.
func TestFaults(t *testing.T) {
	const old = `"$schema":"http://json-schema.org/draft-07/schema#",`
	for _, test := range []struct{ schema, value, want string }{
		{`{"type":["string","null"]}`, `{}`, `at "": type: it must be null or string, not object`},
		{`{"type":"integer"}`, `1.5`, `at "": type: it must be integer, not number`},
		{`{"enum":["secret",2]}`, `3`, `at "": enum: it must be one of 2 values`},
		{`{"const":"secret"}`, `3`, `at "": const: it must be the one value that is allowed`},
		{`{"required":["b","a","c"]}`, `{"c":1}`, `at "": required: it must have "a", "b"`},
		{`{"properties":{"a/b~c":{"items":{"minimum":1.25}}}}`, `{"a/b~c":[2,1]}`, `at "/a~1b~0c/1": minimum: it must be at least 1.25`},
		{`{"maximum":123456789012345678901}`, `123456789012345678902`, `at "": maximum: it must be at most 123456789012345678901`},
		{`{"exclusiveMinimum":0}`, `0`, `at "": exclusiveMinimum: it must be greater than 0`},
		{`{"exclusiveMaximum":0}`, `0`, `at "": exclusiveMaximum: it must be less than 0`},
		{`{"multipleOf":0.5}`, `0.7`, `at "": multipleOf: it must be a multiple of 0.5`},
		{`{"minLength":2}`, `"s"`, `at "": minLength: it has 1 characters, and must have at least 2`},
		{`{"maxLength":2}`, `"sss"`, `at "": maxLength: it has 3 characters, and may have at most 2`},
		{`{"pattern":"^a$"}`, `"secret"`, `at "": pattern: it must match "^a$"`},
		{`{"minItems":2}`, `[1]`, `at "": minItems: it has 1 elements, and must have at least 2`},
		{`{"maxItems":0}`, `[1]`, `at "": maxItems: it has 1 elements, and may have at most 0`},
		{`{"uniqueItems":true}`, `[1,2,1]`, `at "": uniqueItems: the elements 0 and 2 are equal`},
		{`{"minProperties":2}`, `{"a":1}`, `at "": minProperties: it has 1 members, and must have at least 2`},
		{`{"maxProperties":0}`, `{"a":1}`, `at "": maxProperties: it has 1 members, and may have at most 0`},
		{`{"additionalProperties":false}`, `{"b":1,"a":1}`, `at "": additionalProperties: it must not have "a", "b"`},
		{`{"propertyNames":{"maxLength":1}}`, `{"ab":1}`, `at "": propertyNames: "ab" is not a name that is allowed; at "": maxLength: it has 2 characters, and may have at most 1`},
		{`{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, `at "": dependentRequired: with "a" it must have "b"`},
		{`{"dependentSchemas":{"a":{"required":["b"]}}}`, `{"a":1}`, `at "": required: it must have "b"`},
		{`{` + old + `"dependencies":{"a":["b"]}}`, `{"a":1}`, `at "": dependencies: with "a" it must have "b"`},
		{`{` + old + `"items":[true],"additionalItems":false}`, `[1,2,3]`, `at "": additionalItems: it has 2 elements too many`},
		{`{"prefixItems":[true],"items":false}`, `[1,2]`, `at "/1": items: nothing is allowed here`},
		{`{"properties":{"a":false}}`, `{"a":1}`, `at "/a": false: nothing is allowed here`},
		{`{"unevaluatedProperties":false}`, `{"a":1}`, `at "/a": unevaluatedProperties: nothing is allowed here`},
		{`{"unevaluatedItems":false}`, `[1]`, `at "/0": unevaluatedItems: nothing is allowed here`},
		{`{"contains":{"const":1}}`, `[]`, `at "": contains: no element matches`},
		{`{"contains":true,"minContains":2}`, `[1]`, `at "": minContains: 1 elements match, and at least 2 must`},
		{`{"contains":true,"maxContains":1}`, `[1,2]`, `at "": maxContains: 2 elements match, and at most 1 may`},
		{`{"not":{}}`, `1`, `at "": not: it must not match`},
		{`{"allOf":[{"minimum":2},{"maximum":0}]}`, `1`, `at "": minimum: it must be at least 2; at "": maximum: it must be at most 0`},
		{`{"anyOf":[{"type":"string"},{"minimum":2}]}`, `1`,
			`at "": anyOf: it must match one of several schemas, and matches none; at "": type: it must be string, not number; at "": minimum: it must be at least 2`},
		{`{"oneOf":[{"type":"string"}]}`, `1`, `at "": oneOf: it must match one of several schemas, and matches none; at "": type: it must be string, not number`},
		{`{"oneOf":[true,false,true]}`, `1`, `at "": oneOf: it must match one schema only, and matches number 1 and number 3`},
		{`{"if":{"const":1},"then":{"type":"string"}}`, `1`, `at "": type: it must be string, not number`},
		{`{"$ref":"#/$defs/a","$defs":{"a":{"type":"string"}}}`, `1`, `at "": type: it must be string, not number`},
		{`{"items":{"$dynamicRef":"#a"},"$defs":{"a":{"$dynamicAnchor":"a","type":"string"}}}`, `[1]`, `at "/0": type: it must be string, not number`},
	} {
		err := compiled(t, test.schema).Validate(t.Context(), []byte(test.value))
		var invalid *schema.InvalidError
		if !errors.As(err, &invalid) {
			t.Errorf("%s, %s: %v", test.schema, test.value, err)
			continue
		}
		if invalid.Error() != test.want || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s, %s:\n got %s\nwant %s", test.schema, test.value, invalid, test.want)
		}
	}
}

// TestFaultsBounded: the list of faults is bounded and sorted, and untrusted text in it is
// shortened.
func TestFaultsBounded(t *testing.T) {
	s, err := schema.Compile([]byte(`{"items":{"type":"string"}}`), schema.Options{MaxFaults: 3})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Validate(t.Context(), []byte(`["",1,2,"",3,4,5]`))
	var invalid *schema.InvalidError
	if !errors.As(err, &invalid) || len(invalid.Faults) != 3 || invalid.More != 2 || !strings.HasSuffix(err.Error(), "; and 2 more") {
		t.Fatal(err)
	}
	for i, want := range []string{"/1", "/2", "/4"} {
		if f := invalid.Faults[i]; f.Location != want || f.Keyword != "type" {
			t.Errorf("%d: %+v", i, f)
		}
	}
	for range 5 {
		err = compiled(t, `{"additionalProperties":{"type":"string"}}`).Validate(t.Context(), []byte(`{"d":1,"b":1,"e":1,"a":1,"c":1}`))
		if !errors.As(err, &invalid) || len(invalid.Faults) != 5 || invalid.Faults[0].Location != "/a" || invalid.Faults[4].Location != "/e" {
			t.Fatal(err)
		}
	}
	name := "x" + strings.Repeat("ä", 1000)
	for _, text := range []string{`{"additionalProperties":false}`, `{"additionalProperties":{"type":"string"}}`, `{"propertyNames":false}`} {
		err = compiled(t, text).Validate(t.Context(), []byte(`{"`+name+`":1}`))
		if !errors.As(err, &invalid) || len(err.Error()) > 400 || !strings.Contains(err.Error(), "ää") || strings.Contains(err.Error(), `\x`) {
			t.Errorf("%s: %v", text, err)
		}
	}
	err = compiled(t, `{"additionalProperties":false}`).Validate(t.Context(), []byte(`{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1}`))
	if err == nil || !strings.HasSuffix(err.Error(), `it must not have "a", "b", "c", "d", "e", 2 more`) {
		t.Error(err)
	}
	err = compiled(t, `{"properties":{"a\n\u001b[1m":false}}`).Validate(t.Context(), []byte(`{"a\n\u001b[1m":1}`))
	if err == nil || strings.ContainsAny(err.Error(), "\n\x1b") {
		t.Errorf("%q", err)
	}
}
