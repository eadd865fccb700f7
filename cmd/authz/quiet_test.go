package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// besiege sends n requests of many kinds, eight at a time.
func besiege(t *testing.T, n int, kinds []func(i int)) {
	t.Helper()
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			for i := w; i < n; i += 8 {
				kinds[(i/8)%len(kinds)](i)
			}
		})
	}
	all.Wait()
}

var (
	moreLikeThis = regexp.MustCompile(`and (\d+) more like this in the last minute`)
	errorLine    = regexp.MustCompile(`^(time=\S+ level=ERROR|\{"time":"[^"]+","level":"ERROR")`)
)

// quiet checks the log of a program that has ended: few lines, each one line, none of them
// an error, and the others counted.
func quiet(t *testing.T, log string, most, least int) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(log), "\n")
	told := len(lines)
	for _, found := range moreLikeThis.FindAllStringSubmatch(log, -1) {
		n, _ := strconv.Atoi(found[1])
		told += n
	}
	if len(lines) > most || told < least {
		t.Errorf("%d lines that tell of %d, want at most %d that tell of %d or more", len(lines), told, most, least)
	}
	for _, line := range lines {
		if !strings.HasPrefix(line, "time=") && !strings.HasPrefix(line, `{"time":`) || strings.ContainsAny(line, "\x1b\r\u009b\u202e") {
			t.Errorf("a line that somebody else wrote: %q", line)
		}
		if errorLine.MatchString(line) {
			t.Errorf("hostileRequests caused an error: %s", line)
		}
		if len(line) > 20_000 {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
}

// hostileRequests are kinds of requests that any client can send to an authorization server.
func hostileRequests(t *testing.T, base string) []func(i int) {
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 8}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(client.CloseIdleConnections)
	do := func(method, path, contentType, body string, header ...string) {
		r, err := http.NewRequest(method, base+path, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		r.Header.Set("Content-Type", contentType)
		for i := 0; i+1 < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		if res, err := client.Do(r); err == nil { // a connection that was cut is as good
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
	}
	const urlencoded, forged = "application/x-www-form-urlencoded", "x\nlevel=ERROR msg=forged\x1b[2J\u009b\u202e"
	escaped := url.QueryEscape(forged)
	raw := func(bytes string) {
		conn, err := net.DialTimeout("tcp", strings.TrimPrefix(base, "http://"), 10*time.Second)
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, bytes)
		_ = conn.Close() // before there is an answer
	}
	return []func(i int){
		func(i int) { do("GET", "/authorize?client_id="+escaped+fmt.Sprint(i), "", "") },
		func(int) { do("GET", "/authorize?response_type=code;client_id=x&"+escaped, "", "") },
		func(i int) { do("GET", fmt.Sprintf("/login?transaction=%022d", i), "", "") },
		func(int) { do("GET", "/consent?transaction="+escaped, "", "") },
		func(i int) {
			do("POST", "/login", urlencoded, "username="+escaped+"&password=x&transaction="+fmt.Sprint(i))
		},
		func(i int) { do("POST", "/token", urlencoded, "grant_type="+escaped+"&code="+fmt.Sprint(i)) },
		func(i int) {
			do("POST", "/token", urlencoded, "grant_type=refresh_token&client_id="+escaped+fmt.Sprint(i))
		},
		func(int) { do("POST", "/token", "application/json", `{"grant_type":1}`) },
		func(int) { do("POST", "/token", urlencoded, strings.Repeat("a=b&", 5000)) },
		func(i int) { do("POST", "/revoke", urlencoded, "token=x", "Authorization", "Basic "+fmt.Sprint(i)) },
		func(int) {
			do("POST", "/introspect", urlencoded, "token=x", "Authorization", "Basic aHR0cDovLzEyNy4wLjAuMTo4MDgxL21jcDp4")
		},
		func(i int) {
			do("POST", "/register", "application/json", `{"redirect_uris":["https://client.example.org/`+fmt.Sprint(i)+`"],"client_name":"x\u001b[2J\nlevel=ERROR"}`)
		},
		func(int) {
			do("POST", "/register", "application/json", `{"redirect_uris":["javascript:alert(1)\u202e"]`)
		},
		func(i int) {
			do("PUT", "/register/"+escaped+fmt.Sprint(i), "application/json", "{}", "Authorization", "Bearer gate_rat_x")
		},
		func(int) { do("GET", "/logo?client_id="+escaped, "", "") },
		func(int) { do("PATCH", "/"+strings.Repeat("long/", 4000), "", "") },
		func(int) { raw("\x16\x03\x01\x00\x05hello") },
		func(int) {
			raw("POST /token HTTP/1.1\r\nHost: x\r\nContent-Type: " + urlencoded + "\r\nContent-Length: 1000\r\n\r\ngrant_type=")
		},
		func(int) { raw("GET /authorize?client_id=x HTTP/1.1\r\nHost: x\r\n\r\n") },
	}
}

// TestStrangersFillNoLog: ten thousand hostile requests of many kinds cause few log lines and no
// error; the others are counted.
func TestStrangersFillNoLog(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			r := start(t, nil, "--dev", "--listen", "127.0.0.1:0", "--log-format", format)
			kinds := hostileRequests(t, r.shown("issuer"))
			begin := time.Now()
			besiege(t, 5000, kinds)
			if status := r.ended(t); status != exitDone {
				t.Errorf("exit status %d", status)
			}
			minutes := int(time.Since(begin)/time.Minute) + 1
			quiet(t, r.stderr.String(), 25*len(kinds)*minutes, 3000)
		})
	}
}

