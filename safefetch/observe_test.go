package safefetch_test

import (
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"gatehouse.example/safefetch"
)

// Each fetch is reported once with its error; a request that is wrong fetches nothing and is not
// reported.
func TestObserve(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/missing" {
			w.WriteHeader(http.StatusNotFound)
		}
	})
	var mu sync.Mutex
	var got []error
	s.config.Observe = func(err error, took time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, err)
		if took <= 0 {
			t.Errorf("a fetch took %s", took)
		}
	}
	f := fetcher(t, s.config)
	if _, err := get(f, s.url("/missing")); err == nil {
		t.Error("no error")
	}
	if _, err := get(f, "ftp://client.example.com/"); !errors.Is(err, safefetch.ErrRequest) {
		t.Error(err)
	}
	if _, err := get(f, s.url("/here")); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(got) != 2 || !errors.Is(got[0], safefetch.ErrStatus) || got[1] != nil {
		t.Errorf("reported %v", got)
	}
}
