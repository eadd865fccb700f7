package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strconv"
	"time"

	"gatehouse.example/storage"
)

// A snapshot is an answer of its own: its moment and its size stand in the header, and the digest of
// its bytes, or why there are not more of them, behind it. So one that was cut off is not complete.
const (
	snapshotPath   = "/snapshot"
	momentHeader   = "Gatehouse-Moment"
	sizeHeader     = "Gatehouse-Size"
	digestTrailer  = "Gatehouse-Digest" // SHA-256, hexadecimal
	problemTrailer = "Gatehouse-Problem"
)

// stallTime is how long a client may take no bytes of a snapshot. Meanwhile the server's file grows.
const stallTime = 30 * time.Second

// source is a backend that can be copied while it is in use.
type source interface {
	Snapshot(ctx context.Context, begin func(of time.Time, size int64) (io.Writer, error)) error
}

// snapshot answers with a copy of the store.
func (h handler) snapshot(w http.ResponseWriter, r *http.Request) {
	s, ok := h.backend.(source)
	if !ok {
		http.Error(w, "this store cannot be copied", http.StatusNotImplemented)
		return
	}
	to := &snapshotWriter{to: w, control: http.NewResponseController(w), digest: sha256.New(), stall: h.stall}
	err := s.Snapshot(r.Context(), func(of time.Time, size int64) (io.Writer, error) {
		w.Header().Set("Trailer", digestTrailer+", "+problemTrailer)
		w.Header().Set(momentHeader, of.Format(time.RFC3339Nano))
		w.Header().Set(sizeHeader, strconv.FormatInt(size, 10))
		to.begun = true
		return to, nil
	})
	switch {
	case err != nil && !to.begun:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case err != nil:
		w.Header().Set(problemTrailer, strconv.QuoteToASCII(err.Error()))
	default:
		w.Header().Set(digestTrailer, hex.EncodeToString(to.digest.Sum(nil)))
	}
}

// snapshotWriter sends a copy to a client that goes on taking it.
type snapshotWriter struct {
	to      io.Writer
	control *http.ResponseController
	digest  hash.Hash
	stall   time.Duration
	begun   bool
}

func (w *snapshotWriter) Write(p []byte) (int, error) {
	if err := w.control.SetWriteDeadline(time.Now().Add(w.stall)); err != nil {
		return 0, err
	}
	_, _ = w.digest.Write(p)
	return w.to.Write(p)
}

// Snapshot copies the store of the server, as gatehouse.example/storage/file.Source says.
func (c *client) Snapshot(ctx context.Context, begin func(of time.Time, size int64) (io.Writer, error)) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://store"+snapshotPath, http.NoBody)
	if err != nil {
		return fmt.Errorf("storage/file/local: %w", err)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return fmt.Errorf("%w: storage/file/local: %w", storage.ErrUnavailable, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return fmt.Errorf("%w: storage/file/local: the server answered %s: %.200q", storage.ErrUnavailable, resp.Status, text)
	}
	if err := receive(resp, begin); err != nil {
		return fmt.Errorf("storage/file/local: %w", err)
	}
	return nil
}

// receive reads a snapshot.
func receive(resp *http.Response, begin func(of time.Time, size int64) (io.Writer, error)) error {
	of, err := time.Parse(time.RFC3339Nano, resp.Header.Get(momentHeader))
	size, sizeErr := strconv.ParseInt(resp.Header.Get(sizeHeader), 10, 64)
	if err != nil || sizeErr != nil {
		return errors.New("the server has a release that answers in another way: run the command of its release")
	}
	to, err := begin(of, size)
	if err != nil {
		return err
	}
	digest := sha256.New()
	n, err := io.Copy(io.MultiWriter(to, digest), io.LimitReader(resp.Body, size))
	if err == nil && n == size {
		var more int64
		more, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1)) // the trailer is behind the end
		n += more
	}
	problem, _ := strconv.Unquote(resp.Trailer.Get(problemTrailer))
	switch {
	case problem != "":
		return fmt.Errorf("the server gave up: %s", problem)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("the server ended the copy after %d of %d bytes: it stopped, or for %s nothing was taken", n, size, stallTime)
	case err != nil:
		return err
	case n != size || resp.Trailer.Get(digestTrailer) != hex.EncodeToString(digest.Sum(nil)):
		return fmt.Errorf("%d of %d bytes came, or others than the server sent", n, size)
	}
	return nil
}