// TestStrangersFillNoLogOfAGateway: the same for a gateway, and for connections without TLS to a
// TLS listener.
func TestStrangersFillNoLogOfAGateway(t *testing.T) {
	dir := t.TempDir()
	writeCertificate(t, dir)
	r := startGateway(t, deadline, nil, "--issuer", "https://auth.example.com", "--upstream", echo(t), "--tls-cert", dir+"/cert.pem", "--tls-key", dir+"/key.pem")
	address := r.shown("listening on")
	begin := time.Now()
	besiege(t, 2000, []func(int){
		func(int) {
			if conn, err := net.DialTimeout("tcp", address, 10*time.Second); err == nil {
				_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\x1b[2J\r\n\r\n")
				_, _ = io.Copy(io.Discard, conn)
				_ = conn.Close()
			}
		},
	})
	if status := r.ended(t); status != exitDone {
		t.Errorf("exit status %d", status)
	}
	log := r.stderr.String()
	quiet(t, log, 30*(int(time.Since(begin)/time.Minute)+1), 1900)
	if !strings.Contains(log, "a TLS handshake failed") {
		t.Errorf("it does not say what happened:\n%s", log)
	}
}

// TestJSONLinesAreInert: characters that a terminal would execute are escaped in JSON lines too.
func TestJSONLinesAreInert(t *testing.T) {
	var out bytes.Buffer
	log, flush := (&program{stderr: &out}).logger("json")
	log.Info("refused", "description", "\x1b[2J\u009b31m\u202e\u2028\nnext")
	flush()
	if strings.ContainsAny(out.String(), "\x1b\u009b\u202e\u2028") || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("%q", out.String())
	}
}

// TestShortDevSecret: with --dev a short secret causes a warning, not an error.
func TestShortDevSecret(t *testing.T) {
	r := start(t, []string{"AUTHZ_DEV_INTROSPECTION_SECRET=short"}, "--dev", "--listen", "127.0.0.1:0")
	if !strings.Contains(r.stdout.String(), "dev-introspection-secret has only 5 characters: outside --dev it would be refused") {
		t.Errorf("no warning:\n%s", r.stdout.String())
	}
	introspect(t, r.shown("issuer"), "http://127.0.0.1:8081/mcp", "short", http.StatusOK)
}
