package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"gatehouse.example/cmd/authz/internal/settings"
)

// inEnvironment runs the doctor with variables.
func inEnvironment(environ []string, stdin string, args ...string) (int, string, string) {
	var stdout, stderr bytes.Buffer
	code := run(context.Background(), append([]string{"doctor"}, args...), environ, strings.NewReader(stdin), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// TestDoctorEnvironment: every flag of the doctor is also a variable; the command line beats it, also
// where two flags exclude each other.
func TestDoctorEnvironment(t *testing.T) {
	at := patient(t)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("two words"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, environ, stdin, args string
		code                       int
		want                       string // in either stream
	}{
		{"json", "AUTHZ_JSON=true", "", at + "/ill", exitRefused, `"target":`},
		{"json gives way", "AUTHZ_JSON=true", "", at + "/well --junit", exitDone, "<testsuite"},
		{"sarif", "AUTHZ_SARIF=true", "", at + "/well", exitDone, `"version":"2.1.0"`},
		{"junit", "AUTHZ_JUNIT=true", "", at + "/well", exitDone, "<testsuite"},
		{"two formats", "AUTHZ_JSON=true AUTHZ_SARIF=true", "", at + "/well", exitUsage, "AUTHZ_JSON and AUTHZ_SARIF cannot be used together: keep one"},
		{"as", "AUTHZ_AS=codex", "", at + "/ill", exitDone, "codex"},
		{"as nobody", "AUTHZ_AS=nobody", "", at + "/ill", exitUsage, "--as takes one of"},
		{"as gives way", "AUTHZ_AS=nobody", "", at + "/ill --as codex", exitDone, "codex"},
		{"server", "AUTHZ_SERVER=" + at, "", "", exitDone, at},
		{"server gives way", "AUTHZ_SERVER=http://127.0.0.1:1", "", at + "/well", exitDone, at},
		{"list", "AUTHZ_LIST=true", "", "", exitDone, "redirect-traversal"},
		{"token", "AUTHZ_TOKEN=two\x00words", "", at + "/well", exitUsage, "it is not a bearer token"},
		{"token file", "AUTHZ_TOKEN_FILE=" + file, "", at + "/well", exitUsage, "does not have one access token"},
		{"token from standard input", "AUTHZ_TOKEN_FILE=-", "two words", at + "/well", exitUsage, "- does not have one access token"},
		{"token file gives way", "AUTHZ_TOKEN_FILE=" + file, "", at + "/well --token a-token", exitRefused, "token-refused"},
		{"token and file", "AUTHZ_TOKEN=a-token AUTHZ_TOKEN_FILE=" + file, "", at + "/well", exitUsage, "AUTHZ_TOKEN and AUTHZ_TOKEN_FILE cannot be used together"},
		{"client", "AUTHZ_CLIENT_ID=known", "", at + "/well", exitUsage, "--client-id is of use with"},
		{"redirect URI", "AUTHZ_REDIRECT_URI=https://app.example.com/callback", "", at + "/well", exitUsage, "--redirect-uri is of use with"},
		{"wait", "AUTHZ_WAIT=5m", "", at + "/well", exitUsage, "--wait takes a time"},
		{"no time", "AUTHZ_WAIT=soon", "", at + "/well", exitUsage, "AUTHZ_WAIT"},
		{"host", "AUTHZ_ALLOW_HOST=a.example.com,b.example.com:80", "", at + "/well", exitUsage, `"b.example.com:80" has a port: give b.example.com`},
		{"register", "AUTHZ_REGISTER=perhaps", "", at + "/well", exitUsage, "AUTHZ_REGISTER"},
		{"sign-in", "AUTHZ_SIGN_IN=true AUTHZ_WAIT=-5m", "", at + "/well", exitUsage, "--wait takes a time"},
		{"a file of the server", "AUTHZ_CONFIG=/nowhere", "", at + "/well", exitDone, at},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := inEnvironment(strings.Split(c.environ, " "), c.stdin, strings.Fields(c.args)...)
			if code != c.code || !strings.Contains(stdout+stderr, c.want) {
				t.Errorf("exit %d, want %d and %q\n%.600s\n%s", code, c.code, c.want, stdout, stderr)
			}
		})
	}
}

// TestDoctorVariables: no flag is without a variable that is tried above.
func TestDoctorVariables(t *testing.T) {
	source, err := os.ReadFile("doctorsettings_test.go")
	if err != nil {
		t.Fatal(err)
	}
	parser, err := newProgram(nil, nil, nil, nil).parser(context.Background(), &grammar{}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(parser.Model.Children, func(n *kong.Node) bool { return n.Name == "doctor" })
	for _, flag := range parser.Model.Children[at].Flags {
		if flag.Name != "help" && !strings.Contains(string(source), settings.Variable(flag.Name)+"=") {
			t.Errorf("--%s as %s is not tried", flag.Name, settings.Variable(flag.Name))
		}
	}
}
