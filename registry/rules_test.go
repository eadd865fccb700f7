package registry_test

import (
	"testing"

	"gatehouse.example/registry"
)

// TestVersionsAreVisible: versions, and other values that users copy out of a record, contain
// no invisible characters.
func TestVersionsAreVisible(t *testing.T) {
	for _, c := range "\u200b\u200d\u200e\u202e\u2066\u00ad\ufeff\u2060\u034f\u115f\u1160\u17b4\u180e\u2800\u3164\uffa0\ufe0f\U000e0041\U000e0101\u2028\u00a0\u3000\u0085\u007f\ue000\u0378" {
		for _, version := range []string{"1.0.0" + string(c), "1." + string(c) + "0.0", string(c) + "1.0.0"} {
			if _, err := registry.ParseRecord(minimal(object{"version": version})); err == nil {
				t.Errorf("%+q is a version", version)
			}
			in := object{"packages": []any{object{"registryType": "example", "identifier": "notes", "version": version, "transport": object{"type": "stdio"}}}}
			if _, err := registry.ParseRecord(minimal(in)); err == nil {
				t.Errorf("%+q is the version of a package", version)
			}
		}
		in := object{"packages": []any{object{"registryType": "example", "identifier": "no" + string(c) + "tes", "version": "1.0.0", "transport": object{"type": "stdio"}}}}
		if _, err := registry.ParseRecord(minimal(in)); err == nil {
			t.Errorf("an identifier has %+q in it", c)
		}
		if _, err := registry.ParseRecord(minimal(object{"websiteUrl": "https://example.com/" + string(c)})); err == nil {
			t.Errorf("a link has %+q in it", c)
		}
	}
	for _, version := range []string{"1.0.0", "2025 edition", "1.0.0-β", "versión-é", "第1版", "v1+build.7"} {
		if _, err := registry.ParseRecord(minimal(object{"version": version})); err != nil {
			t.Errorf("%+q: %v", version, err)
		}
	}
}
