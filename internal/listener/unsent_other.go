//go:build !linux

package listener

func setUnsent(uintptr, int) {}
