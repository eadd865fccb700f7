package appendjson_test

import (
	"encoding/json"
	"testing"
	"time"

	"gatehouse.example/internal/appendjson"
)

// FuzzValues: each value is written as encoding/json writes it, or refused as there.
func FuzzValues(f *testing.F) {
	for _, s := range []string{"", "a", `"\`, "<", ">", "&", "\x00\x1f\x7f", "\u2028\u2029", "\xff\xc3(", "ünï", "a\nb"} {
		f.Add(s, s, int64(len(s)), int64(7), 3600)
	}
	f.Add("", "", int64(1<<40), int64(-1), 86400)
	f.Fuzz(func(t *testing.T, a, b string, seconds, nanoseconds int64, offset int) {
		same(t, a, nil, appendjson.String(nil, a))
		same(t, []string{a, b}, nil, appendjson.Strings(nil, []string{a, b}))
		same(t, []byte(a), nil, appendjson.Bytes(nil, []byte(a)))
		at := time.Unix(seconds, nanoseconds).In(time.FixedZone("", offset))
		got, err := appendjson.Time(nil, at)
		same(t, at, err, got)
	})
}

// same compares what was appended with what encoding/json writes.
func same(t *testing.T, value any, err error, got []byte) {
	t.Helper()
	want, wrong := json.Marshal(value)
	if (err == nil) != (wrong == nil) {
		t.Errorf("%v: error %v, want %v", value, err, wrong)
	}
	if err == nil && string(got) != string(want) {
		t.Errorf("%v: %s, want %s", value, got, want)
	}
}

// TestNil: nothing is null, and an empty list is a list.
func TestNil(t *testing.T) {
	same(t, []string(nil), nil, appendjson.Strings(nil, nil))
	same(t, []string{}, nil, appendjson.Strings(nil, []string{}))
	same(t, []byte(nil), nil, appendjson.Bytes(nil, nil))
	same(t, []byte{}, nil, appendjson.Bytes(nil, []byte{}))
}
