//go:build e2e

package faults

import (
	"os/exec"
	"syscall"
)

// endWithParent has the kernel end the process when the test program ends without cleaning up,
// for example at its timeout.
func endWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
