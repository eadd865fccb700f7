package listener

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// shortStall is the time for which nothing may be taken, in these tests.
const shortStall = 300 * time.Millisecond

// bothKinds runs a test for a server with long answers and for one without.
func bothKinds(t *testing.T, test func(*testing.T, Config)) {
	t.Helper()
	for name, c := range map[string]Config{"streams": {Streams: context.Background(), stall: shortStall}, "short answers": {stall: shortStall}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
}

// empty waits until the server has no connection.
func empty(t *testing.T, s *Server) {
	t.Helper()
	for end := time.Now().Add(patience); s.Figures().Open > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d places are taken still", s.Figures().Open)
		}
	}
}

// refuses answers as a server does that gets no token.
func refuses(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("WWW-Authenticate", "Bearer")
	http.Error(w, strings.Repeat("no ", 100), http.StatusUnauthorized)
}

// A client that sends requests and reads no answer is cut, and few of its requests were worked on.
func TestUnreadAnswersEndAConnection(t *testing.T) {
	t.Parallel()
	bothKinds(t, func(t *testing.T, c Config) {
		s, addr := running(t, http.HandlerFunc(refuses), c)
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.(*net.TCPConn).SetReadBuffer(32 << 10)
		_ = conn.SetWriteDeadline(time.Now().Add(patience))
		pipeline := strings.Repeat("GET / HTTP/1.1\r\nHost: example.com\r\n\r\n", 100)
		for err == nil { // until no more find room, or the connection is gone
			_, err = io.WriteString(conn, pipeline)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("the connection is held")
		}
		empty(t, s)
	})
}

// quiet is a stream of events with a pause that is longer than answers may stay unread.
func quiet(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	for range 3 {
		_, _ = io.WriteString(w, "data: x\n\n")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-time.After(3 * shortStall):
		case <-r.Context().Done():
			return
		}
	}
}

