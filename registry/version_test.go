package registry_test

import (
	"slices"
	"testing"
	"time"

	"gatehouse.example/registry"
)

// TestCompareVersions has versions in ascending order: each is lower than all that follow.
func TestCompareVersions(t *testing.T) {
	order := []string{
		// Not semantic, as text.
		"", "01.0.0", "1", "1.0", "1.0.0-", "1.0.0-01", "1.0.0.0", "2025.06.18", "V1.0.0", "latest", "v1",
		// Semantic Versioning section 11.
		"0.0.0", "0.0.1-0", "0.0.1", "0.1.0", "1.0.0-0", "1.0.0-9", "1.0.0-10", "1.0.0-99999999999999999999",
		"1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11", "v1.0.0-beta.11", "1.0.0-beta.11.0", "1.0.0-rc.1",
		"1.0.0", "1.0.0+build", "1.0.0+build.2", "v1.0.0", "1.2.0", "1.10.0", "2.0.0", "v2.0.1", "10.0.0", "99999999999999999999.0.0",
	}
	for i, a := range order {
		for j, b := range order {
			want := 0
			switch {
			case i < j:
				want = -1
			case i > j:
				want = 1
			}
			if got := registry.CompareVersions(a, b); got != want {
				t.Errorf("%q and %q: %d, want %d", a, b, got, want)
			}
		}
	}
}

func TestCompareReleases(t *testing.T) {
	may, june := time.Date(2025, 5, 1, 0, 0, 0, 0, time.UTC), time.Date(2025, 6, 1, 0, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		a  string
		at time.Time
		b  string
		bt time.Time
	}{
		{"b", may, "a", june},     // the later is higher
		{"a", may, "b", may},      // at the same time, as text
		{"a", june, "1.0.0", may}, // semantic is higher, whenever
		{"1.0.0", june, "1.0.1", may},
	} {
		if got, back := registry.CompareReleases(test.a, test.at, test.b, test.bt), registry.CompareReleases(test.b, test.bt, test.a, test.at); got != -1 || back != 1 {
			t.Errorf("%+v: %d and %d", test, got, back)
		}
	}
}

// FuzzCompareVersions checks that the order is total and antisymmetric.
func FuzzCompareVersions(f *testing.F) {
	for _, seed := range [][3]string{
		{"1.0.0", "1.0.0+a", "v1.0.0"}, {"1.0.0-a.b", "1.0.0-a", "1.0.0"}, {"latest", "1", "0.0.0"}, {"1.0.0-1", "1.0.0-a", "1.0.0-01"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, a, b, c string) {
		if (registry.CompareVersions(a, b) == 0) != (a == b) {
			t.Errorf("%q and %q", a, b)
		}
		all := []string{a, b, c}
		for _, x := range all {
			for _, y := range all {
				if registry.CompareVersions(x, y) != -registry.CompareVersions(y, x) {
					t.Errorf("%q and %q", x, y)
				}
				for _, z := range all {
					if registry.CompareVersions(x, y) <= 0 && registry.CompareVersions(y, z) <= 0 && registry.CompareVersions(x, z) > 0 {
						t.Errorf("%q, %q and %q", x, y, z)
					}
				}
			}
		}
		if !slices.IsSortedFunc(slices.SortedFunc(slices.Values(all), registry.CompareVersions), registry.CompareVersions) {
			t.Errorf("%q", all)
		}
	})
}
