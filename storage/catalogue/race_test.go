//go:build race

package catalogue_test

// raced reports whether the race detector is on.
const raced = true
