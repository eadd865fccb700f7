//go:build !linux

package local

import "os"

// shortcut returns "": this system has no other path for a folder that is open.
func shortcut(*os.File) string { return "" }
