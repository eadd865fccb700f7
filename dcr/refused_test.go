package dcr_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestRefusedRedirectURIs(t *testing.T) {
	const good = `"https://client.example.com/cb",`
	tests := []struct{ name, uris, says string }{
		{"missing", ``, "redirect_uris: at least one"},
		{"null", `null`, "redirect_uris: at least one"},
		{"none", `[]`, "redirect_uris: at least one"},
		{"null entry", `[` + good + `null]`, "redirect_uris[1]: it must have"},
		{"empty", `[""]`, "redirect_uris[0]: it must have"},
		{"relative", `["/cb"]`, "redirect_uris[0]: it must be absolute"},
		{"not well-formed", `["https://client.example.com/%zz"]`, "redirect_uris[0]: it is not a well-formed URI"},
		{"parameter of responses", `[` + good + `"https://client.example.com/cb?a=b&state=x"]`, "redirect_uris[1]: its query must not have state"},
		{"fragment", `[` + good + good + `"https://client.example.com/cb#x"]`, "redirect_uris[2]: it must not have a fragment"},
		{"empty fragment", `["https://client.example.com/cb#"]`, "fragment"},
		{"plain http", `["http://client.example.com/cb"]`, "http is allowed on"},
		{"http in a private network", `["http://192.168.1.2/cb"]`, "http is allowed on"},
		{"http on a name that starts like loopback", `["http://localhost.example.org/cb"]`, "http is allowed on"},
		{"http on an IPv6 that maps loopback", `["http://[::ffff:127.0.0.1]/cb"]`, "write the IPv4 address that the host stands for: 127.0.0.1"},
		{"user information", `["https://good.example.com@evil.example.org/"]`, "user information"},
		{"wildcard", `["https://*.example.com/cb"]`, "the host is not valid"},
		{"dot segments", `["https://client.example.com/a/../cb"]`, "dot segments"},
		{"escaped dot segments", `["https://client.example.com/a/%2e%2E/cb"]`, "dot segments"},
		{"backslash", `["https://client.example.com\\@evil.example.org/"]`, "percent-encoded"},
		{"line break", `["https://client.example.com/\r\nSet-Cookie:a=b"]`, "percent-encoded"},
		{"NUL", `["https://client.example.com/\u0000"]`, "percent-encoded"},
		{"not ASCII", `["https://клиент.example.com/"]`, "in ASCII"},
		{"upper-case scheme", `["HTTPS://client.example.com/cb"]`, "lowercase"},
		{"no host", `["https:///cb"]`, "no host"},
		{"opaque", `["https:client.example.com"]`, "no host"},
		{"port out of range", `["http://127.0.0.1:99999/cb"]`, "port"},
		{"too long", `["https://client.example.com/` + strings.Repeat("x", 2048) + `"]`, "2048 bytes"},
		{"javascript", `["javascript:alert(document.domain)"]`, "redirect_uris[0]: the scheme 'javascript' is never allowed"},
		{"javascript in mixed case", `["jAvAsCrIpT:alert(1)"]`, "lowercase"},
		{"data", `["data:text/html,x"]`, "never allowed"},
		{"file", `["file:///etc/passwd"]`, "never allowed"},
		{"vbscript", `["vbscript:msgbox(1)"]`, "never allowed"},
		{"blob", `["blob:https://client.example.com/1"]`, "never allowed"},
		{"intent", `["intent://scan/#Intent;end"]`, "fragment"},
		{"nothing behind the scheme", `["cursor:"]`, "nothing follows"},
		{"eleven", `[` + strings.Repeat(good, 10) + `"https://client.example.com/11"]`, "redirect_uris: there are 11"},
		{"one bad among good ones", `[` + good + `"cursor://a/b","about:blank"]`, "redirect_uris[2]: "},
	}
	f := newFixture(t, nil)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			body := `{"redirect_uris":` + tt.uris + `}`
			if tt.uris == "" {
				body = `{}`
			}
			a := f.post(t, body)
			assertRefused(t, f, a, http.StatusBadRequest, "invalid_redirect_uri")
			if !strings.Contains(a.text("error_description"), tt.says) {
				t.Errorf("it says %q, not %q", a.text("error_description"), tt.says)
			}
		})
	}
}

