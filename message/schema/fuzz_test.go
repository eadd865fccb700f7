package schema_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"gatehouse.example/message/schema"
)

// sink listens at the address that schemas of a test refer to, and counts connections.
func sink(t testing.TB) (address string, visits *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	visits = new(atomic.Int64)
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			visits.Add(1)
			_ = connection.Close()
		}
	}()
	return listener.Addr().String(), visits
}

// TestNothingIsFetched: schemas with the address of a listener in every possible place cause no
// connection.
func TestNothingIsFetched(t *testing.T) {
	address, visits := sink(t)
	for _, keyword := range []string{"$ref", "$dynamicRef", "$recursiveRef", "$schema", "$id", "$vocabulary", "id"} {
		for _, dialect := range append(schema.Dialects(), "") {
			for _, form := range []string{`{%s"%s":"http://%s/a.json"}`, `{%s"properties":{"a":{"%s":"http://%s/a.json#/b"}}}`, `{%s"$id":"https://example.com/","allOf":[{"%s":"//%s/a"}]}`} {
				declared := `"$schema":"` + dialect + `",`
				if dialect == "" || keyword == "$schema" {
					declared = ""
				}
				s, err := schema.Compile(fmt.Appendf(nil, form, declared, keyword, address), schema.Options{})
				if err == nil {
					_ = s.Validate(t.Context(), []byte(`{"a":1}`))
				}
			}
		}
	}
	if n := visits.Load(); n != 0 {
		t.Errorf("%d connections", n)
	}
}

// FuzzValidate: compiling and validating ends with a documented result, the same one each time, and
// causes no connection.
func FuzzValidate(f *testing.F) {
	address, visits := sink(f)
	for _, seed := range [][2]string{
		{`{"type":"object","properties":{"a":{"type":"integer","minimum":1e2}},"required":["a"],"additionalProperties":false}`, `{"a":100.0}`},
		{`{"$ref":"#/$defs/a","$defs":{"a":{"items":{"$ref":"#/$defs/a"},"prefixItems":[{"enum":[1,"x",null]}]}}}`, `[1,[["x"]]]`},
		{`{"$id":"http://SINK/a","$ref":"b","$defs":{"b":{"$id":"b","$dynamicAnchor":"n","properties":{"n":{"$dynamicRef":"#n"}}}},"unevaluatedProperties":false}`, `{"n":{"n":1}}`},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","$id":"#x","if":{"contains":{"const":1}},"then":{"$ref":"#x/y"},"dependencies":{"a":["b"],"c":{}}}`, `[1]`},
		{`{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"additionalItems":false,"items":[{"$recursiveRef":"#"}]}`, `[[[]]]`},
		{`{"$ref":"http://SINK/a.json"}`, `1`}, {`{"$schema":"http://SINK/dialect"}`, `1`}, {`{"$ref":"file:///dev/zero"}`, `1`},
		{`{"pattern":"^(a+)+$","not":{"oneOf":[true,false]},"uniqueItems":true,"multipleOf":1e-9}`, `"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"`},
		{`{"$ref":"https://json-schema.org/draft/2020-12/schema"}`, `{"type":1}`}, {`true`, `{}`}, {`{"allOf":[{"$ref":"#"}]}`, `1`}, {`[]`, `[`},
	} {
		f.Add([]byte(strings.ReplaceAll(seed[0], "SINK", address)), []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, raw, value []byte) {
		o := schema.Options{MaxSteps: 2000, MaxSubschemas: 200}
		first := outcome(t, raw, value, o)
		if again := outcome(t, raw, value, o); again != first {
			t.Fatalf("first %s, then %s", first, again)
		}
		if n := visits.Load(); n != 0 {
			t.Fatalf("%d connections", n)
		}
	})
}

// outcome returns the kind of a result, and the whole text for an invalid value.
func outcome(t *testing.T, raw, value []byte, o schema.Options) string {
	t.Helper()
	s, err := schema.Compile(raw, o)
	if err != nil {
		if errors.Is(err, schema.ErrBroken) {
			t.Fatalf("%s: %v", raw, err)
		}
		return "not compiled"
	}
	err = s.Validate(t.Context(), value)
	var invalid *schema.InvalidError
	switch {
	case errors.Is(err, schema.ErrBroken):
		t.Fatalf("%s, %s: %v", raw, value, err)
	case errors.Is(err, schema.ErrTooMuch):
		return "valid or not"
	case errors.As(err, &invalid):
		if len(invalid.Faults) == 0 {
			t.Fatalf("%s, %s: invalid without a fault", raw, value)
		}
		return invalid.Error()
	}
	return fmt.Sprint(err)
}
