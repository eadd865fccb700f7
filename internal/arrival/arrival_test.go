package arrival_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"gatehouse.example/internal/arrival"
	"gatehouse.example/internal/deptest"
)

// TestDeps keeps the package at the bottom of the house.
func TestDeps(t *testing.T) {
	deptest.Check(t, ".", deptest.Rule{InTests: []string{"gatehouse.example/internal/arrival", "gatehouse.example/internal/deptest"}})
}

// deadlines is an answer that remembers until when a body may arrive.
type deadlines struct {
	*httptest.ResponseRecorder
	set []time.Time
}

// SetReadDeadline is for http.ResponseController.
func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.set = append(d.set, at)
	return nil
}

// TestA7TimeGrowsWithWhatArrives: a large body has more time, and no number of small pieces
// has.
func TestA7TimeGrowsWithWhatArrives(t *testing.T) {
	for _, tt := range []struct {
		size, piece int
		most        time.Duration
	}{{100, 1, time.Minute}, {1 << 20, 1 << 10, time.Minute + 64*time.Second}} {
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		began := time.Now()
		r, body := arrival.Bound(w, httptest.NewRequest("POST", "/", bytes.NewReader(make([]byte, tt.size))), time.Minute)
		if len(w.set) != 1 {
			t.Fatalf("%d deadlines for a body that nobody reads", len(w.set))
		}
		for piece := make([]byte, tt.piece); ; {
			if _, err := r.Body.Read(piece); err != nil {
				break
			}
		}
		last := len(w.set) - 1
		if !w.set[last].IsZero() || !body.Whole() || body.Failure() != nil {
			t.Fatalf("the end: %v", w.set)
		}
		for _, at := range w.set[:last] {
			if at.Before(began.Add(time.Minute)) || at.After(time.Now().Add(tt.most)) {
				t.Errorf("%d bytes: a deadline after %s", tt.size, at.Sub(began))
			}
		}
		if tt.size == 100 && last != 2 || w.set[last-1].Sub(w.set[0]) < tt.most-time.Minute-time.Second {
			t.Errorf("%d bytes: %d deadlines, the last after %s", tt.size, last, w.set[last-1].Sub(began))
		}
	}
}

type failing struct{ io.Reader }

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestA7Bodies(t *testing.T) {
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	r := httptest.NewRequest("GET", "/", nil)
	if same, body := arrival.Bound(w, r, time.Minute); same != r || body != nil || !body.Whole() || body.Failure() != nil || len(w.set) > 0 {
		t.Errorf("without a body: %v %v", body, w.set)
	}
	original := httptest.NewRequest("POST", "/", failing{})
	own := original.Body
	r, body := arrival.Bound(w, original, time.Minute)
	_, err := io.ReadAll(r.Body)
	if !errors.Is(err, io.ErrUnexpectedEOF) || !errors.Is(body.Failure(), err) || body.Whole() || original.Body != own {
		t.Errorf("%v, %v", err, body.Failure())
	}
	var _ http.ResponseWriter = w
}
