//go:build race

package serve_test

// raceEnabled reports whether the race detector runs. It makes large records twenty times as
// expensive, so tests use fewer of them.
const raceEnabled = true
