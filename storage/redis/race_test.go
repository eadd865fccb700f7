//go:build race

package redis

// raced reports whether the race detector is on.
const raced = true
