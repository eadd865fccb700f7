package middleware

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"

	"gatehouse.example/message"
)

// defaultMaxBody is the default of [Config.MaxBody], in bytes.
const defaultMaxBody = 4 << 20

// received is a message that was read for the policy.
type received struct {
	operation
	id     message.ID       // of a request; zero for other messages
	list   *message.Request // the request for a list that the policy filters, nil for others
	cursor string           // the handler's cursor in the request for a list; empty without one
	quiet  bool             // whether a handler could take the request for one without a message

	completion *completion // what a request wants completed, if the policy filters it; nil for others
}

// receive reads the message in the body of a request, and puts the same bytes back for the
// handler. It returns the zero value for a request without a body. Its errors are refusals.
func (g *Guard) receive(w http.ResponseWriter, r *http.Request) (received, error) {
	if r.Body == nil || r.Body == http.NoBody || (r.ContentLength == 0 && len(r.TransferEncoding) == 0) {
		return received{}, headersFor(r, received{})
	}
	if err := readable(r); err != nil {
		return received{}, err
	}
	body, err := whole(http.MaxBytesReader(w, r.Body, int64(g.maxBody)), min(r.ContentLength, int64(g.maxBody)))
	if err != nil {
		return received{}, unread(err)
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.TransferEncoding = nil
	m, err := message.Decode(body, message.Limits{MaxBytes: g.maxBody})
	if err != nil {
		return received{}, undecoded(err)
	}
	got, err := g.policy.understand(m)
	if err != nil {
		return received{}, err
	}
	got.quiet = r.Method != http.MethodPost // RFC 9110 section 9.3.1: content has no meaning in GET
	if request, ok := m.(message.Request); ok {
		if err := g.expect(&got, &request); err != nil {
			return received{}, fault(got.id, message.CodeInvalidParams, err)
		}
	}
	return got, headersFor(r, got)
}

// expect notes what is needed to read the response to a request that the policy filters.
func (g *Guard) expect(got *received, request *message.Request) (err error) {
	if g.filtersMethod(request.Method) {
		got.list = request
	}
	if request.Method == completing && got.kind == resourceURI && g.filters(resourceList) {
		got.completion, err = completionIn(request.Params)
	}
	return err
}

// whole reads to the end. The expected size is a hint for the allocation only.
func whole(r io.Reader, expected int64) ([]byte, error) {
	var b bytes.Buffer
	b.Grow(int(min(max(expected, 0), 64<<10)) + bytes.MinRead)
	_, err := b.ReadFrom(r)
	return b.Bytes(), err
}

// readable refuses a body that readers could interpret differently: it must be JSON in UTF-8,
// without a content encoding.
func readable(r *http.Request) error {
	media, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset, ok := params["charset"]
	if err != nil || media != "application/json" || (ok && !strings.EqualFold(charset, "utf-8")) || len(r.Header["Content-Type"]) != 1 {
		return challenge{status: http.StatusUnsupportedMediaType, description: "Send messages with Content-Type: application/json, in UTF-8."}
	}
	if encoding := strings.Join(r.Header["Content-Encoding"], ","); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return challenge{status: http.StatusUnsupportedMediaType, description: "Send messages without Content-Encoding."}
	}
	return nil
}

// unread returns the refusal for a body that could not be read.
func unread(err error) error {
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return challenge{status: http.StatusRequestEntityTooLarge, description: fmt.Sprintf("A message may have at most %d bytes.", tooLarge.Limit)}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return challenge{status: http.StatusRequestTimeout, description: "The message took too long to arrive."}
	}
	return challenge{status: http.StatusBadRequest, description: "The message did not arrive as a whole."}
}

// undecoded returns the refusal for a body that is not a message. Notifications and responses
// are never answered with a message (JSON-RPC 2.0 section 4.1).
func undecoded(err error) error {
	refused := challenge{status: http.StatusBadRequest, description: "The body is not a message of the protocol.", cause: err}
	var de *message.DecodeError
	if errors.As(err, &de) {
		if answer, ok := de.Response(); ok {
			refused.body, _ = message.Encode(answer) // cannot fail for such a response
		}
	}
	return refused
}

// fault returns the refusal of a message, with an error response if the message has an id.
func fault(id message.ID, code message.Code, why error) error {
	refused := challenge{status: http.StatusBadRequest, description: "The message cannot be judged: " + why.Error() + ".", cause: why}
	if !id.IsZero() {
		refused.body, _ = message.Encode(message.ErrorResponse{ID: id, Error: message.Error{Code: code, Message: why.Error()}})
	}
	return refused
}
