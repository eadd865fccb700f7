// Package upstreamtest is an identity provider for tests, with every answer changeable.
package upstreamtest
