package registrytest

import (
	"fmt"
	"net/http"
	"strconv"
)

// Faults selects the faults of an upstream. Several may be set at once.
type Faults struct {
	// After is the number of requests without a fault, Times the number of requests with
	// faults behind them. With Times 0 the faults last until [Upstream.Mend].
	After, Times int

	// Down closes the connection without an answer. A client of net/http may then repeat the
	// request by itself, which counts as another request.
	Down bool
	// Hold delays answers until it is closed or the client closes the connection.
	Hold <-chan struct{}
	// Status answers with an error status, and RetryAfter sets the field Retry-After.
	Status     int
	RetryAfter string
	// Page answers 200 with an HTML page, as a proxy that requires a sign-in.
	Page bool
	// CutOff truncates the body. The client can detect it by Content-Length.
	CutOff bool

	// Only lists the first Only rows, as if the others were lost. 0 lists all;
	// [Upstream.Reset] removes all.
	Only int
	// Duplicates lists each row twice.
	Duplicates bool
	// Invalid has JSON elements to list on each page in front of the rows.
	Invalid []string
	// Miscount makes metadata.count one too high.
	Miscount bool
	// CursorLoop makes the cursor of each page lead to the second row.
	CursorLoop bool
	// Endless makes each page empty, with the cursor of another one.
	Endless bool
}

// Break replaces the faults of the upstream, from the next request on.
func (u *Upstream) Break(f Faults) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.faults, u.since = f, 0
}

// Mend ends all faults.
func (u *Upstream) Mend() { u.Break(Faults{}) }

// begin records a request and returns its faults.
func (u *Upstream) begin(r *http.Request) Faults {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.asked = append(u.asked, r.URL.RequestURI())
	u.since++
	nth := u.since - u.faults.After
	if nth <= 0 || u.faults.Times > 0 && nth > u.faults.Times {
		return Faults{}
	}
	return u.faults
}

// intercept applies the faults that replace the answer, and reports whether there was one.
func (f Faults) intercept(w http.ResponseWriter, r *http.Request, form Form) bool {
	if f.Hold != nil {
		select {
		case <-f.Hold:
		case <-r.Context().Done():
		}
	}
	switch {
	case f.Down:
		panic(http.ErrAbortHandler)
	case f.Status != 0:
		if f.RetryAfter != "" {
			w.Header().Set("Retry-After", f.RetryAfter)
		}
		form.refuse(w, f.Status, "This status was set by the test.")
	case f.Page:
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprint(w, "<!DOCTYPE html><title>Sign in</title>")
	default:
		return false
	}
	return true
}

// send writes the body, or the first half of it with CutOff.
func (f Faults) send(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if f.CutOff {
		_, _ = w.Write(body[:len(body)/2])
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(body)
}
