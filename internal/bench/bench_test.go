package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// at returns a target that is the handler.
func at(t *testing.T, h http.HandlerFunc) *target {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return &target{name: "handler", addresses: []string{strings.TrimPrefix(server.URL, "http://")}, host: host, metadata: "/metadata", codes: 2}
}

// TestWireReadsWhatServersSend: the generator reads bodies of both framings on one connection,
// opens another one when the server closes it, and keeps and drops cookies as a browser does.
func TestWireReadsWhatServersSend(t *testing.T) {
	peers := map[string]bool{}
	target := at(t, func(w http.ResponseWriter, r *http.Request) {
		peers[r.RemoteAddr] = true
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/chunked":
			http.SetCookie(w, &http.Cookie{Name: "a", Value: "1"})
			http.SetCookie(w, &http.Cookie{Name: "b", Value: "2"})
			for range 3 {
				fmt.Fprint(w, "part ")
				w.(http.Flusher).Flush()
			}
		case "/last":
			http.SetCookie(w, &http.Cookie{Name: "a", MaxAge: -1})
			w.Header().Set("Connection", "close")
			fmt.Fprint(w, r.Header.Get("Cookie"))
		default:
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(http.StatusSeeOther)
			fmt.Fprintf(w, "%s %s %s", r.Host, body, r.Header.Get("Cookie"))
		}
	})
	w := target.wireTo(0)
	defer w.close()
	for i, step := range []struct {
		path, body, location string
		status               int
	}{
		{"/chunked", "part part part ", "", 200},
		{"/last", "a=1; b=2", "", 200},
		{"/other", host + " x=y b=2", "/elsewhere", 303},
	} {
		send := w.get
		if step.path == "/other" {
			send = func(path string) (answer, error) { return w.submit(path, issuer, []byte("x=y")) }
		}
		a, err := send(step.path)
		if err != nil || string(a.body) != step.body || a.location != step.location || a.status != step.status {
			t.Errorf("step %d: %d %q to %q, %v", i, a.status, a.body, a.location, err)
		}
	}
	if len(peers) != 2 {
		t.Errorf("%d connections, want one until the server closed it, and another", len(peers))
	}
}

// TestAWrongAnswerEndsTheRun: an operation with another status, or without what its answer must
// contain, is an error, and not a fast operation.
func TestAWrongAnswerEndsTheRun(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"status":  func(w http.ResponseWriter, _ *http.Request) { http.Error(w, `"issuer"`, http.StatusServiceUnavailable) },
		"content": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") },
	} {
		target := at(t, handler)
		for _, op := range operations {
			workers, end, err := prepare(target, op, 2)
			if err == nil {
				_, err = drive(t.Context(), workers, time.Millisecond)
			}
			end()
			if err == nil {
				t.Errorf("%s: a wrong answer to %s is taken for one", name, op.name)
			}
		}
	}
}

// TestMistakesInFlags: what cannot be measured is refused before anything is built.
func TestMistakesInFlags(t *testing.T) {
	for _, args := range []string{
		"-operations nothing", "-store disk", "-store file -processes 2", "-store memory -grants 5", "-connections 0", "-connections x", "-rounds 0", "more",
	} {
		if _, err := parse(strings.Fields(args), io.Discard); err == nil {
			t.Errorf("%s is accepted", args)
		}
	}
	o, err := parse(nil, io.Discard)
	if err != nil || len(o.operations) != len(operations)+2 {
		t.Errorf("without flags: %v, %v", o.operations, err)
	}
}

// TestRelation: the ratio is that to the floor with the same operation and connections, and the
// median has the processor time in the middle.
func TestRelation(t *testing.T) {
	points := []point{
		median([]point{{Operation: "a", Connections: 1, ServerMicros: 9}, {Operation: "a", Connections: 1, ServerMicros: 2, RedisMicros: 4},
			{Operation: "a", Connections: 1, ServerMicros: 1}}),
		{Operation: "a", Connections: 1, Server: floorName, ServerMicros: 2}, {Operation: "a", Connections: 2, Server: floorName, ServerMicros: 1},
	}
	relate(points)
	if got := points[0].ToFloor; got != 3 {
		t.Errorf("the ratio is %v, want 3", got)
	}
}

// TestInfo: of Redis' counts those are taken that the report needs.
func TestInfo(t *testing.T) {
	got := parseInfo("# Server\r\nredis_version:7.0.15\r\nused_memory:100\r\nused_memory_rss:7\r\ntotal_reads_processed:5\r\ntotal_commands_processed:9\r\n")
	if want := (redisInfo{version: "7.0.15", reads: 5, commands: 9, memory: 100}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
