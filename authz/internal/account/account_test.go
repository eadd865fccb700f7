package account

import (
	"errors"
	"regexp"
	"strings"
	"testing"
)

func TestCanonicalName(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"reader": "reader", " Reader\t": "reader", "READER@Example.COM": "reader@example.com", "a.b_c+d-e": "a.b_c+d-e", "7of9": "7of9",
		strings.Repeat("a", 64):   strings.Repeat("a", 64),
		"Company/Ada@example.com": "company/ada@example.com", "c/ada~2": "c/ada~2", "my-company/" + strings.Repeat("a", 48) + "~64": "my-company/" + strings.Repeat("a", 48) + "~64",
	} {
		if got, err := CanonicalName(raw); got != want || err != nil {
			t.Errorf("%q: %q, %v", raw, got, err)
		}
	}
	for _, raw := range []string{
		"", " ", ".reader", "-reader", "@reader", "_", "+x", "rea der", "reader:x", "/x", "reader/", "a/b/c", "-a/b", "a-/b", "a.b/c", "a/b~", "a/b~0", "a/b~2000", "a/~2", "a/" + strings.Repeat("a", 49), strings.Repeat("a", 33) + "/b", "readеr", "ｒeader", "reader\x00", "reader\u200b",
		"\u212alice", "ſam", "a*b", strings.Repeat("a", 65), "<b>", `a"b`,
	} {
		if got, err := CanonicalName(raw); !errors.Is(err, ErrName) {
			t.Errorf("%q is taken as %q, %v", raw, got, err)
		}
	}
}

// TestOwnName: nobody of a provider has an own name, so no provider speaks for one.
func TestOwnName(t *testing.T) {
	t.Parallel()
	if got, err := OwnName(" Reader "); got != "reader" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for _, raw := range []string{"company/ada", "company/reader~2", "", "/"} {
		if got, err := OwnName(raw); !errors.Is(err, ErrName) {
			t.Errorf("%q is taken as %q, %v", raw, got, err)
		}
	}
}

// FuzzCanonicalName: the canonical spelling is its own canonical spelling, is safe to show
// and to use as a key, and two names with one canonical spelling differ in ASCII case and
// space only.
func FuzzCanonicalName(f *testing.F) {
	for _, seed := range []string{"reader", " READER ", "a@b.c", "", ".", "\u212alice", "ſam", "İ", "a\u0301", "reader\x00", "a:b", strings.Repeat("x", 65)} {
		f.Add(seed)
	}
	shape := regexp.MustCompile(`^([a-z0-9][a-z0-9._@+-]{0,63}|[a-z0-9-]{1,32}/[a-z0-9._@+-]{1,48}(~[0-9]{1,3})?)$`)
	f.Fuzz(func(t *testing.T, raw string) {
		name, err := CanonicalName(raw)
		if err != nil {
			if name != "" {
				t.Errorf("%q: an error and the name %q", raw, name)
			}
			return
		}
		if again, err := CanonicalName(name); again != name || err != nil || !shape.MatchString(name) {
			t.Errorf("%q became %q, and that %q, %v", raw, name, again, err)
		}
		trimmed := strings.TrimSpace(raw)
		if len(trimmed) != len(name) || !strings.EqualFold(trimmed, name) {
			t.Errorf("%q became %q: more than case and space changed", raw, name)
		}
	})
}

// TestCheckChosen: the length of a chosen password counts in characters.
func TestCheckChosen(t *testing.T) {
	t.Parallel()
	for password, want := range map[string]error{
		"": ErrShort, "1234567": ErrShort, "äöüäöüä": ErrShort, "12345678": nil, "äöüäöüäö": nil,
	} {
		if got := CheckChosen(password); got != want {
			t.Errorf("%q: %v, want %v", password, got, want)
		}
	}
}