func TestRefusedMetadata(t *testing.T) {
	long := strings.Repeat("x", 300)
	key := func(members string) string { return `"jwks":{"keys":[{"kty":"EC","x":"a"},{` + members + `}]}` }
	const private = "jwks.keys[1]: it is a private or symmetric key"
	tests := []struct{ name, members, says string }{
		{"client_secret_jwt", `"token_endpoint_auth_method":"client_secret_jwt"`, "token_endpoint_auth_method: 'client_secret_jwt' is not supported; supported are none,"},
		{"proofs of possession", `"dpop_bound_access_tokens":true`, "dpop_bound_access_tokens: proofs of possession are not supported"},
		{"tokens bound to a certificate", `"tls_client_certificate_bound_access_tokens":true`, "tls_client_certificate_bound_access_tokens: tokens are not bound to certificates here"},
		{"pushed requests only", `"require_pushed_authorization_requests":true`, "require_pushed_authorization_requests: pushed requests are not supported here"},
		{"signed requests only", `"require_signed_request_object":true`, "require_signed_request_object: request objects are not supported here"},
		{"signed requests only, as a string", `"require_signed_request_object":"true"`, "require_signed_request_object: wrong type"},
		{"proofs of possession as a string", `"dpop_bound_access_tokens":"true"`, "dpop_bound_access_tokens: wrong type"},
		{"long localised name", `"client_name#de":"` + strings.Repeat("é", 201) + `"`, "client_name#de: it has more than 200"},
		{"localised name of another type", `"client_name#de":["x"]`, "client_name#de: wrong type: it must be a string"},
		{"localised javascript", `"client_uri#fr":"javascript:alert(1)"`, "client_uri#fr: it must be https"},
		{"localised http logo", `"logo_uri#fr":"http://client.example.com/l.png"`, "logo_uri#fr: it must be https"},
		{"localised tos with user information", `"tos_uri#en-GB":"https://a@client.example.com/"`, "tos_uri#en-GB: it must not carry"},
		{"relative localised policy", `"policy_uri#ja":"/p"`, "policy_uri#ja: it is not an absolute URL"},
		{"no language", `"client_name#":"x"`, "client_name#: what follows"},
		{"two languages", `"client_name#de#fr":"x"`, "client_name#de#fr: what follows"},
		{"language with an underscore", `"client_name#de_DE":"x"`, "client_name#de_DE: what follows"},
		{"language of one letter", `"client_name#d":"x"`, "what follows"},
		{"language that ends in a hyphen", `"client_name#de-":"x"`, "what follows"},
		{"language with a long subtag", `"client_name#de-abcdefghi":"x"`, "what follows"},
		{"language with an empty extension", `"client_name#de-u":"x"`, "what follows"},
		{"long language", `"client_name#de` + strings.Repeat("-abcde", 6) + `":"x"`, "what follows"},
		{"language with a line break", `"client_name#de\n":"x"`, "what follows"},
		{"language that is not ASCII", `"client_name#dé":"x"`, "what follows"},
		{"one language twice", `"client_name#de":"x","client_name#DE":"y"`, "client_name#de: client_name#DE is the same language"},
		{"many languages", languages(41), "there are more than 40 members with a language tag"},
		{"private_key_jwt without keys", assertions(``), "jwks: private_key_jwt needs"},
		{"private_key_jwt with null keys", assertions(`"jwks":null,"jwks_uri":""`), "jwks: private_key_jwt needs"},
		{"private_key_jwt with both", assertions(`"jwks_uri":"https://client.example.com/jwks","jwks":` + keyP256), "jwks: use either"},
		{"private_key_jwt with no usable key", assertions(`"jwks":{"keys":[{"kty":"EC","crv":"P-256","x":"a","y":"b"}]}`), "jwks: no key fits"},
		{"private_key_jwt with a key for encryption", assertions(`"jwks":` + strings.Replace(keyP256, `"kty"`, `"use":"enc","kty"`, 1)), "jwks: no key fits"},
		{"private_key_jwt with a key for another algorithm", assertions(`"token_endpoint_auth_signing_alg":"EdDSA","jwks":` + keyP256), "jwks: no key fits"},
		{"private_key_jwt with a key that says another algorithm", assertions(`"jwks":` + strings.Replace(keyP256, `"kty"`, `"alg":"RS256","kty"`, 1)), "jwks: no key fits"},
		{"private_key_jwt with a weak key", assertions(`"jwks":{"keys":[{"kty":"RSA","e":"AQAB","n":"` + strings.Repeat("u", 171) + `"}]}`), "jwks: no key fits"},
		{"private_key_jwt with a huge key", assertions(`"jwks":{"keys":[{"kty":"RSA","e":"AQAB","n":"` + strings.Repeat("u", 1400) + `"}]}`), "jwks: no key fits"},
		{"private_key_jwt with many keys", assertions(`"jwks":{"keys":[` + strings.TrimSuffix(strings.Repeat(`{"kty":"EC"},`, 21), ",") + `]}`), "jwks: there are more than 20"},
		{"private_key_jwt with loopback keys", assertions(`"jwks_uri":"https://u@127.0.0.1/"`), "jwks_uri: it must not carry"},
		{"algorithm none", assertions(`"token_endpoint_auth_signing_alg":"none","jwks":` + keyP256), "token_endpoint_auth_signing_alg: 'none' is not supported"},
		{"symmetric algorithm", assertions(`"token_endpoint_auth_signing_alg":"HS256","jwks":` + keyP256), "token_endpoint_auth_signing_alg: 'HS256'"},
		{"algorithm of another type", `"token_endpoint_auth_signing_alg":["ES256"]`, "token_endpoint_auth_signing_alg: wrong type"},
		{"tls_client_auth", `"token_endpoint_auth_method":"tls_client_auth"`, "not supported"},
		{"method in upper case", `"token_endpoint_auth_method":"NONE"`, "not supported"},
		{"method of another type", `"token_endpoint_auth_method":["none"]`, "token_endpoint_auth_method: wrong type: it must be a string"},
		{"long method", `"token_endpoint_auth_method":"` + long + `"`, "not supported"},
		{"implicit", `"grant_types":["authorization_code","implicit"]`, "grant_types: the implicit grant"},
		{"password", `"grant_types":["authorization_code","password"]`, "grant_types: the password grant"},
		{"refresh alone", `"grant_types":["refresh_token"]`, "grant_types: it must hold authorization_code"},
		{"nothing usable", `"grant_types":["client_credentials","urn:ietf:params:oauth:grant-type:device_code"]`, "grant_types: it must hold"},
		{"grant in upper case", `"grant_types":["AUTHORIZATION_CODE"]`, "grant_types: it must hold"},
		{"grants of another type", `"grant_types":"authorization_code"`, "grant_types: wrong type: it must be an array"},
		{"null grant", `"grant_types":[null]`, "grant_types: it must hold"},
		{"token", `"response_types":["token"]`, "response_types: 'token' is not supported"},
		{"code and token", `"response_types":["code","token"]`, "response_types: 'token'"},
		{"hybrid", `"response_types":["code id_token"]`, "response_types: 'code id_token'"},
		{"response type none", `"response_types":["none"]`, "response_types: 'none'"},
		{"scope as a list", `"scope":["notes:read"]`, "scope: wrong type: it must be a string"},
		{"application type as a number", `"application_type":1`, "application_type: wrong type"},
		{"long name", `"client_name":"` + strings.Repeat("é", 201) + `"`, "client_name: it has more than 200"},
		{"name of another type", `"client_name":{"en":"Notes"}`, "client_name: wrong type"},
		{"long software_id", `"software_id":"` + long + `"`, "software_id: it has more than"},
		{"long software_version", `"software_version":"` + long + `"`, "software_version: it has more than"},
		{"long contact", `"contacts":["a","` + long + `"]`, "contacts[1]: it has more than"},
		{"many contacts", `"contacts":["a","b","c","d","e","f","g","h","i","j","k"]`, "contacts: there are more than 10"},
		{"contacts of another type", `"contacts":"ops@example.com"`, "contacts: wrong type"},
		{"http client_uri", `"client_uri":"http://client.example.com/"`, "client_uri: it must be https"},
		{"javascript client_uri", `"client_uri":"javascript:alert(1)"`, "client_uri: it must be https"},
		{"javascript with an authority", `"client_uri":"javascript://x/%0Aalert(1)"`, "client_uri: it must be https"},
		{"data logo", `"logo_uri":"data:image/png;base64,AAAA"`, "logo_uri: it must be https"},
		{"logo without a host", `"logo_uri":"https:///logo.png"`, "logo_uri: it has no host"},
		{"logo with markup", `"logo_uri":"https://client.example.com/\"><script>"`, "logo_uri: it holds a character"},
		{"long logo", `"logo_uri":"https://client.example.com/` + strings.Repeat("x", 2048) + `"`, "logo_uri: it has more than"},
		{"tos with user information", `"tos_uri":"https://a@client.example.com/"`, "tos_uri: it must not carry"},
		{"relative policy", `"policy_uri":"/privacy"`, "policy_uri: it is not an absolute URL"},
		{"jwks and jwks_uri", `"jwks":{"keys":[{"kty":"EC"}]},"jwks_uri":"https://client.example.com/jwks"`, "jwks: use either"},
		{"http jwks_uri", `"jwks_uri":"http://client.example.com/jwks"`, "jwks_uri: it must be https"},
		{"loopback jwks_uri", `"jwks_uri":"http://127.0.0.1/jwks"`, "jwks_uri: it must be https"},
		{"jwks as a string", `"jwks":"{}"`, "jwks: it must be an object"},
		{"jwks as a list", `"jwks":[]`, "jwks: it must be an object"},
		{"jwks without keys", `"jwks":{}`, "jwks: it must be an object"},
		{"jwks with keys in upper case", `"jwks":{"KEYS":[{"kty":"EC"}]}`, "jwks: it must be an object"},
		{"jwks with no key", `"jwks":{"keys":[]}`, "jwks: it must be an object"},
		{"key that is no object", `"jwks":{"keys":["x"]}`, "jwks: it must be an object"},
		{"key without kty", key(`"x":"a"`), "jwks.keys[1]: it has no kty"},
		{"key with kty of another type", key(`"kty":1`), "jwks.keys[1]: it has no kty"},
		{"null key", `"jwks":{"keys":[null]}`, "jwks.keys[0]: it has no kty"},
		{"private EC key", key(`"kty":"EC","d":"a"`), private},
		{"private RSA key", key(`"kty":"RSA","n":"a","e":"AQAB","p":"b"`), private},
		{"private RSA key of many primes", key(`"kty":"RSA","oth":[]`), private},
		{"private key of a new type", key(`"kty":"AKP","priv":"a"`), private},
		{"symmetric key", key(`"kty":"oct","k":"a"`), private},
		{"symmetric key without its value", key(`"kty":"oct"`), private},
		{"null private member", key(`"kty":"EC","d":null`), private},
		{"duplicate", `"client_name":"Notes","client_name":"Bank"`, "client_name: duplicate member"},
		{"escaped duplicate", `"client_name":"Notes","client\u005fname":"Bank"`, "client_name: duplicate member"},
		{"unknown duplicate", `"x":1,"x":2`, "x: duplicate member"},
		{"duplicate in a key", key(`"kty":"EC","kty":"oct"`), "jwks.keys[1].kty: duplicate member"},
		{"NUL in a name", `"client_name\u0000":"Notes"`, "NUL in a member name"},
		{"lone surrogate", `"client_name":"\ud800"`, "client_name: not valid text"},
		{"too deep", `"x":` + strings.Repeat("[", 20) + strings.Repeat("]", 20), "nested too deep"},
	}
	f := newFixture(t, nil)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := f.post(t, with(tt.members))
			assertRefused(t, f, a, http.StatusBadRequest, "invalid_client_metadata")
			if !strings.Contains(a.text("error_description"), tt.says) {
				t.Errorf("it says %q, not %q", a.text("error_description"), tt.says)
			}
		})
	}
}

