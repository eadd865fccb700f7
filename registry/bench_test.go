package registry_test

import (
	"os"
	"testing"

	"gatehouse.example/registry"
)

func BenchmarkParseItem(b *testing.B) {
	for _, name := range []string{"remote", "packages", "older"} {
		record, err := os.ReadFile("testdata/records/" + name + ".json")
		if err != nil {
			b.Fatal(err)
		}
		item := []byte(`{"server":` + string(record) + `,"_meta":{` + official + `:{"status":"active","updatedAt":"2025-10-01T12:30:00Z","isLatest":true}}}`)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(item)))
			for b.Loop() {
				if _, err := registry.ParseItem(item); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
