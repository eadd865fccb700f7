package safefetch

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"
)

// maxInterim bounds the interim responses before the final one (RFC 9110 section 15.2).
const maxInterim = 5

// exchange sends one request and reads one answer. It does not use the client of net/http,
// which repeats requests on broken connections, decompresses, follows redirects, keeps
// connections and reads the environment: all of that would have to be switched off.
func (f *Fetcher) exchange(ctx context.Context, c *connection, t *target) (*Response, error) {
	_ = c.SetDeadline(time.Now().Add(f.config.Patience)) // on error, the end of ctx still closes the socket
	request := t.request()
	if err := request.Write(c); err != nil {
		return nil, transferError(ctx, "sending to", t, err)
	}
	head := &io.LimitedReader{R: c, N: f.config.MaxHeaderBytes}
	answer, err := readHead(bufio.NewReader(head), request)
	if err != nil && head.N <= 0 {
		return nil, fail(ErrTooLarge, "%s: header of more than %d bytes", t.host, f.config.MaxHeaderBytes)
	}
	if err != nil {
		return nil, transferError(ctx, "header from", t, err)
	}
	// The bound on the header ends here: response counts the body, and net/http bounds its
	// framing. The body is never closed, because that would read it to its end; the
	// connection is.
	head.N = math.MaxInt64
	_ = c.SetDeadline(time.Now().Add(2 * f.config.Patience))
	if err := t.check(answer); err != nil {
		return nil, err
	}
	return t.response(ctx, answer)
}

// tlsConfig follows BCP 195 (RFC 9325 section 3.1.1) and negotiates HTTP/1.1 only.
func (f *Fetcher) tlsConfig(t *target) *tls.Config {
	return &tls.Config{
		ServerName: t.host,
		RootCAs:    f.config.RootCAs,
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"},
	}
}

// readHead returns the first final response.
func readHead(r *bufio.Reader, request *http.Request) (*http.Response, error) {
	for range maxInterim {
		answer, err := http.ReadResponse(r, request)
		if err != nil || answer.StatusCode >= 200 || answer.StatusCode == http.StatusSwitchingProtocols {
			return answer, err
		}
	}
	return nil, errors.New("too many interim answers")
}

// transferError returns the error of a failed read or write: [ErrRefused] if it took too long,
// like every failure that depends on the address, and otherwise [ErrMalformed].
func transferError(ctx context.Context, doing string, t *target, err error) error {
	if ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded) {
		return fail(ErrRefused, "%s %s: too slow: %v", doing, t.host, err)
	}
	return fail(ErrMalformed, "%s %s: %v", doing, t.host, err)
}

// check checks the header of an answer before its body is read.
func (t *target) check(answer *http.Response) error {
	conditional := t.etag != "" || t.since != ""
	if answer.StatusCode == http.StatusNotModified && conditional {
		return nil
	}
	if answer.StatusCode != http.StatusOK {
		err := fail(ErrStatus, "%s answers %d", t.host, answer.StatusCode)
		err.Status = answer.StatusCode
		return err
	}
	for _, coding := range answer.Header.Values("Content-Encoding") {
		if !strings.EqualFold(coding, "identity") {
			return fail(ErrMalformed, "%s answers with the content coding %q", t.host, coding)
		}
	}
	if answer.ContentLength < 0 && len(answer.TransferEncoding) == 0 {
		// It would end with the connection, and only the closure alert could show that it is
		// complete, which crypto/tls does not expose (RFC 9112 section 9.8).
		return fail(ErrMalformed, "%s does not say where its answer ends", t.host)
	}
	if answer.ContentLength > t.maxBytes {
		return fail(ErrTooLarge, "%s announces %d bytes", t.host, answer.ContentLength)
	}
	return t.checkType(answer.Header.Values("Content-Type"))
}

func (t *target) checkType(values []string) error {
	if len(t.accept) == 0 {
		return nil
	}
	if len(values) == 1 {
		got, _, err := mime.ParseMediaType(values[0])
		for _, want := range t.accept {
			if err == nil && matches(strings.ToLower(want), got) {
				return nil
			}
		}
	}
	return fail(ErrMediaType, "%s answers with the media type %q", t.host, values)
}

// matches compares a media type with one that was asked for, whose subtype may be * or
// *+suffix (RFC 6839 section 2).
func matches(want, got string) bool {
	wantType, wantSubtype, _ := strings.Cut(want, "/")
	gotType, gotSubtype, _ := strings.Cut(got, "/")
	if suffix, found := strings.CutPrefix(wantSubtype, "*"); found {
		return (wantType == gotType || wantType == "*") && len(gotSubtype) > len(suffix) && strings.HasSuffix(gotSubtype, suffix)
	}
	return want == got
}

// response returns the answer with its body.
func (t *target) response(ctx context.Context, answer *http.Response) (*Response, error) {
	r := &Response{URL: t.url.String(), Status: answer.StatusCode, Header: http.Header{}}
	for _, name := range []string{"Age", "Cache-Control", "Content-Type", "Date", "Etag", "Expires", "Last-Modified"} {
		if values := answer.Header.Values(name); len(values) > 0 {
			r.Header[name] = values
		}
	}
	if answer.StatusCode == http.StatusNotModified {
		return r, nil
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, t.maxBytes+1))
	if int64(len(body)) > t.maxBytes {
		return nil, fail(ErrTooLarge, "%s sends more than %d bytes", t.host, t.maxBytes)
	}
	if err != nil {
		return nil, transferError(ctx, "body from", t, err)
	}
	r.Body = body
	return r, nil
}
