package dcr_test

import (
	"testing"

	"gatehouse.example/dcr"
)

// FuzzResponse: whatever a client registered, the answer has the bytes of encoding/json.
func FuzzResponse(f *testing.F) {
	f.Add(`{"client_id":"a","client_id_issued_at":-1,"client_secret":"<","client_secret_expires_at":0,"registration_client_uri":"https://a.example.com/?a&b","registration_access_token":""}`)
	f.Add(`{"redirect_uris":["com.example.app:/"],"client_name":"\u2028","jwks":{"keys":[ ]},"software_statement":"a.b.c","dpop_bound_access_tokens":true}`)
	f.Add(`{"client_id_issued_at":1772600767,"contacts":["a","b"],"software_id":"x","grant_types":[],"jwks":null}`)
	f.Fuzz(func(t *testing.T, text string) {
		sent, want, errs, ok := dcr.EncodedResponse([]byte(text))
		if ok && ((errs[0] == nil) != (errs[1] == nil) || errs[0] == nil && string(sent) != string(want)) {
			t.Errorf("%v:\n%s\n%s", errs, sent, want)
		}
	})
}
