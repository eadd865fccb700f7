//go:build !race

package authz_test

// crowd is the number of concurrent requests.
const crowd = 64
