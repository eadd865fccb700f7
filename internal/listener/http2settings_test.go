package listener

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"
)

// A client of HTTP/2 reads the limits in the first frame of the server (RFC 9113 sections 4.1 and
// 6.5.2).
func TestHTTP2SettingsAreSent(t *testing.T) {
	_, url, client, _ := secure(t)
	roots := client.Transport.(*http.Transport).TLSClientConfig.RootCAs
	conn, err := tls.Dial("tcp", url[len("https://"):], &tls.Config{RootCAs: roots, ServerName: "example.com", NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"); err != nil {
		t.Fatal(err)
	}
	head := make([]byte, 9)
	if _, err := io.ReadFull(conn, head); err != nil || head[3] != 4 {
		t.Fatalf("%x: %v", head, err)
	}
	body := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
	if _, err := io.ReadFull(conn, body); err != nil {
		t.Fatal(err)
	}
	got := map[uint16]uint32{}
	for ; len(body) >= 6; body = body[6:] {
		got[binary.BigEndian.Uint16(body)] = binary.BigEndian.Uint32(body[2:])
	}
	const streams, window, frame = 3, 4, 5
	if got[streams] != 100 || got[window] != 64<<10 || got[frame] != 16<<10 {
		t.Errorf("%v", got)
	}
}

// A request without a place is told when to come back, and no cache keeps that.
func TestRefusedStreamsAreToldWhen(t *testing.T) {
	c := &connections{most: 8, log: slog.New(slog.DiscardHandler), from: map[string]int{}}
	c.trusted = []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}
	ctx := c.withTurns(t.Context(), fromProxy{})
	reached := 0
	handler := c.weigh(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }))
	for range 9 {
		c.begin(ctx.Value(turnsKey{}).(*turns))
	}
	r := httptest.NewRequest("GET", "/", nil).WithContext(ctx)
	r.ProtoMajor = 2
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" || w.Header().Get("Cache-Control") != "no-store" || reached != 0 {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	c.end(ctx.Value(turnsKey{}).(*turns))
	handler.ServeHTTP(httptest.NewRecorder(), r)
	if reached != 1 || c.all != 7 {
		t.Errorf("%d requests were answered, and %d places are taken", reached, c.all)
	}
}
