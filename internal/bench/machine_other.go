//go:build !linux

package main

import (
	"errors"
	"os/exec"
	"time"
)

// cores says that nothing can be pinned here.
func cores() (servers, generator int, ok bool) { return -1, -1, false }

func pinSelf(int) error { return errors.ErrUnsupported }

func startOn(_ int, cmd *exec.Cmd) error { return cmd.Start() }

// processorTime is not told here: the columns of processor time stay empty.
func processorTime(int) (time.Duration, error) { return 0, nil }
