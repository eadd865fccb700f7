//go:build race

package authz_test

// crowd is smaller under the race detector, which makes each goroutine ten times as slow: 64
// would not be answered within the two seconds that a request may take. internal/e2e sends 64
// requests at once to the built binary.
const crowd = 8
