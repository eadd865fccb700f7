package settings

import (
	"strings"
	"testing"
)

// TestVariablesOfOthers: what Kubernetes sets for a service with the name authz is no setting that
// somebody mistyped, and neither is an empty variable.
func TestVariablesOfOthers(t *testing.T) {
	env := NewEnvironment([]string{
		"AUTHZ_PORT=tcp://10.0.0.1:80", "AUTHZ_PORT_80_TCP=tcp://10.0.0.1:80", "AUTHZ_SERVICE_HOST=10.0.0.1", "AUTHZ_SERVICE_PORT_HTTP=80",
		"AUTHZ_NOTHING=", "OTHER_ISUER=x", "AUTHZ_ISUER=https://auth.example.com", "AUTHZ_TLS_KEY=key.pem",
	})
	got := env.UnknownVariables([]string{"issuer", "tls-key"})
	if len(got) != 1 || !strings.Contains(got[0], "AUTHZ_ISUER") || !strings.Contains(got[0], "AUTHZ_ISSUER") {
		t.Errorf("unknown are %q", got)
	}
}

func TestNearest(t *testing.T) {
	known := []string{"access-token-ttl", "admin-listen", "code-ttl", "issuer", "listen", "refresh-idle", "refresh-max", "store", "tls-cert", "tls-key"}
	for name, want := range map[string]string{
		"isuer": "issuer", "Issuer": "issuer", "lsiten": "listen", "tls-kye": "tls-key", "refresh-maxx": "refresh-max",
		"ttl": "store", "code": "store", "codettl": "code-ttl", "issuer": "issuer",
	} {
		if got := nearest(name, known); got != want && distance(name, got) != distance(name, want) {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	if nearest("x", nil) != "" {
		t.Error("something is near nothing")
	}
	for _, d := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"a", "b", 1}, {"ab", "ba", 2}} {
		if got := distance(d.a, d.b); got != d.want {
			t.Errorf("distance of %q and %q: %d, want %d", d.a, d.b, got, d.want)
		}
	}
}
