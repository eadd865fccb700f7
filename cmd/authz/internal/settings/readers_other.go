//go:build !unix

package settings

// OtherReaders returns "": this system has no permission bits to judge.
func OtherReaders(string) string { return "" }
