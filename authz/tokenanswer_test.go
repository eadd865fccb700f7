package authz_test

import (
	"bytes"
	"testing"

	"gatehouse.example/authz"
)

// FuzzTokenAnswer: an answer with tokens is written as encoding/json writes it.
func FuzzTokenAnswer(f *testing.F) {
	f.Add("a.b.c", "gate_rt_x", "notes:read notes:write", int64(600))
	f.Add("", "", "", int64(0))
	f.Add("\"<>&\\\u2028\xff", "\x00", "é", int64(-1))
	f.Fuzz(func(t *testing.T, access, refresh, scope string, expires int64) {
		own, library, err := authz.TokenAnswer(access, refresh, scope, expires)
		if err != nil || !bytes.Equal(own, library) {
			t.Errorf("%s, not %s, %v", own, library, err)
		}
	})
}
