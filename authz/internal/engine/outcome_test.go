package engine

import (
	"errors"
	"testing"

	"gatehouse.example/storage"
)

// TestOutcome: a run counts as done only if it was committed, and an error of the store is its outcome
// whatever fosite makes of it, also if fosite keeps silent about it.
func TestOutcome(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		unit unit
		err  error
		want error
	}{
		"committed":                          {unit: unit{committed: true}},
		"the store, and fosite says so":      {unit{failure: storage.ErrUnavailable}, errors.New("x"), storage.ErrUnavailable},
		"the store, and fosite says nothing": {unit{failure: storage.ErrUnavailable, committed: true}, nil, storage.ErrUnavailable},
	} {
		if err := test.unit.outcome(test.err); !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var refused *RefusedError
	for name, run := range map[string]unit{"nothing was committed": {}, "nothing was committed, with tokens": {tokens: Tokens{Access: "a"}}} {
		if tokens, err := run.result(nil); err == nil || errors.As(err, &refused) || tokens != (Tokens{}) {
			t.Errorf("%s: %+v, %v", name, tokens, err)
		}
	}
}
