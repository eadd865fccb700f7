package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gatehouse.example/cmd/authz/internal/settings"
)

// TestStateFolder: the default store is where systemd says, in /var/lib for root, and in the state
// folder of any other user.
func TestStateFolder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		env    map[string]string
		user   int
		system string
		want   string
	}{
		{nil, 0, "linux", "/var/lib/gatehouse"},
		{map[string]string{"STATE_DIRECTORY": "/var/lib/notes:/var/lib/more", "HOME": "/root"}, 0, "linux", "/var/lib/notes"},
		{map[string]string{"STATE_DIRECTORY": "relative"}, 0, "linux", "/var/lib/gatehouse"},
		{map[string]string{"HOME": "/home/ada"}, 1000, "linux", "/home/ada/.local/state/gatehouse"},
		{map[string]string{"HOME": "/home/ada", "XDG_STATE_HOME": "/data"}, 1000, "linux", "/data/gatehouse"},
		{map[string]string{"HOME": "/home/ada", "XDG_STATE_HOME": "data"}, 1000, "linux", "/home/ada/.local/state/gatehouse"},
		{map[string]string{"HOME": "/Users/ada"}, 501, "darwin", "/Users/ada/Library/Application Support/gatehouse"},
		{nil, 1000, "linux", ""},
		{nil, 0, "freebsd", "/var/lib/gatehouse"},
		{map[string]string{"HOME": "/home/ada", "STATE_DIRECTORY": "/var/lib/notes"}, -1, "windows", ""},
	} {
		got, err := stateFolder(func(name string) string { return c.env[name] }, c.user, c.system)
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%v, user %d: %q, %v; want %q", c.env, c.user, got, err, c.want)
		}
	}
}

// TestFoldersSurviveACrash: every folder that is made for the default store is synced into the one
// above it before the next one is made, and one that was made by a start that was killed is too.
func TestFoldersSurviveACrash(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	killed := errors.New("killed")
	for after := range 4 {
		folder := filepath.Join(top, fmt.Sprint(after), "state", "gatehouse")
		durable := map[string]bool{top: true}
		syncs := 0
		sync := func(path string) error {
			if syncs++; syncs == after+1 {
				return killed // before it had any effect
			}
			entries, err := os.ReadDir(path)
			for _, e := range entries {
				durable[filepath.Join(path, e.Name())] = true
			}
			return err
		}
		if err := makeFolders(folder, sync); !errors.Is(err, killed) {
			t.Errorf("after %d calls it went on: %v", after, err)
		}
		if err := makeFolders(folder, sync); err != nil {
			t.Error(err)
		}
		for made := folder; made != top; made = filepath.Dir(made) {
			if info, err := os.Stat(made); err != nil || info.Mode().Perm() != 0o700 || !durable[made] {
				t.Errorf("killed after %d calls: %s: %v, %v, durable: %t", after, made, info, err, durable[made])
			}
		}
	}
}

// TestDefaultFolderIsClosed: the folder of the default store belongs to the server, and nobody else
// writes to it. One that others may enter is used with a warning.
func TestDefaultFolderIsClosed(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "gatehouse")
	url := settings.StoreURL("file:" + filepath.Join(folder, "gatehouse.db"))
	for _, c := range []struct {
		mode        fs.FileMode
		doubt, want string
	}{
		{0, "", ""}, // it is made
		{0o700, "", ""},
		{0o755, "the permissions 755: others may enter it or list its files, though not read the store: run chmod 700 " + folder + ", or set StateDirectoryMode=0700", ""},
		{0o710, "the permissions 710", ""},
		{0o770, "", "the permissions 770, so others may replace files in it: run chmod 700 " + folder},
		{0o702, "", "the permissions 702, so others may replace files in it"},
		{fs.ModeSticky | 0o777, "", "the permissions 777"},
	} {
		if c.mode != 0 {
			if err := os.Chmod(folder, c.mode); err != nil {
				t.Fatal(err)
			}
		}
		doubt, err := makeStateFolder(url)
		if (doubt != "") != (c.doubt != "") || !strings.Contains(doubt, c.doubt) || (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%o: %q, %v", c.mode, doubt, err)
		}
	}
	info, err := os.Stat(folder)
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		if _, err := judgeFolder(folder, info, os.Geteuid()+1); err == nil || !strings.Contains(err.Error(), "belongs to the user") {
			t.Errorf("the folder of another user: %v", err)
		}
		return
	}
	if err := errors.Join(os.Chmod(folder, 0o700), os.Chown(folder, 12345, -1)); err != nil {
		t.Fatal(err)
	}
	if _, err := makeStateFolder(url); err == nil || !strings.Contains(err.Error(), "belongs to the user 12345, and this process runs as 0") {
		t.Errorf("the folder of another user: %v", err)
	}
}

