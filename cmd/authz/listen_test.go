package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/storage"
)

// held is a server with a request in flight.
type held struct {
	*site
	stop    context.CancelFunc
	release chan struct{} // lets the request finish
	answer  chan error    // what the client got
	done    chan error    // what serve returned
}

func hold(t *testing.T, grace time.Duration) *held {
	t.Helper()
	st, err := newSite(t.Context(), "127.0.0.1:0", "127.0.0.1:0", "", "")
	if err != nil {
		t.Fatal(err)
	}
	st.log, st.grace = slog.New(slog.DiscardHandler), grace
	ctx, stop := context.WithCancel(t.Context())
	h := &held{st, stop, make(chan struct{}), make(chan error, 1), make(chan error, 1)}
	arrived := make(chan struct{})
	public := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-h.release
		_, _ = io.WriteString(w, "finished")
	})
	go func() {
		h.done <- st.serve(ctx, public, st.probes(func(context.Context) error { return nil }, tight(func() storage.Room { return storage.RoomEnough })))
	}()
	go func() {
		resp, err := http.Get("http://" + st.public.Addr().String())
		if err == nil {
			var body []byte
			body, err = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err == nil && string(body) != "finished" {
				err = errors.New("half an answer")
			}
		}
		h.answer <- err
	}()
	select {
	case <-arrived:
	case <-time.After(deadline):
		t.Fatal("the request does not arrive")
	}
	return h
}

// When the server stops, readiness turns off, new connections are refused, and requests in flight
// may finish.
func TestDrain(t *testing.T) {
	h := hold(t, deadline)
	admin := "http://" + h.admin.Addr().String()
	if status, _ := get(t, http.DefaultClient, admin+"/readyz"); status != 200 {
		t.Errorf("/readyz before: %d", status)
	}
	h.stop()
	eventually(t, "/readyz says that the server is stopping", func() bool {
		status, body := get(t, http.DefaultClient, admin+"/readyz")
		return status == 503 && body == "the server is stopping\n"
	})
	if status, _ := get(t, http.DefaultClient, admin+"/livez"); status != 200 {
		t.Errorf("/livez while stopping: %d", status)
	}
	eventually(t, "nobody new is let in", func() bool {
		c, err := net.Dial("tcp", h.public.Addr().String())
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	select {
	case err := <-h.done:
		t.Fatalf("the server left a request behind: %v", err)
	default:
	}
	close(h.release)
	if err := <-h.answer; err != nil {
		t.Errorf("the request in flight: %v", err)
	}
	if err := <-h.done; err != nil {
		t.Errorf("serve: %v", err)
	}
}

func TestDrainDoesNotWaitForever(t *testing.T) {
	h := hold(t, 20*time.Millisecond)
	h.stop()
	select {
	case err := <-h.done:
		if err != nil {
			t.Errorf("serve: %v", err)
		}
	case <-time.After(deadline):
		t.Fatal("the server waits for a request that never ends")
	}
	if err := <-h.answer; err == nil {
		t.Error("the request was not cut off")
	}
	close(h.release)
}

// The binary ends with status 0 on both signals.
func TestSignals(t *testing.T) {
	for _, signal := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		t.Run(signal.String(), func(t *testing.T) {
			var stdout, stderr lockedBuffer
			cmd := exec.Command("authz", "serve", "--dev", "--listen", "127.0.0.1:0", "--drain", "0s")
			cmd.Stdout, cmd.Stderr, cmd.Env = &stdout, &stderr, append(os.Environ(), noLookout)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			t.Cleanup(func() { _ = cmd.Process.Kill() })
			eventually(t, "the server is ready", func() bool { return strings.Contains(stdout.String(), "connect to") })
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("%v\n%s", err, stderr.String())
				}
			case <-time.After(deadline):
				t.Error("it does not end")
			}
		})
	}
}

// A request with headers that are too large is refused.
func TestLimits(t *testing.T) {
	r := start(t, nil, "--dev", "--listen", "127.0.0.1:0")
	status, _ := get(t, http.DefaultClient, r.shown("issuer")+"/healthz?"+strings.Repeat("a", 64<<10))
	if status != http.StatusRequestHeaderFieldsTooLarge && status != http.StatusRequestURITooLong {
		t.Errorf("64 KiB of URL: %d", status)
	}
}

// Two listeners of one process on one address are a mistake before anything starts.
func TestCollision(t *testing.T) {
	for _, tt := range []struct {
		listen, admin, challenges string
		want                      int
	}{
		{"127.0.0.1:8080", "127.0.0.1:9090", "", 0},
		{"127.0.0.1:8080", off, "", 0},
		{"127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", 0},
		{"127.0.0.1:8080", "127.0.0.2:8080", "", 0},
		{"0.0.0.0:8080", "[::1]:8080", "", 0},
		{"0.0.0.0:8080", "localhost:8080", "", 0},
		{"8080", "8080", "", 0}, // no addresses
		{"127.0.0.1:8080", "127.0.0.1:8080", "", 1},
		{"127.0.0.1:8080", "127.0.0.1:08080", "", 1},
		{"localhost:8080", "localhost:8080", "", 1},
		{":8080", "127.0.0.1:8080", "", 1},
		{"127.0.0.1:8080", ":8080", "", 1},
		{"[::]:8080", "[::1]:8080", "", 1},
		{"0.0.0.0:8080", "192.0.2.1:8080", "", 1},
		{":443", "127.0.0.1:9090", ":443", 1},
		{":80", ":80", ":80", 3},
	} {
		said := 0
		if err := collision(tt.listen, tt.admin, tt.challenges); err != nil {
			said = strings.Count(err.Error(), "are one address")
		}
		if said != tt.want {
			t.Errorf("%s %s %s: %d mistakes, want %d", tt.listen, tt.admin, tt.challenges, said, tt.want)
		}
	}
	serve := serveSettings{Listen: "127.0.0.1:80", AdminListen: off}
	serve.ACMEHTTPListen = ":80"
	gateway := gatewaySettings{Listen: "127.0.0.1:80", AdminListen: ":80"}
	registry := registryServe{AdminListen: "127.0.0.1:80"}
	registry.Listen = "127.0.0.1:80"
	for name, err := range map[string]error{"serve": serve.formMistakes(), "gateway": gateway.formMistakes(), "registry": registry.mistakes()} {
		if err == nil || !strings.Contains(err.Error(), "are one address: give each listener a port of its own") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A number that no server could keep to is a mistake, and not another number.
func TestNumbersOutOfRange(t *testing.T) {
	for want, change := range map[string]func(*serveSettings){
		"key-rotation -1d is below 0; 0 is for ever":                                                 func(s *serveSettings) { s.KeyRotation = settings.Duration(-settings.Day) },
		"refresh-window -5s is below 0; 0 is no window":                                              func(s *serveSettings) { s.RefreshWindow = settings.Duration(-5 * time.Second) },
		"registration-quota -1 is not a number of clients up to 2147483647; 0 is any number":         func(s *serveSettings) { s.RegistrationQuota = -1 },
		"registration-quota 2147483648 is not a number of clients up to 2147483647; 0 is any number": func(s *serveSettings) { s.RegistrationQuota = math.MaxInt32 + 1 },
	} {
		for _, good := range []bool{true, false} {
			s := serveSettings{RegistrationQuota: math.MaxInt32}
			if !good {
				change(&s)
			}
			if err := s.formMistakes(); strings.Contains(err.Error(), want) == good {
				t.Errorf("%s: %v", want, err)
			}
		}
	}
}
