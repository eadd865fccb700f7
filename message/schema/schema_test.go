package schema_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"gatehouse.example/internal/strictjson"
	"gatehouse.example/message/schema"
)

func compiled(t testing.TB, raw string) *schema.Schema {
	t.Helper()
	s, err := schema.Compile([]byte(raw), schema.Options{})
	if err != nil {
		t.Fatalf("%.300s: %v", raw, err)
	}
	return s
}

// TestDialect checks the dialect of a schema that has another meaning in each dialect.
func TestDialect(t *testing.T) {
	// items with an array is a tuple up to 2019-09 and refused since; prefixItems is a tuple
	// since 2020-12 and means nothing before; dependentRequired is from 2019-09.
	for name, test := range map[string]struct {
		schema, dialect string
		valid, invalid  []string
	}{
		"no $schema": {
			`{"prefixItems":[{"type":"string"}],"dependentRequired":{"a":["b"]}}`, schema.DefaultDialect,
			[]string{`["x",1]`, `{"a":1,"b":1}`}, []string{`[1]`, `{"a":1}`},
		},
		"a boolean": {`false`, schema.DefaultDialect, nil, []string{`1`}},
		"2020-12": {
			`{"$schema":"https://json-schema.org/draft/2020-12/schema","prefixItems":[{"type":"string"}],"items":false}`,
			schema.DefaultDialect, []string{`["x"]`}, []string{`[1]`, `["x",1]`},
		},
		"2020-12, with an empty fragment": {
			`{"$schema":"https://json-schema.org/draft/2020-12/schema#","prefixItems":[false]}`,
			schema.DefaultDialect, []string{`[]`}, []string{`[1]`},
		},
		"2019-09": {
			`{"$schema":"https://json-schema.org/draft/2019-09/schema","items":[{"type":"string"}],"prefixItems":[false],"dependentRequired":{"a":["b"]}}`,
			"https://json-schema.org/draft/2019-09/schema", []string{`["x",1]`, `{"a":1,"b":1}`}, []string{`[1]`, `{"a":1}`},
		},
		"2019-09, $recursiveRef": {
			`{"$schema":"https://json-schema.org/draft/2019-09/schema","$id":"https://example.com/strict","$recursiveAnchor":true,"$ref":"tree",
			"unevaluatedProperties":false,"$defs":{"tree":{"$id":"tree","$recursiveAnchor":true,"properties":{"next":{"$recursiveRef":"#"}}}}}`,
			"https://json-schema.org/draft/2019-09/schema", []string{`{"next":{"next":{}}}`}, []string{`{"next":{"other":1}}`, `{"other":1}`},
		},
		"draft-07": {
			`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"}],"dependentRequired":{"a":["b"]},"dependencies":{"c":["d"]}}`,
			"http://json-schema.org/draft-07/schema#", []string{`["x",1]`, `{"a":1}`, `{"c":1,"d":1}`}, []string{`[1]`, `{"c":1}`},
		},
		"draft-07, beside $ref": {
			`{"$schema":"https://json-schema.org/draft-07/schema","definitions":{"n":{"type":"number"}},"properties":{"a":{"$ref":"#/definitions/n","maximum":1}}}`,
			"http://json-schema.org/draft-07/schema#", []string{`{"a":2}`}, []string{`{"a":""}`},
		},
		"beside $ref": {
			`{"$defs":{"n":{"type":"number"}},"properties":{"a":{"$ref":"#/$defs/n","maximum":1}}}`,
			schema.DefaultDialect, []string{`{"a":1}`}, []string{`{"a":2}`, `{"a":""}`},
		},
		"another dialect inside": {
			`{"properties":{"a":{"$id":"https://example.com/old","$schema":"http://json-schema.org/draft-07/schema#","items":[false]}}}`,
			schema.DefaultDialect, []string{`{"a":[]}`}, []string{`{"a":[1]}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := compiled(t, test.schema)
			if s.Dialect() != test.dialect || !slices.Contains(schema.Dialects(), test.dialect) {
				t.Errorf("it is read as %s", s.Dialect())
			}
			for _, value := range test.valid {
				if err := s.Validate(t.Context(), []byte(value)); err != nil {
					t.Errorf("%s: %v", value, err)
				}
			}
			for _, value := range test.invalid {
				var invalid *schema.InvalidError
				if err := s.Validate(t.Context(), []byte(value)); !errors.As(err, &invalid) {
					t.Errorf("%s: %v, want it invalid", value, err)
				}
			}
		})
	}
}

func TestDialectUnsupported(t *testing.T) {
	for _, test := range [][2]string{
		{`{"$schema":"http://json-schema.org/draft-04/schema#"}`, "http://json-schema.org/draft-04/schema#"},
		{`{"$schema":"http://json-schema.org/draft-06/schema#"}`, "http://json-schema.org/draft-06/schema#"},
		{`{"$schema":"http://json-schema.org/schema#"}`, "http://json-schema.org/schema#"},
		{`{"$schema":"https://json-schema.org/draft/next/schema"}`, "https://json-schema.org/draft/next/schema"},
		{`{"$schema":"https://example.com/dialect","$vocabulary":{}}`, "https://example.com/dialect"},
		{`{"$schema":"JSON Schema 2020-12"}`, "JSON Schema 2020-12"},
		{`{"$schema":"file:///etc/passwd"}`, "file:///etc/passwd"},
		{`{"$schema":""}`, ""},
		{`{"properties":{"a":{"$id":"https://example.com/a","$schema":"https://example.com/dialect"}}}`, "https://example.com/dialect"},
		{`{"properties":{"a":{"$id":"https://example.com/a","$schema":"http://json-schema.org/draft-04/schema#"}}}`, "http://json-schema.org/draft-04/schema#"},
		{`{"properties":{"a":{"id":"https://example.com/a","$schema":"http://json-schema.org/draft-04/schema#"}}}`, "http://json-schema.org/draft-04/schema#"},
		{`{"properties":{"a":{"$schema":"https://example.com/dialect"}}}`, "https://example.com/dialect"},
		{`{"$ref":"http://json-schema.org/draft-06/schema"}`, "http://json-schema.org/draft-06/schema#"},
	} {
		_, err := schema.Compile([]byte(test[0]), schema.Options{})
		var unsupported *schema.UnsupportedDialectError
		if !errors.As(err, &unsupported) || unsupported.Dialect != test[1] || !slices.Equal(unsupported.Supported, schema.Dialects()) {
			t.Errorf("%s: %v", test[0], err)
			continue
		}
		for _, want := range append(schema.Dialects(), "unsupported dialect") {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not say %q", test[0], err, want)
			}
		}
	}
}

func TestDialects(t *testing.T) {
	schema.Dialects()[0] = "changed"
	if got := schema.Dialects(); got[0] != schema.DefaultDialect || len(got) != 3 {
		t.Errorf("%q", got)
	}
}

// TestCompileRefused checks the errors for invalid schemas of supported dialects.
func TestCompileRefused(t *testing.T) {
	readable := filepath.ToSlash(filepath.Join(t.TempDir(), "true.json")) // a schema, if anybody read it
	if err := os.WriteFile(readable, []byte(`true`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		schema string
		want   error
		text   string
	}{
		"no JSON":               {`{`, strictjson.ErrSyntax, ""},
		"a duplicate member":    {`{"type":"object","type":"array"}`, strictjson.ErrDuplicate, "type"},
		"neither":               {`"object"`, schema.ErrSchema, `at "": type: it must be boolean or object, not string`},
		"$schema, not a string": {`{"$schema":1}`, schema.ErrSchema, `at "/$schema": type`},
		"an unknown type":       {`{"properties":{"a":{"type":"int"}}}`, schema.ErrSchema, `at "/properties/a/type"`},
		"a negative count":      {`{"minLength":-1}`, schema.ErrSchema, `at "/minLength": minimum: it must be at least 0`},
		"a tuple of old":        {`{"items":[{}]}`, schema.ErrSchema, `at "/items": type: it must be boolean or object, not array`},
		"inside another dialect": {
			`{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"a":{"exclusiveMinimum":true}}}`,
			schema.ErrSchema, `at "/definitions/a/exclusiveMinimum": type: it must be number, not boolean`,
		},
		"behind a reference":           {`{"$ref":"#/x","x":{"type":1}}`, schema.ErrSchema, `"/type"`},
		"a reference over the network": {`{"$ref":"https://example.com/a.json"}`, schema.ErrReference, "leaves the document"},
		"a reference to a file":        {`{"$ref":"file:///etc/passwd"}`, schema.ErrReference, "leaves the document"},
		"a reference to a schema":      {`{"$ref":"file://` + readable + `"}`, schema.ErrReference, "leaves the document"},
		"a reference to a neighbour":   {`{"$ref":"other.json"}`, schema.ErrReference, `"other.json": it leaves the document`},
		"a reference by name":          {`{"$ref":"urn:example:a"}`, schema.ErrReference, "leaves the document"},
		"a dynamic reference outside":  {`{"$dynamicRef":"https://example.com/a#b"}`, schema.ErrReference, "leaves the document"},
		"a recursive reference outside": {
			`{"$schema":"https://json-schema.org/draft/2019-09/schema","$ref":"https://example.com/b"}`, schema.ErrReference, "leaves the document",
		},
		"a reference to nothing":  {`{"$ref":"#/$defs/a"}`, schema.ErrReference, `"#/$defs/a" points to nothing`},
		"an anchor of nothing":    {`{"$ref":"#a"}`, schema.ErrReference, "points to nothing"},
		"a reference to itself":   {`{"$ref":"#"}`, schema.ErrLoop, ""},
		"references in a ring":    {`{"$ref":"#/$defs/a","$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"}]},"b":{"not":{"$ref":"#/$defs/a"}}}}`, schema.ErrLoop, ""},
		"a ring that is not used": {`{"properties":{"x":{"anyOf":[true,{"$ref":"#/properties/x"}]}}}`, schema.ErrLoop, ""},
		"a ring in draft-07":      {`{"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"a":{"$ref":"#"}}}`, schema.ErrLoop, ""},
		"a dynamic ring": {
			`{"$id":"https://example.com/m","$dynamicAnchor":"x","$ref":"b","$defs":{"b":{"$id":"b","$dynamicRef":"#x","$defs":{"d":{"$dynamicAnchor":"x"}}}}}`,
			schema.ErrLoop, "",
		},
		"a recursive ring": {
			`{"$schema":"https://json-schema.org/draft/2019-09/schema","$id":"https://example.com/m","$recursiveAnchor":true,"$ref":"b#inner",
			"$defs":{"b":{"$id":"b","$recursiveAnchor":true,"$defs":{"inner":{"$anchor":"inner","$recursiveRef":"#"}}}}}`,
			schema.ErrLoop, "",
		},
		"a lookahead":                  {`{"pattern":"^(?!a)"}`, schema.ErrPattern, "RE2"},
		"a back-reference":             {`{"patternProperties":{"(a)\\1":true}}`, schema.ErrPattern, "RE2"},
		"a lookahead in draft-07":      {`{"$schema":"http://json-schema.org/draft-07/schema#","pattern":"^(?=a)"}`, schema.ErrPattern, "RE2"},
		"not a pattern":                {`{"pattern":"("}`, schema.ErrPattern, "missing closing"},
		"a pattern that grows":         {`{"pattern":"(abcdefghij){900}"}`, schema.ErrPattern, "repeats too much"},
		"a pattern that grows more":    {`{"pattern":"((a{100}){100}){10}"}`, schema.ErrPattern, ""},
		"a long pattern":               {`{"pattern":"` + strings.Repeat("a", 5000) + `"}`, schema.ErrPattern, "bytes"},
		"a count beyond all":           {`{"maxLength":18446744073709551616}`, schema.ErrNumber, "maxLength"},
		"an exponent beyond all":       {`{"maximum":1e100000}`, schema.ErrNumber, "exponent"},
		"an exponent that is no count": {`{"maximum":1e99999999999999999999}`, schema.ErrNumber, "exponent"},
		"many digits":                  {`{"minimum":` + strings.Repeat("1", 600) + `}`, schema.ErrNumber, "digits"},
		"two of one $id":               {`{"$defs":{"a":{"$id":"https://example.com/a"},"b":{"$id":"https://example.com/a"}}}`, schema.ErrSchema, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := schema.Compile([]byte(test.schema), schema.Options{})
			if s != nil || !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) || !strings.HasPrefix(err.Error(), "schema: compile: ") {
				t.Errorf("%v, want %v and %q", err, test.want, test.text)
			}
			if errors.Is(err, schema.ErrBroken) || strings.Contains(err.Error(), "schema.invalid") {
				t.Error(err)
			}
		})
	}
}

