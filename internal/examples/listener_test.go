package examples

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"gatehouse.example/internal/listener/listenertest"
	"gatehouse.example/middleware"
)

// TestOwnListener runs the page's example of a listener of one's own, and attacks it.
func TestOwnListener(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	server := &http.Server{Handler: middleware.CloseUnclear(mux), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	listenertest.Smuggling(t, listenertest.Dial(listener.Addr().String()), "notes.example.com", "/mcp")
}
