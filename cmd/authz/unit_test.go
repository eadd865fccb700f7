package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gatehouse.example/internal/listener"
)

// unitFile is the example of a service of systemd.
const unitFile = "../../docs/examples/gatehouse.service"

// unit returns the settings of the example, and the commands in its comments.
func unit(t *testing.T) (settings map[string]string, commands []string) {
	t.Helper()
	text, err := os.ReadFile(unitFile)
	if err != nil {
		t.Fatal(err)
	}
	settings = map[string]string{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if name, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			settings[name] = value
		}
		if command, ok := strings.CutPrefix(line, "#   "); ok {
			commands = append(commands, command)
		}
	}
	return settings, commands
}

// TestUnit: the service starts as the example says, with its state where verbs of root look for it,
// and without a warning; the verb in the example reaches it; systemd and a signal can let it read its
// settings again; it has the time that it needs to end.
func TestUnit(t *testing.T) {
	t.Parallel()
	u, commands := unit(t)
	grace, err := time.ParseDuration(u["TimeoutStopSec"] + "s")
	if err != nil || grace < 5*time.Second+listener.Grace {
		t.Errorf("it is killed after %s, while it stops", u["TimeoutStopSec"])
	}
	if folder, _ := stateFolder(func(string) string { return "" }, 0, "linux"); folder != "/var/lib/"+u["StateDirectory"] || u["StateDirectoryMode"] != "0700" {
		t.Errorf("root looks for the store in %s; the unit has %s with %s", folder, u["StateDirectory"], u["StateDirectoryMode"])
	}
	// What systemd does with its own folders.
	root := t.TempDir()
	state, secrets := filepath.Join(root, u["StateDirectory"]), t.TempDir()
	mode, err := strconv.ParseUint(u["StateDirectoryMode"], 8, 32)
	if err := errors.Join(err, os.Mkdir(state, os.FileMode(mode))); err != nil {
		t.Fatal(err)
	}
	name, from, _ := strings.Cut(u["LoadCredential"], ":")
	write(t, secrets, name, testKey(1)+"\n")
	variable, value, _ := strings.Cut(u["Environment"], "=")
	places := strings.NewReplacer("%d", secrets, from, filepath.Join(secrets, name), "/etc/gatehouse/gatehouse.yaml", "../../docs/examples/gatehouse.yaml", " NAME ", " ada ")
	environ := []string{"STATE_DIRECTORY=" + state, "AUTHZ_LISTEN=127.0.0.1:0", "AUTHZ_ADMIN_LISTEN=127.0.0.1:0"}

	command := strings.Fields(places.Replace(u["ExecStart"]))
	server := startProcessWith(t, append(environ, variable+"="+places.Replace(value)), "Gatehouse is ready.", command[1:]...)
	if shown := server.shown("store"); filepath.Dir(shown) != state {
		t.Errorf("the start says that the store is %q", shown)
	}
	if log := server.stderr.String(); strings.Contains(log, "permissions") || strings.Contains(log, "other commands cannot use the store") {
		t.Errorf("the start warns:\n%s", log)
	}
	verb := strings.Fields(places.Replace(commands[len(commands)-1]))
	if out, err := outputOf(environ[:1], "correct horse battery\n", verb[1:]...); err != nil || verb[0] != "authz" {
		t.Errorf("%q: %v\n%s", verb, err, out)
	}
	reload := strings.Fields(places.Replace(u["ExecReload"]))
	if out, err := outputOf(append(environ[:1:1], "AUTHZ_ADMIN_LISTEN="+server.shown("admin on")), "", reload[1:]...); err != nil || out != "Nothing has changed in the settings.\n" {
		t.Errorf("%q: %v\n%s", reload, err, out)
	}
	server.signal(t, syscall.SIGHUP)
	eventually(t, "the log has both reloads", func() bool { return strings.Count(server.stderr.String(), "the settings were reloaded") == 2 })
	server.signal(t, syscall.SIGTERM)
	if err := server.end(t); err != nil {
		t.Errorf("it ends with %v", err)
	}
}

// TestUnitIsKnown: systemd understands each line.
func TestUnitIsKnown(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not here")
	}
	text, err := os.ReadFile(unitFile)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	write(t, folder, "gatehouse.service", strings.ReplaceAll(string(text), "=/usr/local/bin/authz", "=/bin/sh"))
	if out, err := exec.Command(analyze, "verify", "--man=no", filepath.Join(folder, "gatehouse.service")).CombinedOutput(); err != nil || strings.Contains(string(out), "gatehouse.service:") {
		t.Errorf("%v\n%s", err, out)
	}
}
