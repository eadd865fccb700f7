package main

import "syscall"

// releaseProgram lets pages leave memory; they come back from the program's file when they are used.
func releaseProgram(all []stretch) {
	for _, p := range all {
		_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, p.from, p.to-p.from, syscall.MADV_DONTNEED)
	}
}
