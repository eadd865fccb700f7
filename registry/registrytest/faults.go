package registrytest

import (
	"fmt"
	"net/http"
	"strconv"
)

// Faults are what goes wrong. Several may be set at once.
type Faults struct {
	// After is how many requests are answered well before, and Times how many are not. With
	// Times 0 it goes on until [Upstream.Mend].
	After, Times int

	// Down closes the connection without an answer. A client of net/http may ask again by
	// itself then, which counts as another request.
	Down bool
	// Hold lets answers wait until it is closed or the client has gone.
	Hold <-chan struct{}
	// Status answers with an error, and RetryAfter with that field.
	Status     int
	RetryAfter string
	// Page answers 200 with a page for people, as a proxy that wants a sign-in.
	Page bool
	// CutOff ends an answer in the middle. The client can tell by the length.
	CutOff bool

	// Only leaves all but the first rows out, as if the others had been lost. 0 leaves none
	// out; [Upstream.Reset] loses all.
	Only int
	// Duplicates lists each row twice.
	Duplicates bool
	// Invalid are elements, as they are, that stand before the good ones on each page.
	Invalid []string
	// Miscount counts one item more than there are.
	Miscount bool
	// CursorLoop has each page lead to the second row again.
	CursorLoop bool
	// Endless has each page be empty and lead to another one.
	Endless bool
}

// Break lets things go wrong from now on, instead of what went wrong before.
func (u *Upstream) Break(f Faults) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.faults, u.since = f, 0
}

// Mend ends what Break began.
func (u *Upstream) Mend() { u.Break(Faults{}) }

// begin notes a request and returns what goes wrong with it.
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

// strike does what goes wrong before there is an answer, and reports whether that was it.
func (f Faults) strike(w http.ResponseWriter, r *http.Request, form Form) bool {
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
		form.refuse(w, f.Status, "It is told to answer like this.")
	case f.Page:
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprint(w, "<!DOCTYPE html><title>Sign in</title>")
	default:
		return false
	}
	return true
}

// send writes a body, or half of it.
func (f Faults) send(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if f.CutOff {
		_, _ = w.Write(body[:len(body)/2])
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(body)
}
