package local_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gatehouse.example/storage/file"
	"gatehouse.example/storage/file/local"
)

// Processes of these tests under other users serve the store at a path until their input ends, or
// open it and print the outcome.
const serveEnv, openEnv = "GATEHOUSE_TEST_SERVE", "GATEHOUSE_TEST_OPEN"

func TestMain(m *testing.M) {
	serve, open := os.Getenv(serveEnv), os.Getenv(openEnv)
	switch {
	case serve != "":
		fmt.Println(serveAt(serve))
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	case open != "":
		b, err := local.Open(context.Background(), open)
		if err == nil {
			err = b.IndexAdd(context.Background(), "index", fmt.Sprint("user ", os.Geteuid()))
		}
		fmt.Println(err)
		return
	}
	os.Exit(m.Run())
}

func serveAt(path string) error {
	b, err := file.Open(file.Options{Path: path, Create: true})
	if err != nil {
		return err
	}
	_, err = local.Serve(path, b)
	return err
}

// TestPeers: the server answers its own user and root. Another user, who came into the folder
// nevertheless, is sent away.
func TestPeers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can run processes of other users")
	}
	t.Parallel()
	folder, err := os.MkdirTemp("", "gatehouse") // which others may enter, unlike t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	program, state := filepath.Join(folder, "test"), filepath.Join(folder, "state")
	binary, err := os.ReadFile(os.Args[0])
	if err := errors.Join(err, os.Chmod(folder, 0o755), os.WriteFile(program, binary, 0o755), os.Mkdir(state, 0o755), os.Chown(state, 12345, 12345)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(state, "db")
	as := func(user uint32, env string) *exec.Cmd {
		cmd := exec.Command(program)
		cmd.Env, cmd.Dir = append(os.Environ(), env+"="+path), folder
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}, Pdeathsig: syscall.SIGKILL}
		return cmd
	}
	server := as(12345, serveEnv)
	input, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := server.StdoutPipe()
	if err := errors.Join(err, server.Start()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = errors.Join(input.Close(), server.Wait()) }()
	if line, err := bufio.NewReader(output).ReadString('\n'); line != "<nil>\n" {
		t.Fatalf("the server said %q, %v", line, err)
	}
	ask := func(user uint32) string {
		t.Helper()
		out, err := as(user, openEnv).Output()
		if err != nil {
			t.Error(err)
		}
		return strings.TrimSpace(string(out))
	}
	if said := ask(54321); !strings.Contains(said, "permission denied") {
		t.Errorf("another user was told %q", said)
	}
	if err := errors.Join(os.Chmod(path+".socket", 0o711), os.Chmod(path+".socket/store", 0o777)); err != nil {
		t.Fatal(err)
	}
	if said := ask(54321); !strings.Contains(said, "the server hung up, as it does unless its own user or root asks") {
		t.Errorf("another user who came in was told %q", said)
	}
	for _, user := range []uint32{12345, 0} {
		if said := ask(user); said != "<nil>" {
			t.Errorf("user %d was told %q", user, said)
		}
	}
	b, err := local.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if all, err := b.IndexPage(t.Context(), "index", "", 9); fmt.Sprint(all, err) != "[user 0 user 12345] <nil>" {
		t.Errorf("what was written: %v, %v", all, err)
	}
}
