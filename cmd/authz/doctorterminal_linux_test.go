package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	system "golang.org/x/sys/unix"
)

// onTerminal runs the verb on a pseudo terminal of a width, and returns the exit status and what the
// terminal was sent.
func onTerminal(t *testing.T, width uint16, args ...string) (int, string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|system.O_NOCTTY, 0)
	if err != nil {
		t.Skip("this machine has no pseudo terminals: ", err)
	}
	defer master.Close()
	fd := int(master.Fd())
	number, err := system.IoctlGetInt(fd, system.TIOCGPTN)
	if err == nil {
		err = system.IoctlSetPointerInt(fd, system.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = system.IoctlSetWinsize(fd, system.TIOCSWINSZ, &system.Winsize{Row: 24, Col: width})
	}
	if err != nil {
		t.Fatal(err)
	}
	screen, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|system.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan string)
	go func() {
		all, _ := io.ReadAll(master) // ends with an error when the other side is closed
		sent <- string(all)
	}()
	code := run(context.Background(), append([]string{"doctor"}, args...), nil, strings.NewReader(""), screen, screen)
	screen.Close()
	return code, strings.ReplaceAll(<-sent, "\r\n", "\n")
}

// TestDoctorOnTerminal: on a terminal severities have colours, unless NO_COLOR is set, and each request
// is shown while it runs on one line of that width, which is gone before the report begins.
func TestDoctorOnTerminal(t *testing.T) {
	at := patient(t)
	for _, plain := range []string{"", "1"} {
		t.Setenv("NO_COLOR", plain)
		code, all := onTerminal(t, 30, at+"/ill")
		if code != exitRefused {
			t.Errorf("exit %d:\n%q", code, all)
		}
		begin := strings.LastIndex(all, "\r\x1b[K")
		if begin < 0 {
			t.Fatalf("no progress is shown and removed: %q", all)
		}
		progress, report := all[:begin], all[begin+len("\r\x1b[K"):]
		if n := strings.Count(progress, "\r\x1b[K"); n < 5 || strings.Contains(progress, "\n") {
			t.Errorf("%d requests are shown: %q", n, progress)
		}
		for line := range strings.SplitSeq(progress, "\r\x1b[K") {
			if len([]rune(line)) >= 30 {
				t.Errorf("%q breaks into two lines", line)
			}
		}
		if !strings.HasPrefix(report, at+"/ill\n") {
			t.Errorf("the report begins after %.80q", report)
		}
		coloured := regexp.MustCompile(`\x1b\[1;31merror\x1b\[0m resource-wider: `).MatchString(report)
		if coloured != (plain == "") || strings.Contains(report, "\x1b") != (plain == "") {
			t.Errorf("NO_COLOR=%q: %q", plain, report)
		}
	}
}
