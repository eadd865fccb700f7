package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/rogpeppe/go-internal/testscript"

	"gatehouse.example/cmd/authz/internal/settings"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"authz": main})
}

// TestScripts runs the binary as people do. In a script:
//
//	status N COMMAND...   runs a command that must end with exit status N
//
// $REDIS is the URL of a store, $TAKEN an address that is in use, $KEY a master key,
// $UPSTREAM a registry with three records on two pages.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		Deadline:            time.Now().Add(5 * time.Minute),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               setup,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": status,
		},
	})
}

func setup(env *testscript.Env) error {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		return err
	}
	env.Defer(server.Close)
	env.Setenv("STATE_DIRECTORY", env.WorkDir+"/state") // the default store is not that of this machine
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	env.Defer(func() { _ = taken.Close() })
	env.Vars = slices.DeleteFunc(env.Vars, func(v string) bool { return strings.HasPrefix(v, settings.Prefix) })
	env.Setenv("REDIS", "redis://"+server.Addr())
	env.Setenv("TAKEN", taken.Addr().String())
	env.Setenv("KEY", "QocLGFfcLQqGhbDUJydxil6JJZpW+xU+Xe7J9hmWUF0=")
	env.Setenv("COLUMNS", "100")
	upstream := httptest.NewServer(http.HandlerFunc(littleUpstream))
	env.Defer(upstream.Close)
	env.Setenv("UPSTREAM", upstream.URL)
	return nil
}

// littleUpstream is a registry in which one record is invalid.
func littleUpstream(w http.ResponseWriter, r *http.Request) {
	record := func(name string) string {
		return fmt.Sprintf(`{"server":{"name":"%s","description":"A server.","version":"1.0.0"}}`, name)
	}
	switch {
	case r.URL.Path != "/v0.1/servers":
		http.NotFound(w, r)
	case r.URL.Query().Get("cursor") == "":
		fmt.Fprintf(w, `{"servers":[%s,%s],"metadata":{"nextCursor":"2"}}`, record("com.example/first"), record("com.example/second"))
	default:
		fmt.Fprintf(w, `{"servers":[%s,%s]}`, record("com.example/third"), record(`no\u001b[2Jname`))
	}
}

// status runs a command and compares its exit status. Standard input comes from the
// file after "<", if the last two arguments are that.
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N COMMAND [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// TestGoLine keeps the language version of the module: raising it is a decision of its own.
func TestGoLine(t *testing.T) {
	data, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(strings.Split(string(data), "\n"), "go 1.25.0") {
		t.Error("go.mod does not have the line \"go 1.25.0\"")
	}
	if strings.Contains(string(data), "\ntoolchain ") {
		t.Error("go.mod names a toolchain")
	}
}

// deadline is the time for which a test waits for an event that takes milliseconds.
const deadline = 30 * time.Second
