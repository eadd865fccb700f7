package authz

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"gatehouse.example/dcr"
	"gatehouse.example/internal/fair"
	"gatehouse.example/storage"
)

// TestErrorsOfOthers: what keeps the server from an answer for now is 503, also where it is inside of
// another error, and only what nothing explains is 500.
func TestErrorsOfOthers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err    error
		status int
		code   string
	}{
		{storage.ErrUnavailable, http.StatusServiceUnavailable, codeUnavailable},
		{storage.ErrRecord, http.StatusServiceUnavailable, codeUnavailable},
		{dcr.ErrUnreachable, http.StatusServiceUnavailable, codeUnavailable},
		{context.DeadlineExceeded, http.StatusServiceUnavailable, codeUnavailable},
		{fair.ErrBusy, http.StatusServiceUnavailable, codeUnavailable},
		{errors.New("something"), http.StatusInternalServerError, codeServerError},
	} {
		for _, err := range []error{test.err, fmt.Errorf("reading: %w", test.err), errors.Join(errors.New("other"), test.err)} {
			if got := (&Server{}).internal(nil, err); got.status != test.status || got.code != test.code || !errors.Is(got, test.err) {
				t.Errorf("%v: %d %s", err, got.status, got.code)
			}
		}
	}
}
