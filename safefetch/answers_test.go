package safefetch_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"gatehouse.example/safefetch"
)

// TestAnswers checks answers of a public server, byte by byte. None takes time, also if its body
// would be long.
func TestAnswers(t *testing.T) {
	json := []string{"application/json", "application/*+json"}
	const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	for name, c := range map[string]struct {
		answer string
		accept []string
		want   error
	}{
		"plain":                {ok("{}", "Content-Type: application/json"), json, nil},
		"suffix":               {ok("{}", "Content-Type: APPLICATION/x+JSON; a=b"), json, nil},
		"bare suffix":          {ok("{}", "Content-Type: application/+json"), json, safefetch.ErrMediaType},
		"another type":         {ok("{}", "Content-Type: text/html"), json, safefetch.ErrMediaType},
		"no type":              {ok("{}"), json, safefetch.ErrMediaType},
		"two types":            {ok("{}", "Content-Type: application/json", "Content-Type: text/html"), json, safefetch.ErrMediaType},
		"broken type":          {ok("{}", "Content-Type: application/json;;="), json, safefetch.ErrMediaType},
		"any subtype":          {ok("", "Content-Type: image/png"), []string{"image/*"}, nil},
		"any type":             {ok("", "Content-Type: image/png"), []string{"*/*"}, nil},
		"no type asked":        {ok(""), nil, nil},
		"identity":             {ok("", "Content-Encoding: Identity"), nil, nil},
		"brotli":               {ok("", "Content-Encoding: br"), nil, safefetch.ErrMalformed},
		"two codings":          {ok("", "Content-Encoding: identity", "Content-Encoding: gzip"), nil, safefetch.ErrMalformed},
		"chunked":              {chunked + "3\r\nabc\r\n0\r\n\r\n", nil, nil},
		"broken chunk":         {chunked + "x\r\nabc\r\n0\r\n\r\n", nil, safefetch.ErrMalformed},
		"unended chunks":       {chunked + "3\r\nabc\r\n", nil, safefetch.ErrMalformed},
		"padded chunks":        {chunked + strings.Repeat("1;"+strings.Repeat("x", 1000)+"\r\na\r\n", 100), nil, safefetch.ErrMalformed},
		"until the end":        {"HTTP/1.0 200 OK\r\n\r\nabc", nil, safefetch.ErrMalformed},
		"two lengths":          {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nabc", nil, safefetch.ErrMalformed},
		"early hints":          {"HTTP/1.1 103 Early\r\n\r\n" + ok(""), nil, nil},
		"endless hints":        {strings.Repeat("HTTP/1.1 103 Early\r\n\r\n", 6) + ok(""), nil, safefetch.ErrMalformed},
		"switching protocols":  {"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n", nil, safefetch.ErrStatus},
		"unasked not modified": {"HTTP/1.1 304 Not Modified\r\n\r\n", nil, safefetch.ErrStatus},
		"no content":           {"HTTP/1.1 204 No Content\r\n\r\n", nil, safefetch.ErrStatus},
		"not found":            {"HTTP/1.1 404 Not Found\r\nContent-Length: 999999999\r\n\r\n", nil, safefetch.ErrStatus},
		"not HTTP":             {"SSH-2.0-OpenSSH_9.2\r\n", nil, safefetch.ErrMalformed},
		"HTTP/2":               {"\x00\x00\x12\x04\x00\x00\x00\x00\x00\r\n\r\n", nil, safefetch.ErrMalformed},
		"nothing":              {"", nil, safefetch.ErrMalformed},
		"endless header":       {"HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 1<<16), nil, safefetch.ErrTooLarge},
		"endless line":         {"HTTP/1.1 200 " + strings.Repeat("x", 1<<16), nil, safefetch.ErrTooLarge},
		"endless chunk":        {chunked + "ffffff\r\n" + strings.Repeat("x", 1<<17), nil, safefetch.ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newStage(t, says(c.answer)).fetcher(t, safefetch.Config{})
				took, _, err := clocked(f, safefetch.Request{URL: "https://client.example.com/", Accept: c.accept})
				expectErr(t, name, err, c.want)
				if took != 0 {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

// TestNothingIsDrained: a fetch ends as soon as the answer is refused, although its body goes
// on.
func TestNothingIsDrained(t *testing.T) {
	for answer, want := range map[string]error{
		"HTTP/1.1 404 Not Found\r\nContent-Length: 1000\r\n\r\nx": safefetch.ErrStatus,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" +
			"10001\r\n" + strings.Repeat("x", 1<<16+1) + "\r\n": safefetch.ErrTooLarge,
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newStage(t, func(c net.Conn) {
				says(answer)(c)
				io.Copy(io.Discard, c)
			}).fetcher(t, safefetch.Config{})
			took, _, err := clocked(f, safefetch.Request{URL: "https://client.example.com/"})
			expectErr(t, answer[:20], err, want)
			if took != 0 {
				t.Errorf("%.20s took %v", answer, took)
			}
		})
	}
}

func TestReasonsAreShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newStage(t, says(ok("", "Content-Encoding: "+strings.Repeat("x", 10_000)))).fetcher(t, safefetch.Config{})
		_, err := get(f, "https://client.example.com/")
		expectErr(t, "coding", err, safefetch.ErrMalformed)
		if n := len(safefetch.Reason(err)); n > 400 {
			t.Errorf("a reason of %d bytes", n)
		}
	})
}

// TestOneAttempt: after a connection breaks, the request is not repeated, as net/http would.
func TestOneAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, says(""))
		f := s.fetcher(t, safefetch.Config{LookupNetIP: answers("93.184.216.34", "93.184.216.35")})
		_, err := get(f, "https://client.example.com/")
		expectErr(t, "nothing", err, safefetch.ErrMalformed)
		if got := s.dialled(); len(got) != 1 {
			t.Errorf("dialled %v", got)
		}
	})
}
