//go:build race

package redis

// raced says that the race detector looks on.
const raced = true