// keyP256 is a key set that can sign assertions.
const keyP256 = `{"keys":[{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}`

// assertions are members of a client that authenticates by private_key_jwt.
func assertions(members string) string {
	return strings.TrimSuffix(`"token_endpoint_auth_method":"private_key_jwt",`+members, ",")
}

// languages returns n names of a client in different languages.
func languages(n int) string {
	var members []string
	for i := range n {
		members = append(members, fmt.Sprintf(`"client_name#de-x-%d":"Notizen"`, i))
	}
	return strings.Join(members, ",")
}

func TestRefusedSoftwareStatement(t *testing.T) {
	f := newFixture(t, nil)
	for statement, code := range map[string]string{
		`"eyJhbGciOiJub25lIn0.e30."`: "unapproved_software_statement",
		`"a.b.c"`:                    "unapproved_software_statement",
		`"not a token"`:              "invalid_software_statement",
		`""`:                         "invalid_software_statement",
		`{}`:                         "invalid_software_statement",
		`1`:                          "invalid_software_statement",
	} {
		assertRefused(t, f, f.post(t, with(`"software_statement":`+statement)), http.StatusBadRequest, code)
	}
}

func TestRefusedBodies(t *testing.T) {
	large := with(`"x":"` + strings.Repeat("x", 64<<10) + `"`)
	exact := with(`"x":"` + strings.Repeat("x", 64<<10-len(with(`"x":""`))) + `"`)
	tests := []struct {
		name, contentType, body string
		status                  int
	}{
		{"no content type", "", minimal, 400},
		{"form", "application/x-www-form-urlencoded", "redirect_uris=https://client.example.com/", 400},
		{"text", "text/plain", minimal, 400},
		{"another JSON type", "application/ld+json", minimal, 400},
		{"malformed content type", "application/json;;", minimal, 400},
		{"two content types", "application/json\ntext/plain", minimal, 400},
		{"empty", "application/json", "", 400},
		{"not JSON", "application/json", "redirect_uris", 400},
		{"null", "application/json", "null", 400},
		{"list", "application/json", "[" + minimal + "]", 400},
		{"string", "application/json", `"x"`, 400},
		{"two values", "application/json", minimal + minimal, 400},
		{"invalid UTF-8", "application/json", "{\"client_name\":\"\xff\"}", 400},
		{"cut off", "application/json", minimal[:len(minimal)-1], 400},
		{"too large", "application/json", large, 413},
		{"one byte too large", "application/json", exact + " ", 413},
		{"too large and not JSON", "application/json", strings.Repeat("[", 70<<10), 413},
		{"largest", "application/json", exact, 201},
		{"with a charset", "application/json; charset=utf-8", minimal, 201},
		{"in upper case", "Application/JSON", minimal, 201},
	}
	f := newFixture(t, nil)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f.backend.writes.Store(0)
			r := httptest.NewRequest(http.MethodPost, registerURL, strings.NewReader(tt.body))
			if tt.contentType != "" {
				r.Header["Content-Type"] = strings.Split(tt.contentType, "\n")
			}
			a := serve(t, f.Register(), r)
			if tt.status == http.StatusCreated {
				if a.status != tt.status {
					t.Errorf("status %d: %s", a.status, a.raw)
				}
				return
			}
			code := "invalid_client_metadata"
			if tt.name == "null" {
				code = "invalid_redirect_uri" // null leaves everything out
			}
			assertRefused(t, f, a, tt.status, code)
		})
	}
}

