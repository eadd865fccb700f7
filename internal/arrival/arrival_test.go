package arrival

import (
	"bytes"
	"errors"
	"io"
	"net/http/httptest"
	"testing"
	"time"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps the package free of other packages of the module.
func TestDeps(t *testing.T) {
	deptest.CheckTests(t)
}

// deadlines is a ResponseWriter that records read deadlines.
type deadlines struct {
	*httptest.ResponseRecorder
	set []time.Time
}

// SetReadDeadline is for http.ResponseController.
func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.set = append(d.set, at)
	return nil
}

// TestTimeGrowsWithWhatArrives reads a small body in many pieces and a large one: only the
// number of bytes extends the deadline.
func TestTimeGrowsWithWhatArrives(t *testing.T) {
	for _, tt := range []struct {
		size, piece int
		most        time.Duration
		deadlines   int
	}{{100, 1, time.Minute, 3}, {1 << 20, 1 << 10, time.Minute + 64*time.Second, 67}} {
		began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		at := began
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		r, body := bound(w, httptest.NewRequest("POST", "/", bytes.NewReader(make([]byte, tt.size))), time.Minute, func() time.Time { return at })
		if len(w.set) != 1 {
			t.Fatalf("%d deadlines for a body that was not read yet", len(w.set))
		}
		for piece := make([]byte, tt.piece); ; {
			if _, err := r.Body.Read(piece); err != nil {
				break
			}
			at = at.Add(time.Second)
		}
		last := len(w.set) - 1
		if !w.set[last].IsZero() || !body.Whole() || body.Failure() != nil {
			t.Fatalf("the end: %v", w.set)
		}
		if len(w.set) != tt.deadlines || w.set[0] != began.Add(time.Minute) || w.set[last-1] != began.Add(tt.most) {
			t.Errorf("%d bytes: %d deadlines, the last %s after the beginning", tt.size, len(w.set), w.set[last-1].Sub(began))
		}
	}
}

type failing struct{ io.Reader }

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestBodies(t *testing.T) {
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	r := httptest.NewRequest("GET", "/", nil)
	if same, body := Bound(w, r, time.Minute); same != r || body != nil || !body.Whole() || body.Failure() != nil || len(w.set) > 0 {
		t.Errorf("without a body: %v %v", body, w.set)
	}
	original := httptest.NewRequest("POST", "/", failing{})
	own := original.Body
	r, body := Bound(w, original, time.Minute)
	_, err := io.ReadAll(r.Body)
	if !errors.Is(err, io.ErrUnexpectedEOF) || !errors.Is(body.Failure(), err) || body.Whole() || original.Body != own {
		t.Errorf("%v, %v", err, body.Failure())
	}
}
