//go:build !unix

package settings

import "os"

// openNow opens a file to read.
func openNow(name string) (*os.File, error) { return os.Open(name) }
