package requestid_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"gatehouse.example/internal/requestid"
)

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// begin returns the id of a request with these header fields.
func begin(t *testing.T, fields ...string) requestid.ID {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	w := httptest.NewRecorder()
	id := requestid.From(requestid.Begin(w, r).Context())
	if id.Own == "" || w.Header().Get("X-Request-Id") != id.Own {
		t.Fatalf("the response names the id %q, the context %q", w.Header().Get("X-Request-Id"), id.Own)
	}
	return id
}

// TestOwnIDsAreDrawnHere sends headers as a client could choose them: well-formed ids are
// kept beside the server's own id, all others are dropped.
func TestOwnIDsAreDrawnHere(t *testing.T) {
	const trace = "0af7651916cd43dd8448eb211c80319c"
	for _, tt := range []struct {
		name          string
		fields        []string
		parent, trace string
	}{
		{"nothing", nil, "", ""},
		{"an id", []string{"X-Request-Id", "7f9c2ba4-e88f-827d-6160-45507605853e"}, "7f9c2ba4-e88f-827d-6160-45507605853e", ""},
		{"an underscore", []string{"X-Request-Id", "web.1:42_a"}, "web.1:42_a", ""},
		{"dots and colons", []string{"X-Request-Id", "web.1:42-a"}, "web.1:42-a", ""},
		{"64 bytes", []string{"X-Request-Id", strings.Repeat("a", 64)}, strings.Repeat("a", 64), ""},
		{"65 bytes", []string{"X-Request-Id", strings.Repeat("a", 65)}, "", ""},
		{"a line break", []string{"X-Request-Id", "a\nlevel=ERROR"}, "", ""},
		{"a pair", []string{"X-Request-Id", "a request=b"}, "", ""},
		{"a space", []string{"X-Request-Id", "a b"}, "", ""},
		{"quotes", []string{"X-Request-Id", `a"b`}, "", ""},
		{"not ASCII", []string{"X-Request-Id", "ａ"}, "", ""},
		{"an escape of terminals", []string{"X-Request-Id", "\x1b[2J"}, "", ""},
		{"two", []string{"X-Request-Id", "a", "X-Request-Id", "b"}, "", ""},
		{"another spelling", []string{"X_Request_Id", "a"}, "", ""},

		{"a trace", []string{"Traceparent", traceparent}, "", trace},
		{"both", []string{"Traceparent", traceparent, "X-Request-Id", "a"}, "a", trace},
		{"a later version", []string{"Traceparent", "01" + traceparent[2:] + "-more"}, "", trace},
		{"more in this version", []string{"Traceparent", traceparent + "-more"}, "", ""},
		{"a later version, glued", []string{"Traceparent", "01" + traceparent[2:] + "more"}, "", ""},
		{"a version that is forbidden", []string{"Traceparent", "ff" + traceparent[2:]}, "", ""},
		{"uppercase", []string{"Traceparent", strings.ToUpper(traceparent)}, "", ""},
		{"a trace of zeros", []string{"Traceparent", "00-" + strings.Repeat("0", 32) + traceparent[35:]}, "", ""},
		{"a parent of zeros", []string{"Traceparent", traceparent[:36] + strings.Repeat("0", 16) + "-01"}, "", ""},
		{"other separators", []string{"Traceparent", strings.ReplaceAll(traceparent, "-", "_")}, "", ""},
		{"two traces", []string{"Traceparent", traceparent, "Traceparent", traceparent}, "", ""},
		{"too long", []string{"Traceparent", "01" + traceparent[2:] + "-" + strings.Repeat("a", 128)}, "", ""},
		{"too short", []string{"Traceparent", traceparent[:54]}, "", ""},
	} {
		id := begin(t, tt.fields...)
		if id.Parent != tt.parent || id.Trace != tt.trace {
			t.Errorf("%s: got %+v, want parent %q and trace %q", tt.name, id, tt.parent, tt.trace)
		}
		if len(id.Own) != 26 || id.Own == id.Parent {
			t.Errorf("%s: the server's own id is %q", tt.name, id.Own)
		}
	}
	if a, b := begin(t, "X-Request-Id", "a"), begin(t, "X-Request-Id", "a"); a.Own == b.Own {
		t.Error("two requests with the same X-Request-Id got the same own id")
	}
}

// TestOneIDForARequest calls Begin twice for a request, as a guard inside a gateway does.
func TestOneIDForARequest(t *testing.T) {
	w := httptest.NewRecorder()
	r := requestid.Begin(w, httptest.NewRequest(http.MethodGet, "/", nil))
	again := requestid.Begin(w, r)
	if first, second := requestid.From(r.Context()), requestid.From(again.Context()); first != second {
		t.Errorf("the request is %v, and then %v", first, second)
	}
}

func TestLinesSayTheirRequest(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(requestid.LogHandler(requestid.LogHandler(slog.NewTextHandler(&out, nil)))).With("a", 1)
	id := requestid.ID{Own: "OWN", Parent: "theirs"}
	log.InfoContext(requestid.With(t.Context(), id), "one")
	log.InfoContext(t.Context(), "two")
	log.WithGroup("g").InfoContext(requestid.With(t.Context(), id), "three", "b", 2)
	lines := strings.Split(out.String(), "\n")
	if !strings.HasSuffix(lines[0], "msg=one a=1 request=OWN parent=theirs") || !strings.HasSuffix(lines[1], "msg=two a=1") || !strings.HasSuffix(lines[2], "msg=three a=1 g.b=2 g.request=OWN g.parent=theirs") {
		t.Errorf("the log has\n%s", out.String())
	}
}

// TestALineForTwoRequests: a line that is handed on twice has the ids of its own request each time, and
// no other: handlers share the attributes of a line.
func TestALineForTwoRequests(t *testing.T) {
	var out bytes.Buffer
	h := requestid.LogHandler(slog.NewTextHandler(&out, nil))
	line := slog.NewRecord(time.Time{}, slog.LevelInfo, "one", 0)
	want := "level=INFO msg=one"
	for range 8 { // one at a time, which leaves room behind the last one
		line.AddAttrs(slog.Int("a", 1))
		want += " a=1"
	}
	for _, own := range []string{"FIRST", "SECOND"} {
		out.Reset()
		if err := h.Handle(requestid.With(t.Context(), requestid.ID{Own: own}), line); err != nil || out.String() != want+" request="+own+"\n" {
			t.Errorf("%v, the log has\n%s", err, out.String())
		}
	}
}
