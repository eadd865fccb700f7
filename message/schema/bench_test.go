package schema_test

import (
	"testing"

	"gatehouse.example/message/schema"
)

const (
	toolSchema = `{"type":"object","properties":{"title":{"type":"string","maxLength":200},"body":{"type":"string"},
		"tags":{"type":"array","items":{"type":"string","pattern":"^[a-z]+$"},"uniqueItems":true},"priority":{"enum":["low","high"]}},
		"required":["title","body"],"additionalProperties":false}`
	toolValue = `{"title":"Groceries","body":"milk, bread","tags":["home","today"],"priority":"low"}`
)

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := schema.Compile([]byte(toolSchema), schema.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkValidate(b *testing.B) {
	s := compiled(b, toolSchema)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Validate(b.Context(), []byte(toolValue)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkValidateInvalid(b *testing.B) {
	s := compiled(b, toolSchema)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Validate(b.Context(), []byte(`{"title":1,"tags":["A","A"],"other":{}}`)); err == nil {
			b.Fatal("it is valid")
		}
	}
}
