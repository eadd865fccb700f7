package templates_test

import (
	"io"
	"testing"

	"gatehouse.example/templates"
)

func BenchmarkConsent(b *testing.B) {
	set := pages(b).For(templates.Reader{Action: "/language", Return: "/consent"})
	page := consent()
	b.ReportAllocs()
	for b.Loop() {
		if err := set.Consent(io.Discard, page); err != nil {
			b.Fatal(err)
		}
	}
}
