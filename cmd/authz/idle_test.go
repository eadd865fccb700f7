package main

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// mapping is how a system describes a part of the memory, with changed kilobytes of it.
func mapping(addresses, rights, file string, changed int) string {
	return fmt.Sprintf("%s %s 00000000 fe:00 1234 %30s\nSize:  1024 kB\nRss:  512 kB\nAnonymous:  %d kB\nVmFlags: rd mr mw me\n", addresses, rights, file, changed)
}

// TestUnchangedPages: only what is in memory as it is in the program's file may leave it.
func TestUnchangedPages(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	got := unchangedPages(strings.Join([]string{
		mapping("00400000-01a00000", "r-xp", program, 0),
		mapping("01a00000-03a00000", "r--p", program, 0),
		mapping("03a00000-03b00000", "r--p", program, 4), // a linker wrote addresses into it
		mapping("03b00000-03c00000", "rw-p", program, 0),
		mapping("03c00000-03d00000", "r--s", program, 0),
		mapping("7f0000000000-7f0000100000", "r-xp", "/lib/x86_64-linux-gnu/libc.so.6", 0),
		mapping("7f0000200000-7f0000300000", "r-xp", program+" (deleted)", 0),
		mapping("c000000000-c000400000", "rw-p", "", 0),
		mapping("zz-01", "r-xp", program, 0),
		mapping("02-01", "r-xp", program, 0),
	}, ""))
	if want := []stretch{{0x400000, 0x1a00000}, {0x1a00000, 0x3a00000}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
	if got := unchangedPages("no mappings\n"); got != nil {
		t.Errorf("%x", got)
	}
}

// TestProgramGoesOn: what has left memory comes back from the file when it is used.
func TestProgramGoesOn(t *testing.T) {
	t.Parallel()
	mappings, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip("this system does not describe the memory of a process there")
	}
	all := unchangedPages(string(mappings))
	if len(all) == 0 {
		t.Fatal("nothing of this program is unchanged in memory")
	}
	for range 3 {
		releaseProgram(all)
		if out := fmt.Sprintf("%v %s", slices.Sorted(slices.Values([]int{3, 1, 2})), strings.ToUpper("text")); out != "[1 2 3] TEXT" {
			t.Fatal(out)
		}
	}
}
