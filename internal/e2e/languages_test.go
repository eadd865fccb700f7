//go:build e2e

package e2e

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gatehouse.example/middleware/middlewaretest"
)

// language is one of the examples of docs/languages.md: a protected notes server.
type language struct {
	name    string
	command func(t *testing.T) *exec.Cmd
	// introspects reports that it uses introspection.
	introspects bool
	// passes are the attacks that get through, with the reason. Only the issuer could make
	// such tokens, and it makes none.
	passes map[string]string
}

const repeated = "a member that stands twice: this reader takes the last one"

var languages = []language{
	{name: "TypeScript with jose", command: typescriptServer, passes: map[string]string{
		"payload: aud twice": repeated, "payload: iss twice": repeated,
	}},
	{name: "TypeScript with introspection", command: typescriptServer, introspects: true},
	{name: "Python", command: pythonServer, passes: map[string]string{
		"payload: aud twice": repeated, "payload: iss twice": repeated,
	}},
	{name: "Java", command: javaServer, passes: map[string]string{
		"Authorization: a tab after the scheme": "the server of the JDK turns a tab into a space",
	}},
}

// examplesOf is the folder with the files of a language.
func examplesOf(t *testing.T, language string) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", "..", "docs", "examples", language))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// typescriptServer runs the files where their packages are found. Node reads TypeScript.
func typescriptServer(t *testing.T) *exec.Cmd {
	t.Helper()
	node, sdk := typescript(t)
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(examplesOf(t, "typescript"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(sdk, "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(node, "server.ts")
	cmd.Dir = dir
	return cmd
}

// pythonServer runs the files with the packages of Debian, which are for its own Python.
func pythonServer(t *testing.T) *exec.Cmd {
	t.Helper()
	const python = "/usr/bin/python3"
	if out, err := exec.Command(python, "-c", "import jwt, cryptography, uvicorn").CombinedOutput(); err != nil {
		t.Fatalf("%s needs python3-jwt, python3-cryptography and python3-uvicorn; scripts/test installs them: %v\n%s", python, err, out)
	}
	cmd := exec.Command(python, "-B", "server.py")
	cmd.Dir = examplesOf(t, "python")
	return cmd
}

// javaServer runs the file directly. Java is not required for the whole check: the example is
// tested where Java is installed.
func javaServer(t *testing.T) *exec.Cmd {
	t.Helper()
	java, err := exec.LookPath("java")
	var jars []string
	for _, name := range []string{"core", "databind", "annotations"} {
		jar := "/usr/share/java/jackson-" + name + ".jar"
		_, missing := os.Stat(jar)
		jars, err = append(jars, jar), cmp.Or(err, missing)
	}
	if err != nil {
		t.Skipf("the Java example did not run: it needs a JDK of 17 or later and libjackson2-databind-java (%v)", err)
	}
	return exec.Command(java, "-cp", strings.Join(jars, ":"), filepath.Join(examplesOf(t, "java"), "Server.java"))
}

// startLanguage runs an example on an address, for the resource at /mcp there. Id and secret are
// its credentials for introspection, if it uses that.
func startLanguage(t *testing.T, l language, address, issuer, id, secret string) *process {
	t.Helper()
	cmd := l.command(t)
	_, port, _ := strings.Cut(address, ":")
	cmd.Env = append(cleanEnvironment(), "RESOURCE=http://"+address+"/mcp", "ISSUER="+issuer, "PORT="+port)
	if l.introspects {
		cmd.Env = append(cmd.Env, "INTROSPECTION_CLIENT_ID="+id, "INTROSPECTION_SECRET="+secret)
	}
	return startForeign(t, "http://"+address, cmd)
}

// startAttacked runs an example for an issuer that mints any token.
func startAttacked(t *testing.T, l language) (*middlewaretest.Issuer, *process) {
	t.Helper()
	issuer := middlewaretest.NewIssuer(t)
	id, secret := issuer.Credentials()
	return issuer, startLanguage(t, l, lowAddress(t), issuer.URL(), id, secret)
}

// lowAddress returns a free loopback address with a port below the range that Linux assigns by
// itself, because these programs take seconds to listen.
func lowAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000)))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no port between 20000 and 32000 is free")
	return ""
}

// eachLanguage runs a test against every example, side by side.
func eachLanguage(t *testing.T, test func(t *testing.T, l language)) {
	t.Helper()
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			test(t, l)
		})
	}
}
