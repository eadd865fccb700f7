//go:build !race

package authz_test

// crowd is how many do the same thing at the same time.
const crowd = 64
