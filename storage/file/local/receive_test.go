package local_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage/file/local"
)

// TestReceive: only what has the size and the digest that the server names is a copy.
func TestReceive(t *testing.T) {
	t.Parallel()
	const sent = "what the store has"
	sum := sha256.Sum256([]byte(sent))
	digest := hex.EncodeToString(sum[:])
	for what, c := range map[string]struct{ size, moment, body, digest, problem, say string }{
		"whole":             {"18", "2031-05-06T07:08:09.123Z", sent, digest, "", ""},
		"another byte":      {"18", "2031-05-06T07:08:09.123Z", strings.ToUpper(sent), digest, "", "or others than the server sent"},
		"without a digest":  {"18", "2031-05-06T07:08:09.123Z", sent, "", "", "or others than the server sent"},
		"shorter":           {"19", "2031-05-06T07:08:09.123Z", sent, digest, "", "18 of 19 bytes came"},
		"longer":            {"17", "2031-05-06T07:08:09.123Z", sent, digest, "", "18 of 17 bytes came"},
		"given up":          {"18", "2031-05-06T07:08:09.123Z", "", "", `"the disk is \"full\""`, `the server gave up: the disk is "full"`},
		"without a size":    {"", "2031-05-06T07:08:09.123Z", sent, digest, "", "in another way"},
		"without a moment":  {"18", "", sent, digest, "", "in another way"},
		"of another answer": {"", "", "<html>", "", "", "in another way"},
	} {
		answer := &http.Response{Header: http.Header{}, Trailer: http.Header{}, Body: io.NopCloser(strings.NewReader(c.body))}
		answer.Header.Set("Gatehouse-Size", c.size)
		answer.Header.Set("Gatehouse-Moment", c.moment)
		answer.Trailer.Set("Gatehouse-Digest", c.digest)
		answer.Trailer.Set("Gatehouse-Problem", c.problem)
		var got bytes.Buffer
		err := local.Receive(answer, func(of time.Time, size int64) (io.Writer, error) {
			if of.Format(time.RFC3339Nano) != c.moment {
				t.Errorf("%s: the moment is %s", what, of)
			}
			return &got, nil
		})
		if c.say == "" && (err != nil || got.String() != sent) || c.say != "" && (err == nil || !strings.Contains(err.Error(), c.say)) {
			t.Errorf("%s: %v; want %q", what, err, c.say)
		}
	}
}