// rootsFolder is what the system says about a folder of root.
type rootsFolder struct{ fs.FileInfo }

// Sys implements [fs.FileInfo].
func (rootsFolder) Sys() any { return &syscall.Stat_t{Uid: 0} }

// TestFolderOfRoot: a folder that root prepared for another user is used, and judged by who else may
// enter it.
func TestFolderOfRoot(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for mode, c := range map[fs.FileMode]struct{ doubt, refused bool }{0o700: {false, false}, 0o711: {true, false}, 0o770: {false, true}} {
		if err := os.Chmod(folder, mode); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(folder)
		if err != nil {
			t.Fatal(err)
		}
		if doubt, err := judgeFolder(folder, rootsFolder{info}, 12345); (doubt != "") != c.doubt || (err != nil) != c.refused {
			t.Errorf("%o: %q, %v", mode, doubt, err)
		}
	}
}

// TestNoDefault: a user without a home folder is told so, by the server and by verbs, and nothing
// else about the store.
func TestNoDefault(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"check-config"}, {"serve"}, {"user", "ls"}} {
		cmd := exec.Command("authz", args...)
		if os.Geteuid() == 0 {
			asNobody(t, cmd)
		}
		cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
			return strings.HasPrefix(v, "HOME=") || strings.HasPrefix(v, "XDG_STATE_HOME=") || strings.HasPrefix(v, "STATE_DIRECTORY=")
		}), "AUTHZ_ISSUER=https://auth.example.com", "AUTHZ_MASTER_KEYS="+testKey(1), "AUTHZ_REGISTRATION=open", noLookout)
		out, err := cmd.CombinedOutput()
		const want = "store is not set, and there is no default: this user has no home folder: name a store with --store file:PATH"
		if err == nil || strings.Count(string(out), want) != 1 || strings.Count(string(out), "store is not set") != 1 || strings.Contains(string(out), "resources is not set") {
			t.Errorf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// asNobody lets a command of these tests run as a user that owns nothing.
func asNobody(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	folder, err := os.MkdirTemp("", "gatehouse") // which others may enter, unlike t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	program := filepath.Join(folder, "authz")
	binary, err := os.ReadFile(cmd.Path)
	if err := errors.Join(err, os.Chmod(folder, 0o755), os.WriteFile(program, binary, 0o755)); err != nil {
		t.Fatal(err)
	}
	cmd.Path, cmd.Dir = program, folder
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
}

// TestNoFilesHere: where there are no stores in files, the sentence says what else to name.
func TestNoFilesHere(t *testing.T) {
	t.Parallel()
	if _, err := stateFolder(os.Getenv, -1, "windows"); !errors.Is(err, errNoFiles) || !strings.Contains(err.Error(), "needs a Unix system") || !strings.Contains(err.Error(), "--store redis://") {
		t.Errorf("the default: %v", err)
	}
	if err := fileProblem("gatehouse.db", true, fmt.Errorf("storage/file: %w", errors.ErrUnsupported)); !errors.Is(err, errNoFiles) {
		t.Errorf("a file that is named: %v", err)
	}
}
