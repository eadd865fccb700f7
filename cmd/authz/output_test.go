package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
)

// fullDisk takes so many bytes and no more.
type fullDisk struct{ left int }

var errFullDisk = errors.New("write /dev/stdout: no space left on device")

func (d *fullDisk) Write(text []byte) (int, error) {
	n := min(len(text), d.left)
	if d.left -= n; n < len(text) {
		return n, errFullDisk
	}
	return n, nil
}

// TestLostOutput: a verb of which the output is lost ends with 1, says so once, and after a change
// also that it is stored and what to do. Room is how many bytes of the output are taken.
func TestLostOutput(t *testing.T) {
	redis := miniredis.RunT(t)
	dir := t.TempDir()
	password := filepath.Join(dir, "password")
	if err := os.WriteFile(password, []byte("correct horse battery"), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := []string{"AUTHZ_STORE=redis://" + redis.Addr(), "AUTHZ_ISSUER=https://auth.example.com", "AUTHZ_MASTER_KEYS=" + testKey(1)}
	try := func(args string, room int) (int, string) {
		var complaints bytes.Buffer
		status := run(t.Context(), strings.Fields(args), environ, strings.NewReader(""), &fullDisk{room}, &complaints)
		return status, complaints.String()
	}
	const changed = "authz: what this command changed is stored, and what it printed about it is lost"
	for _, test := range []struct {
		args string
		room int
		want string // after the error of the write
	}{
		{"--help", 0, ""},
		{"user add --help", 99, ""},
		{"user ls", 0, ""},
		{"version", 0, ""},
		{"manual", 99, ""},
		{"user add ada --password-file " + password, 0, changed + ": authz user show ada prints the person\n"},
		{"user show ada", 0, ""},
		{"user invite ben", 0, changed + ": the link is lost with it, and authz user reset ben makes another one\n"},
		{"user reset ben", 20, changed + ": the link is lost with it, and the same command makes another one\n"},
		{"user reset ben --json", 20, changed + ": the link is lost with it, and the same command makes another one\n"},
		{"user passwd ada --password-file " + password, 0, changed + ": authz user ls lists the people\n"},
		{"group add staff", 0, changed + ": authz group ls lists the groups\n"},
		{"group join staff ada", 0, changed + ": authz group ls lists the groups\n"},
		{"client add --id web --name Web --redirect-uri https://app.example.com/cb --auth-method client_secret_basic", 20,
			changed + ": a secret that was drawn is lost with it; find the client with authz client ls, remove it with authz client rm, and add it again\n"},
		{"client disable web", 0, changed + ": authz client ls lists the clients\n"},
		{"client token", 0, changed + ": the token is lost with it, and the same command makes another one\n"},
		{"resource add https://notes.example.com/mcp --introspection", 70, changed + ": a secret that was drawn is lost with it, and the same command with --replace draws another one\n"},
		{"resource disable https://notes.example.com/mcp", 0, changed + ": authz resource ls lists the resources\n"},
		{"grant revoke --user ada", 0, changed + ": authz grant ls lists the grants; with --json some may be left, which the same command ends\n"},
		{"key reseal", 0, changed + ": the same command looks again, and prints it again\n"},
	} {
		status, said := try(test.args, test.room)
		if want := "authz: " + errFullDisk.Error() + "\n" + test.want; status != exitRefused || said != want {
			t.Errorf("%s: exit status %d, want %d\n got %s\nwant %s", test.args, status, exitRefused, said, want)
		}
	}
	room := &tellingOutput{Writer: &fullDisk{}} // a disk that has room again later
	_, err := room.Write([]byte("lost"))
	room.Writer = io.Discard
	_, later := room.Write([]byte("kept"))
	if got := room.complete(act{verb: "store copy"}, "", nil); !errors.Is(err, errFullDisk) || later != nil || got == nil || "authz: "+strings.ReplaceAll(got.Error(), errFullDisk.Error()+"\n", "") != changed {
		t.Errorf("a part was lost: %v, then %v: %v", err, later, got)
	}
	for args, want := range map[string]string{
		"user add ada --password-file " + password: "there is already a person with the name ada", // it was stored
		"group add staff":                          "there is already a group with the name staff",
		"group add":                                "expected \"<name>\"",
		"user disable nobody":                      "there is no person with the name nobody",
		"grant revoke --user nobody":               "there is no person with the name nobody",
	} {
		if _, said := try(args, 0); !strings.Contains(said, want) || strings.Contains(said, "is stored") || strings.Contains(said, errFullDisk.Error()) {
			t.Errorf("%s: %s", args, said)
		}
	}
}
