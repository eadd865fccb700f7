//go:build e2e

package doctor_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestTypeScriptSDKAgrees plays the official TypeScript SDK and its profile against every animal:
// where one stops, so does the other.
func TestTypeScriptSDKAgrees(t *testing.T) {
	t.Parallel()
	node, sdk := os.Getenv("CONFORMANCE_NODE"), os.Getenv("TYPESCRIPT_SDK")
	if node == "" || sdk == "" {
		t.Fatal("CONFORMANCE_NODE and TYPESCRIPT_SDK must name node 22 and the folder of the TypeScript SDK; scripts/test sets them")
	}
	animals := agreeing()
	var stables []*stable
	for _, a := range animals {
		s := healthy(notes, issuer)
		a.change(s)
		stables = append(stables, s.open())
	}
	bridge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		at, err2 := url.Parse(r.FormValue("url"))
		if err != nil || err2 != nil {
			t.Errorf("%s: %v, %v", r.URL, err, err2)
			return
		}
		inner := r.Clone(r.Context())
		inner.URL = at
		stables[n].answer(w, inner)
	}))
	defer bridge.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, node, "testdata/zoo.mjs", bridge.URL, notes, strconv.Itoa(len(animals)))
	command.Env = append(os.Environ(), "TYPESCRIPT_SDK="+sdk)
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != len(animals) {
		t.Fatalf("%d lines for %d animals:\n%s", len(lines), len(animals), out)
	}
	for i, a := range animals {
		s := healthy(notes, issuer)
		a.change(s)
		outcome := strings.TrimPrefix(lines[i], fmt.Sprint(i)+" ")
		compareWay(t, a, s, "typescript-sdk", outcome == "arrived", outcome)
	}
}
