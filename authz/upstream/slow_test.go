package upstream_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse.example/authz/upstream"
)

// piped makes a client whose provider is a function on the other end of a pipe.
func piped(t *testing.T, serve func(net.Conn)) *upstream.Client {
	t.Helper()
	client, err := upstream.New(upstream.Provider{
		ID: "company", Issuer: "http://localhost", ClientID: "gatehouse", ClientSecret: "secret", Allow: upstream.Allow{Anybody: true},
	}, upstream.Options{Redirect: redirect, Dev: true})
	if err != nil {
		t.Fatal(err)
	}
	client.Dial(func(context.Context) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go serve(theirs)
		return ours, nil
	})
	return client
}

// after reads a request and then does something.
func after(do func(w net.Conn, r *http.Request)) func(net.Conn) {
	return func(c net.Conn) {
		defer c.Close()
		for in := bufio.NewReader(c); ; {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			io.Copy(io.Discard, r.Body)
			do(c, r)
		}
	}
}

// metadataOr answers metadata, and other requests otherwise.
func metadataOr(other func(w net.Conn, r *http.Request)) func(net.Conn) {
	return after(func(w net.Conn, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/.well-known/") {
			other(w, r)
			return
		}
		body := `{"issuer":"http://localhost","authorization_endpoint":"http://localhost/a","token_endpoint":"http://localhost/token","jwks_uri":"http://localhost/keys"}`
		fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	})
}

// A provider that is slow, silent, endless or talks nonsense costs a sign-in at most ten seconds
// and a mebibyte, at the metadata as at the token endpoint.
func TestBadProviders(t *testing.T) {
	silent := func(w net.Conn, _ *http.Request) { io.Copy(io.Discard, w) }
	for name, test := range map[string]struct {
		answer func(w net.Conn, r *http.Request)
		kind   error
		reason upstream.Reason
		within time.Duration
	}{
		"silent": {silent, upstream.ErrUnavailable, upstream.ReasonSlow, 5 * time.Second},
		"a drop a second": {func(w net.Conn, _ *http.Request) {
			fmt.Fprint(w, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
			for {
				if _, err := w.Write([]byte(" ")); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}, upstream.ErrUnavailable, upstream.ReasonSlow, 10 * time.Second},
		"endless": {func(w net.Conn, _ *http.Request) {
			fmt.Fprint(w, "HTTP/1.1 200 OK\r\n\r\n")
			for {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}, upstream.ErrInvalid, upstream.ReasonNonsense, 0},
		"endless headers": {func(w net.Conn, _ *http.Request) {
			fmt.Fprint(w, "HTTP/1.1 200 OK\r\n")
			for {
				if _, err := fmt.Fprintf(w, "X-More: %s\r\n", strings.Repeat("m", 1000)); err != nil {
					return
				}
			}
		}, upstream.ErrUnavailable, upstream.ReasonDown, 0},
		"a redirect": {func(w net.Conn, _ *http.Request) {
			fmt.Fprint(w, "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://localhost/elsewhere\r\nContent-Length: 0\r\n\r\n")
		}, upstream.ErrInvalid, upstream.ReasonNonsense, 0},
		"no HTTP":  {func(w net.Conn, _ *http.Request) { fmt.Fprint(w, "220 mail.example.com\r\n"); w.Close() }, upstream.ErrUnavailable, upstream.ReasonDown, 0},
		"hangs up": {func(w net.Conn, _ *http.Request) { w.Close() }, upstream.ErrUnavailable, upstream.ReasonDown, 0},
		"a page": {func(w net.Conn, _ *http.Request) {
			fmt.Fprint(w, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>")
		}, upstream.ErrInvalid, upstream.ReasonNonsense, 0},
		"nested": {func(w net.Conn, _ *http.Request) {
			fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n%s", strings.Repeat("[", 100000))
		}, upstream.ErrInvalid, upstream.ReasonNonsense, 0},
	} {
		for at, serve := range map[string]func(net.Conn){"metadata": after(test.answer), "token": metadataOr(test.answer)} {
			t.Run(name+" at "+at, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					client := piped(t, serve)
					defer client.Idle()
					begun := time.Now()
					_, err := client.Finish(t.Context(), upstream.NewAttempt("state"), upstream.Callback{Code: "the code"})
					refuses(t, err, test.kind, test.reason)
					if took := time.Since(begun); took > test.within {
						t.Errorf("it took %s, want at most %s", took, test.within)
					}
					if strings.Contains(err.Error(), "the code") {
						t.Error("the error has the code")
					}
					time.Sleep(2 * time.Second) // the provider notices that nobody listens
				})
			})
		}
	}
}

// Nobody connects to a provider for longer than three seconds.
func TestNoConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := piped(t, nil)
		client.Dial(func(ctx context.Context) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		begun := time.Now()
		_, err := client.Begin(t.Context(), upstream.NewAttempt("state"))
		refuses(t, err, upstream.ErrUnavailable, upstream.ReasonSlow)
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// A person who leaves is not waited for, and the fetch goes on for the others.
func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := piped(t, metadataOr(func(w net.Conn, _ *http.Request) { io.Copy(io.Discard, w) }))
		defer client.Idle()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := client.Finish(ctx, upstream.NewAttempt("state"), upstream.Callback{Code: "code"})
		refuses(t, err, upstream.ErrUnavailable, upstream.ReasonInterrupted)
		if !errors.Is(err, context.Canceled) {
			t.Error("it is no error of an ended context")
		}
	})
}

