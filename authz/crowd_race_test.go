//go:build race

package authz_test

// crowd is smaller under the race detector, which makes each of them ten times as slow:
// all of 64 would not be answered within the two seconds that a request may take. The
// built binary is asked by 64 at once in internal/e2e.
const crowd = 8
