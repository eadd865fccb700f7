// Package owner tells to whom a file belongs.
package owner
