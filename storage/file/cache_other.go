//go:build !linux

package file

import "os"

// forgetCache does nothing where the system has no such call.
func forgetCache(*os.File) {}
