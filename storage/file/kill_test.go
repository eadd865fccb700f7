package file_test

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"gatehouse.example/storage/file"
	"gatehouse.example/storage/file/internal/journal"
)

var kills = flag.Int("file.kills", 10, "how often to kill the process that writes")

// loadEnv names the file in the environment of a process that only writes to it.
const loadEnv = "STORAGE_FILE_LOAD"

func TestMain(m *testing.M) {
	flag.Parse()
	if path := os.Getenv(loadEnv); path != "" {
		b, err := file.Open(file.Options{Path: path, Create: true})
		if err == nil {
			fmt.Println("open")
			w := &journal.Writer{Backend: b, Out: os.Stdout}
			err = w.Run(context.Background())
		}
		fmt.Println("error", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestKilled: whenever a process that writes is killed, what it acknowledged is there, and no item
// was replaced twice.
func TestKilled(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "gatehouse.db")
	j := journal.New()
	for range *kills {
		killed(t, path, j)
		b, err := file.Open(file.Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Check(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Log(*kills, "kills", j.Acknowledged(), "acknowledged writes")
	if j.Acknowledged() < 10**kills {
		t.Error("the processes wrote too little")
	}
}

// killer kills a process when it has written a number of lines.
type killer struct {
	process *os.Process
	lines   int
}

func (k *killer) Write(p []byte) (int, error) {
	if k.lines -= bytes.Count(p, []byte("\n")); k.lines <= 0 {
		_ = k.process.Kill() // again, when it is dead already
	}
	return len(p), nil
}

// killed runs a process that writes, and kills it in the middle.
func killed(t *testing.T, path string, j *journal.Journal) {
	t.Helper()
	load := exec.Command(os.Args[0])
	load.Env = append(os.Environ(), loadEnv+"="+path)
	load.Stderr = os.Stderr
	out, err := load.StdoutPipe()
	if err == nil {
		err = load.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	others, wrong := j.Read(io.TeeReader(lines, &killer{load.Process, mathrand.IntN(1000)}))
	_ = load.Wait() // killed
	if err != nil || first != "open\n" || len(others) > 0 || wrong != nil {
		t.Fatalf("the process said %q %q: %v %v", first, others, err, wrong)
	}
}
