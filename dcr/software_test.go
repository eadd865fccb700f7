package dcr_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestSoftware: the fingerprint does not depend on what differs between installations of one
// software, and depends on what differs between softwares.
func TestSoftware(t *testing.T) {
	const base = `"client_name":"Notes","client_uri":"https://client.example.com/","token_endpoint_auth_method":"none","redirect_uris":["http://127.0.0.1:4711/cb","https://client.example.com/u/1"]`
	tests := []struct {
		name, members string
		same          bool
	}{
		{"the same", base, true},
		{"another port on loopback", `"redirect_uris":["http://127.0.0.1:4712/cb","https://client.example.com/u/1"]`, true},
		{"no port on loopback", `"redirect_uris":["http://127.0.0.1/cb","https://client.example.com/u/1"]`, true},
		{"another path on the web", `"redirect_uris":["http://127.0.0.1:4711/cb","https://client.example.com/u/2?x=y"]`, true},
		{"more paths on the web", `"redirect_uris":["http://127.0.0.1:4711/cb","https://client.example.com/u/1","https://client.example.com/u/2"]`, true},
		{"another order", `"redirect_uris":["https://client.example.com/u/1","http://127.0.0.1:4711/cb"]`, true},
		{"another version", `"software_version":"2"`, true},
		{"another scope", `"scope":"notes:read"`, true},
		{"other contacts", `"contacts":["me@example.com"]`, true},
		{"another name", `"client_name":"Bank"`, false},
		{"another page", `"client_uri":"https://client.example.org/"`, false},
		{"another method", `"token_endpoint_auth_method":"client_secret_post"`, false},
		{"a software_id", `"software_id":"1"`, false},
		{"another path on loopback", `"redirect_uris":["http://127.0.0.1:4711/other","https://client.example.com/u/1"]`, false},
		{"another name of loopback", `"redirect_uris":["http://localhost:4711/cb","https://client.example.com/u/1"]`, false},
		{"another host", `"redirect_uris":["http://127.0.0.1:4711/cb","https://evil.example.org/u/1"]`, false},
		{"another port on the web", `"redirect_uris":["http://127.0.0.1:4711/cb","https://client.example.com:8443/u/1"]`, false},
		{"fewer redirect URIs", `"redirect_uris":["http://127.0.0.1:4711/cb"]`, false},
		{"a private-use scheme", `"redirect_uris":["http://127.0.0.1:4711/cb","https://client.example.com/u/1","cursor://a/b"]`, false},
	}
	f := newFixture(t, nil)
	first := f.stored(t, f.register(t, base).id).Software
	if len(first) != 22 {
		t.Errorf("fingerprint %q", first)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := f.stored(t, f.register(t, instead(t, base, tt.members)).id).Software
			if (got == first) != tt.same {
				t.Errorf("the same software: %t, want %t", got == first, tt.same)
			}
		})
	}
	queries := f.stored(t, f.register(t, `"redirect_uris":["cursor://a/b?x=1"]`).id).Software
	if other := f.stored(t, f.register(t, `"redirect_uris":["cursor://a/b?x=2"]`).id).Software; other != queries {
		t.Error("the query of a private-use URI counts")
	}
	// Parts do not run into each other.
	one := f.stored(t, f.register(t, `"software_id":"ab","client_name":"c"`).id).Software
	if other := f.stored(t, f.register(t, `"software_id":"a","client_name":"bc"`).id).Software; other == one {
		t.Error("the parts run into each other")
	}
}

// instead is members with some replaced.
func instead(t *testing.T, members, changes string) string {
	t.Helper()
	all := map[string]json.RawMessage{}
	for _, body := range []string{members, changes} {
		if err := json.Unmarshal([]byte("{"+body+"}"), &all); err != nil {
			t.Fatal(err)
		}
	}
	body, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Trim(string(body), "{}")
}
