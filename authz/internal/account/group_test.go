package account

import (
	"errors"
	"strings"
	"testing"
)

func TestCheckGroup(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"admins", "a", "7", "team-a.b_c", strings.Repeat("a", 64)} {
		if err := CheckGroup(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", "-a", ".a", "_a", "Admins", "a b", "a/b", "company/admins", "/a", "a@b", "a+b", "ädmins", "a\n", strings.Repeat("a", 65)} {
		if err := CheckGroup(name); !errors.Is(err, ErrGroup) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestOfProvider: a name belongs to the provider before its first slash, and to no other.
func TestOfProvider(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][2]string{
		"company/admins": {"company", "admins"}, "company//staff": {"company", "/staff"}, "a/b/c": {"a", "b/c"},
		"company/ADA@example.com": {"company", "ADA@example.com"}, "c-1/" + strings.Repeat("x", 256): {"c-1", strings.Repeat("x", 256)},
	} {
		if provider, rest, ok := OfProvider(name); !ok || provider != want[0] || rest != want[1] {
			t.Errorf("%q: %q, %q, %t", name, provider, rest, ok)
		}
	}
	for _, name := range []string{
		"", "admins", "/", "/admins", "company/", "Company/admins", "com pany/x", "com_pany/x", "company/a\nb", "company/\xff", "company/" + strings.Repeat("x", 257),
	} {
		if _, _, ok := OfProvider(name); ok {
			t.Errorf("%q is taken as a name of a provider", name)
		}
	}
}

func TestRecordName(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{" Ada ": "ada", "Company/Ada@example.com": "company/ada@example.com", " company/ada\n": "company/ada"} {
		if got, err := RecordName(raw); got != want || err != nil {
			t.Errorf("%q: %q, %v", raw, got, err)
		}
	}
	for _, raw := range []string{"", "/ada", "company/", "a b"} {
		if got, err := RecordName(raw); !errors.Is(err, ErrName) {
			t.Errorf("%q: %q, %v", raw, got, err)
		}
	}
}