// A stream without events is not one that nobody reads.
func TestQuietStreamsLive(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]func(*testing.T) (*http.Client, string){
		"HTTP/1.1": func(t *testing.T) (*http.Client, string) {
			_, addr := running(t, http.HandlerFunc(quiet), Config{Streams: context.Background(), stall: shortStall})
			return &http.Client{Transport: &http.Transport{}}, "http://" + addr
		},
		"HTTP/2": func(t *testing.T) (*http.Client, string) {
			_, client, url := slowHTTP2(t, http.HandlerFunc(quiet), Config{Streams: context.Background(), stall: shortStall})
			return client, url
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, url := of(t)
			t.Cleanup(client.CloseIdleConnections)
			resp, err := client.Get(url)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if got, err := io.ReadAll(resp.Body); err != nil || string(got) != strings.Repeat("data: x\n\n", 3) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

const (
	longAnswer = 1 << 20
	longStall  = time.Second
	sip        = 16 << 10
)

// long answers with longAnswer bytes, in one Write, and reports how it ended.
func long(ended chan<- error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		_, err := w.Write(make([]byte, longAnswer))
		ended <- err
	}
}

// sips reads an answer so slowly that it takes several times as long as it may stay unread.
func sips(t *testing.T, from io.Reader) {
	t.Helper()
	got := 0
	for begin := time.Now(); got < longAnswer; got += sip {
		if _, err := io.ReadFull(from, make([]byte, sip)); err != nil {
			t.Fatalf("after %d bytes and %s: %v", got, time.Since(begin), err)
		}
		time.Sleep(3 * longStall * sip / longAnswer)
	}
}

// A client that reads slowly gets its whole answer.
func TestSlowReadersLive(t *testing.T) {
	t.Parallel()
	t.Run("HTTP/1.1", func(t *testing.T) {
		t.Parallel()
		ended := make(chan error, 1)
		_, addr := running(t, long(ended), Config{Streams: context.Background(), stall: longStall})
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.(*net.TCPConn).SetReadBuffer(sip)
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n")
		sips(t, conn)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Run("HTTP/2", func(t *testing.T) {
		t.Parallel()
		ended := make(chan error, 1)
		_, client, url := slowHTTP2(t, long(ended), Config{Streams: context.Background(), stall: longStall})
		resp, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		sips(t, resp.Body)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// slowHTTP2 serves over TLS, and returns a client with a small window.
func slowHTTP2(t *testing.T, handler http.Handler, c Config) (*Server, *http.Client, string) {
	t.Helper()
	issued := issuedTLS(t)
	c.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: issued.certificates}
	s, addr := running(t, handler, c)
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: issued.client, ForceAttemptHTTP2: true, HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10},
	}}
	t.Cleanup(client.CloseIdleConnections)
	return s, client, "https://" + addr
}

// A client of HTTP/2 that opens no window for an answer gets it reset.
func TestClosedWindowsEndAStream(t *testing.T) {
	t.Parallel()
	bothKinds(t, func(t *testing.T, c Config) {
		ended := make(chan error, 1)
		_, client, url := slowHTTP2(t, long(ended), c)
		resp, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		select {
		case err := <-ended:
			if err == nil {
				t.Error("the whole answer found room")
			}
		case <-time.After(patience):
			t.Fatal("the stream is held")
		}
	})
}

// deaf is a connection that reads nothing once it is told so.
type deaf struct {
	net.Conn
	hears, closed chan struct{}
}

func (d deaf) Read(p []byte) (int, error) {
	select {
	case <-d.hears:
		<-d.closed
		return 0, io.EOF
	default:
		return d.Conn.Read(p)
	}
}

// A client of HTTP/2 that reads nothing from its connection is cut, whatever windows it opened.
func TestUnreadConnectionsOfHTTP2End(t *testing.T) {
	t.Parallel()
	bothKinds(t, func(t *testing.T, c Config) {
		begun, hears, closed := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
		s, client, url := slowHTTP2(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			begun <- struct{}{}
			<-hears
			for err := error(nil); err == nil; {
				_, err = w.Write(make([]byte, sip))
			}
		}), c)
		defer close(closed)
		transport := client.Transport.(*http.Transport)
		transport.HTTP2 = nil // large windows
		transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return deaf{conn, hears, closed}, conn.(*net.TCPConn).SetReadBuffer(sip)
		}
		go func() {
			if resp, err := client.Get(url); err == nil {
				<-closed // to close the body would reset the stream
				_ = resp.Body.Close()
			}
		}()
		<-begun
		close(hears)
		empty(t, s)
	})
}

// A deadline that is set counts beside that of progress, in a Write too, and progress renews its own
// alone.
func TestWriteDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		g := &limitedConn{Conn: near, leave: func() {}, stall: time.Minute}
		took := func(reads int) time.Duration { // until a Write ends, of which a byte is read every half minute
			go func() {
				for range reads {
					time.Sleep(30 * time.Second)
					_, _ = far.Read(make([]byte, 1))
				}
			}()
			begin := time.Now()
			n, err := g.Write(make([]byte, 10))
			if n != min(reads, 10) || (n < 10) != errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%d of %d bytes: %v", n, reads, err)
			}
			synctest.Wait()
			return time.Since(begin)
		}
		if got := took(0); got != time.Minute {
			t.Errorf("nothing is read: %s", got)
		}
		if got := took(10); got != 5*time.Minute {
			t.Errorf("everything is read: %s", got)
		}
		if got := took(3); got < 2*time.Minute || got > 3*time.Minute {
			t.Errorf("three bytes are read: %s", got)
		}
		_ = g.SetDeadline(time.Now().Add(10 * time.Second))
		if got := took(0); got != 10*time.Second {
			t.Errorf("a deadline before that of progress: %s", got)
		}
		_ = g.SetWriteDeadline(time.Now().Add(95 * time.Second))
		if got := took(3); got != 95*time.Second {
			t.Errorf("a deadline amid progress: %s", got)
		}
		_ = g.SetWriteDeadline(time.Time{})
		time.AfterFunc(5*time.Second, func() { _ = g.SetWriteDeadline(time.Now()) })
		if got := took(0); got != 5*time.Second {
			t.Errorf("a deadline set amid a Write: %s", got)
		}
	})
}
