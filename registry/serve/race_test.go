//go:build race

package serve_test

// raceEnabled says that the race detector runs, which makes large records twenty times as
// dear: what is about their number and size has fewer of them then.
const raceEnabled = true
