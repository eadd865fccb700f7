//go:build e2e && !linux

package faults

import "os/exec"

// endWithParent does nothing: only Linux has the signal.
func endWithParent(*exec.Cmd) {}