// TestDescriptionsAreShort: long values in a request do not make answers or logs long.
func TestDescriptionsAreShort(t *testing.T) {
	f := newFixture(t, nil)
	for i, body := range []string{
		with(`"` + strings.Repeat("x", 5000) + `":1,"` + strings.Repeat("x", 5000) + `":1`),
		with(`"response_types":["` + strings.Repeat("é", 5000) + `"]`),
		with(`"a":` + strings.Repeat(`{"`+strings.Repeat("b", 60)+`":`, 20) + "1" + strings.Repeat("}", 20)),
		`{"redirect_uris":["` + strings.Repeat("x", 2000) + `:"]}`,
	} {
		a := f.post(t, body)
		if a.status != http.StatusBadRequest || len(a.text("error_description")) > 300 {
			t.Errorf("%d: status %d, %d bytes", i, a.status, len(a.text("error_description")))
		}
	}
}

// TestRefusedFieldsOneByOne: every member of the wrong JSON type is refused and named.
func TestRefusedFieldsOneByOne(t *testing.T) {
	f := newFixture(t, nil)
	for _, member := range []string{
		"redirect_uris", "token_endpoint_auth_method", "grant_types", "response_types", "client_name", "client_uri", "logo_uri",
		"scope", "contacts", "tos_uri", "policy_uri", "jwks_uri", "jwks", "software_id", "software_version", "application_type", "token_endpoint_auth_signing_alg",
	} {
		a := f.post(t, fmt.Sprintf(`{%q:true}`, member))
		if member == "jwks" {
			a = f.post(t, with(`"jwks":true`))
		}
		assertRefused(t, f, a, http.StatusBadRequest, "invalid_client_metadata")
		if !strings.HasPrefix(a.text("error_description"), member+": ") {
			t.Errorf("%s: it says %q", member, a.text("error_description"))
		}
	}
}
