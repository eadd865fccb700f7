package doctor

import (
	"testing"
	"time"
)

// TestLife: how long a token lives is what the answer says, else what the token says.
func TestLife(t *testing.T) {
	for _, c := range []struct {
		said     time.Duration
		from, to any
		want     time.Duration
	}{
		{time.Minute, 1e9, 1e9 + 600, time.Minute},
		{0, 1e9, 1e9 + 600, 10 * time.Minute},
		{0, 1e9, 1e9 + 1, time.Second},
		{0, 1e9, 1e9, 0},
		{0, 1e9, 1e9 - 1, 0},
		{0, nil, 1e9, 0},
		{0, 1e9, nil, 0},
		{0, 1.0, 600.0, 599 * time.Second},
		{0, 1e9, 1e13, 0},
		{0, "1", "2", 0},
	} {
		token := &tokens{lifetime: c.said, claims: map[string]any{"iat": c.from, "exp": c.to}}
		if got := token.life(); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestStray: metadata where no client looks is named.
func TestStray(t *testing.T) {
	at := func(place, url, body string) *exchange {
		return &exchange{place: place, method: "GET", url: url, status: 200, body: []byte(body)}
	}
	missing := newDocument(&exchange{place: "server.oauth", method: "GET", url: "https://auth.example.org/a", status: 404}, "oauth")
	const stray, other = "there is metadata at https://auth.example.org/b, where clients do not look; ", "GET https://auth.example.org/a answers 404"
	for want, e := range map[string]*exchange{
		stray + other: at("server.stray", "https://auth.example.org/b", "{}"),
		other:         at("fallback", "https://auth.example.org/b", "{}"),
	} {
		s := &server{documents: []*document{missing}, calls: []*exchange{e, at("server.stray", "https://auth.example.org/c", "<html>")}}
		if got := s.unfound(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