// TestDataWithAnchors: data that looks like the schema of a dynamic anchor is data, however wrong it would
// be as a schema.
func TestDataWithAnchors(t *testing.T) {
	for _, keyword := range []string{"const", "default", "x"} {
		raw := `{"properties":{"a":{"` + keyword + `":{"$dynamicAnchor":"n","type":1}},"b":{"$dynamicRef":"#n"}},"$defs":{"n":{"$dynamicAnchor":"n","type":"string"}}}`
		s, err := schema.Compile([]byte(raw), schema.Options{})
		if err != nil {
			t.Errorf("%s: %v", keyword, err)
			continue
		}
		for value, valid := range map[string]bool{`{"b":"x"}`: true, `{"b":1}`: false} {
			if err := s.Validate(t.Context(), []byte(value)); valid != (err == nil) {
				t.Errorf("%s: %s: %v", keyword, value, err)
			}
		}
	}
}

func TestCompileRoot(t *testing.T) {
	for raw, ok := range map[string]bool{
		`{"type":"object"}`:                       true,
		`{"type":"object","properties":{"a":{}}}`: true,
		`{}`:                  false,
		`true`:                false,
		`null`:                false,
		`{"type":["object"]}`: false,
		`{"type":"string"}`:   false,
		`{"$ref":"#/$defs/a","$defs":{"a":{"type":"object"}}}`: false,
	} {
		_, err := schema.Compile([]byte(raw), schema.Options{ObjectRoot: true})
		if ok != (err == nil) || !ok && (!errors.Is(err, schema.ErrRoot) || !errors.Is(err, schema.ErrSchema)) {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func TestCompileBounds(t *testing.T) {
	deep := strings.Repeat(`{"not":`, 40) + `true` + strings.Repeat(`}`, 40)
	wide := `{"anyOf":[` + strings.Repeat(`{},`, 40) + `true]}`
	for name, test := range map[string]struct {
		schema string
		o      schema.Options
		want   error
	}{
		"bytes":      {wide, schema.Options{MaxSchemaBytes: 100}, strictjson.ErrTooLarge},
		"depth":      {deep, schema.Options{MaxSchemaDepth: 40 - 1}, strictjson.ErrTooDeep},
		"subschemas": {wide, schema.Options{MaxSubschemas: 41}, schema.ErrTooMany},
	} {
		if _, err := schema.Compile([]byte(test.schema), test.o); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := schema.Compile([]byte(test.schema), schema.Options{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestValidateExact: no digit of a number is lost, in schemas and in values.
func TestValidateExact(t *testing.T) {
	for _, test := range []struct {
		schema, value string
		valid         bool
	}{
		{`{"type":"integer"}`, `9007199254740993`, true},
		{`{"type":"integer"}`, `1.0`, true},
		{`{"type":"integer"}`, `1e2`, true},
		{`{"type":"integer"}`, `1.5`, false},
		{`{"type":"integer"}`, `9007199254740993.5`, false},
		{`{"type":"integer"}`, `123456789012345678901234567890.0000001`, false},
		{`{"const":9007199254740993}`, `9007199254740993`, true},
		{`{"const":9007199254740993}`, `9007199254740992`, false},
		{`{"const":1}`, `1.0`, true},
		{`{"enum":[1e2]}`, `100`, true},
		{`{"const":1}`, `true`, false},
		{`{"const":0}`, `false`, false},
		{`{"maximum":9223372036854775807}`, `9223372036854775808`, false},
		{`{"exclusiveMaximum":1e400}`, `9.9e399`, true},
		{`{"exclusiveMaximum":1e400}`, `1e400`, false},
		{`{"multipleOf":0.01}`, `19.99`, true},
		{`{"multipleOf":0.1}`, `0.35`, false},
		{`{"multipleOf":1e-300}`, `1e300`, true},
		{`{"uniqueItems":true}`, `[1,1.0]`, false},
		{`{"uniqueItems":true}`, `[9007199254740993,9007199254740992]`, true},
		{`{"minLength":2}`, `"💩"`, false}, // one character
		{`{"minItems":2.0}`, `[1]`, false},
	} {
		err := compiled(t, test.schema).Validate(t.Context(), []byte(test.value))
		var invalid *schema.InvalidError
		if test.valid != (err == nil) || !test.valid && !errors.As(err, &invalid) {
			t.Errorf("%s, %s: %v, want valid %t", test.schema, test.value, err, test.valid)
		}
	}
}

// TestValidateAnnotations: annotations refuse no value.
func TestValidateAnnotations(t *testing.T) {
	for _, dialect := range schema.Dialects() {
		s := compiled(t, `{"$schema":"`+dialect+`","format":"date-time","contentEncoding":"base64","contentMediaType":"application/json","x-unknown":1,
			"$comment":"","default":1,"examples":[1],"title":"","description":"","readOnly":true}`)
		if err := s.Validate(t.Context(), []byte(`"not a date"`)); err != nil {
			t.Errorf("%s: %v", dialect, err)
		}
	}
}

// TestValidateMeta: schemas can refer to the meta-schemas, without any fetch.
func TestValidateMeta(t *testing.T) {
	for _, dialect := range schema.Dialects() {
		s := compiled(t, `{"properties":{"inputSchema":{"$ref":"`+dialect+`"}}}`)
		if err := s.Validate(t.Context(), []byte(`{"inputSchema":{"properties":{"a":{"type":"string"}}}}`)); err != nil {
			t.Errorf("%s: %v", dialect, err)
		}
		if err := s.Validate(t.Context(), []byte(`{"inputSchema":{"properties":{"a":{"type":"text"}}}}`)); err == nil {
			t.Errorf("%s: the meta-schema does not look inside", dialect)
		}
	}
}

func TestValidateRefused(t *testing.T) {
	s, err := schema.Compile([]byte(`{"items":{"items":true}}`), schema.Options{MaxBytes: 20, MaxDepth: 3})
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]error{
		``:                                  strictjson.ErrSyntax,
		`[1] [2]`:                           strictjson.ErrSyntax,
		`{"a":1,"a":2}`:                     strictjson.ErrDuplicate,
		"\"\xff\"":                          strictjson.ErrText,
		`[[[[]]]]`:                          strictjson.ErrTooDeep,
		`"` + strings.Repeat("a", 20) + `"`: strictjson.ErrTooLarge,
		`[1e600]`:                           schema.ErrNumber,
		`{"a":-1e-600}`:                     schema.ErrNumber,
	} {
		err := s.Validate(t.Context(), []byte(value))
		var invalid *schema.InvalidError
		if !errors.Is(err, want) || errors.As(err, &invalid) || !strings.HasPrefix(err.Error(), "schema: validate: ") {
			t.Errorf("%s: %v, want %v", value, err, want)
		}
	}
}

func TestValidateContext(t *testing.T) {
	s := compiled(t, `true`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Validate(ctx, []byte(`1`)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := s.Validate(t.Context(), []byte(`1`)); err != nil {
		t.Error(err)
	}
}

// TestValidateCompilesOnce: a program is used again, also after it was stopped.
func TestValidateCompilesOnce(t *testing.T) {
	s := compiled(t, toolSchema)
	validate := func() {
		if err := s.Validate(t.Context(), []byte(toolValue)); err != nil {
			t.Error(err)
		}
	}
	for range 100 { // all that may run at the same time
		validate()
	}
	if n := testing.AllocsPerRun(100, validate); n > 200 {
		t.Errorf("%v allocations", n)
	}
}

// TestValidateTogether: many goroutines use one schema, and some are stopped.
func TestValidateTogether(t *testing.T) {
	s, err := schema.Compile([]byte(`{"items":{"type":"integer","pattern":"a","enum":[1,2,3]}}`), schema.Options{MaxSteps: 200})
	if err != nil {
		t.Fatal(err)
	}
	long := `[` + strings.Repeat(`1,`, 400) + `1]`
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			for range 50 {
				var invalid *schema.InvalidError
				if err := s.Validate(t.Context(), []byte(`[1,2,4]`)); !errors.As(err, &invalid) || len(invalid.Faults) != 1 {
					t.Errorf("%d: %v", i, err)
				}
				if err := s.Validate(t.Context(), []byte(long)); !errors.Is(err, schema.ErrTooMuch) {
					t.Errorf("%d: %v", i, err)
				}
				if err := s.Validate(t.Context(), []byte(`[1,2,3]`)); err != nil {
					t.Errorf("%d: %v", i, err)
				}
			}
		})
	}
	all.Wait()
}
