package main

import (
	"os"
	"slices"
	"strconv"
	"strings"
)

// stretch is a range of addresses.
type stretch struct{ from, to uintptr }

// unchangedPages returns the parts of this program's file that are in memory as they are in the file,
// from the description of all mappings (proc_pid_smaps): those that nobody may write and of which no
// page has been changed, as a linker at run time changes pages of tables. They can leave memory, and
// come back from the file, at any time.
func unchangedPages(mappings string) (found []stretch) {
	program, err := os.Executable()
	if err != nil {
		return nil
	}
	var at stretch
	for line := range strings.Lines(mappings) {
		fields := strings.Fields(line)
		switch {
		case len(fields) >= 5 && strings.Contains(fields[0], "-"):
			at = stretch{}
			if slices.Contains([]string{"r-xp", "r--p"}, fields[1]) && strings.Join(fields[5:], " ") == program {
				at = rangeOf(fields[0])
			}
		case len(fields) == 3 && fields[0] == "Anonymous:" && fields[1] == "0" && at != (stretch{}):
			found = append(found, at)
		}
	}
	return found
}

// rangeOf parses `FROM-TO` in hexadecimal digits; anything else is no range.
func rangeOf(text string) stretch {
	before, after, _ := strings.Cut(text, "-")
	from, errFrom := strconv.ParseUint(before, 16, strconv.IntSize)
	to, errTo := strconv.ParseUint(after, 16, strconv.IntSize)
	if errFrom != nil || errTo != nil || from >= to {
		return stretch{}
	}
	return stretch{uintptr(from), uintptr(to)}
}