// Many slow answers together are too slow: nobody waits for more than half a minute.
func TestSlowInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := upstream.New(upstream.Provider{
			ID: "company", Preset: upstream.GitHub, Issuer: "http://localhost", ClientID: "gatehouse", ClientSecret: "secret", Allow: upstream.Allow{Groups: []string{"example/staff"}},
		}, upstream.Options{Redirect: redirect, Dev: true})
		if err != nil {
			t.Fatal(err)
		}
		teams := "[" + strings.TrimSuffix(strings.Repeat(`{"slug":"t","organization":{"login":"example"}},`, 100), ",") + "]"
		client.Dial(func(context.Context) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go after(func(w net.Conn, r *http.Request) {
				body := map[string]string{"/login/oauth/access_token": `{"access_token":"a","token_type":"bearer"}`, "/api/v3/user": `{"id":1,"login":"ada"}`, "/api/v3/user/emails": `[]`, "/api/v3/user/teams": teams}[r.URL.Path]
				time.Sleep(4 * time.Second)
				fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			})(theirs)
			return ours, nil
		})
		defer client.Idle()
		begun := time.Now()
		_, err = client.Finish(t.Context(), upstream.NewAttempt("state"), upstream.Callback{Code: "code"})
		refuses(t, err, upstream.ErrUnavailable, upstream.ReasonSlow)
		if took := time.Since(begun); took != 30*time.Second {
			t.Errorf("it took %s", took)
		}
		time.Sleep(5 * time.Second) // the provider notices that nobody listens
	})
}

// Of 400 sign-ins at a provider that hangs, 32 call at a time, 256 wait, and the rest is told at
// once; nobody waits for more than ten seconds. Another provider does not notice.
func TestCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open, most := 0, 0
		lock := make(chan struct{}, 1)
		count := func(n int) {
			lock <- struct{}{}
			open += n
			most = max(most, open)
			<-lock
		}
		client := piped(t, metadataOr(func(w net.Conn, _ *http.Request) {
			count(1)
			io.Copy(io.Discard, w)
			count(-1)
		}))
		defer client.Idle()
		if _, err := client.Begin(t.Context(), upstream.NewAttempt("state")); err != nil {
			t.Fatal(err)
		}
		begun, reasons := time.Now(), make(chan upstream.Reason, 400)
		for range 400 {
			go func() {
				_, err := client.Finish(t.Context(), upstream.NewAttempt("state"), upstream.Callback{Code: "code"})
				var e *upstream.Error
				if !errors.As(err, &e) {
					t.Error(err)
					e = &upstream.Error{}
				}
				reasons <- e.Reason
			}()
		}
		counts := map[upstream.Reason]int{}
		for range 400 {
			counts[<-reasons]++
		}
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("somebody waited for %s", took)
		}
		time.Sleep(time.Second) // the provider notices that nobody listens
		lock <- struct{}{}
		defer func() { <-lock }()
		if counts[upstream.ReasonSlow] < 32 || counts[upstream.ReasonBusy] < 400-32-256 || most > 64 { // the provider notices late that a call ended
			t.Errorf("reasons %v, at most %d calls at a time", counts, most)
		}
	})
}
