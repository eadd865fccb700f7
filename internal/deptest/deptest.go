// Package deptest holds a package to its row in the import table of docs/design.md.
//
// Each package has a test that calls [Check], so that its own tests report an import that is
// not allowed:
//
//	func TestDeps(t *testing.T) { deptest.Check(t) }
//
// A package whose tests must not add to the modules that its users download calls [CheckTests]
// instead.
// The tests of package house compare the whole module with the whole table.
package deptest

import (
	"testing"

	"gatehouse.example/internal/house"
)

// Check fails the test for every import of the package in the working directory that its row
// does not allow. Test files may import any package.
func Check(t testing.TB) {
	t.Helper()
	h, p := read(t)
	report(t, h.CheckPackage(p))
}

// CheckTests does what Check does, and holds the test files to the row as well. They may also import
// the package, what is below it, this package, and the paths in also, where one that ends in
// /... stands for itself and all below.
func CheckTests(t testing.TB, also ...string) {
	t.Helper()
	h, p := read(t)
	report(t, h.CheckPackage(p))
	report(t, h.CheckTests(p, append(also, h.Module+"/internal/deptest")...))
}

func report(t testing.TB, faults []string) {
	t.Helper()
	for _, fault := range faults {
		t.Error(fault)
	}
}

// read returns the package in the working directory, and its module with that package alone.
func read(t testing.TB) (*house.House, *house.Package) {
	t.Helper()
	root, dir, err := house.Here()
	if err != nil {
		t.Fatal(err)
	}
	h, err := house.ReadPackage(root, dir)
	if err != nil {
		t.Fatal(err)
	}
	p := h.Package(dir)
	if p == nil {
		t.Fatalf("no Go files in %s", dir)
	}
	return h, p
}
