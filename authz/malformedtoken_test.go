package authz_test

import (
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
)

func bodyOf(s string) io.ReadCloser { return io.NopCloser(strings.NewReader(s)) }

// malformedTokens returns values that this server cannot have issued as tokens: every single
// byte alone and inside of a value, every length around the limits, and random bytes.
func malformedTokens() []string {
	values := []string{"null", "undefined", "Bearer x", `{"a":1}`, "gate_rt_", "gate_ac_", "\xef\xbb\xbfgate_rt_"}
	for b := range 256 {
		values = append(values, string([]byte{byte(b)}), "gate_rt_"+string([]byte{byte(b)})+strings.Repeat("A", 69))
	}
	for _, n := range []int{100, 511, 512, 513, 514, 4096, 16 << 10, 16<<10 + 1, 60_000} {
		values = append(values, strings.Repeat("A", n), "gate_rt_"+strings.Repeat("A", n))
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		raw := make([]byte, 1+random.IntN(300))
		for i := range raw {
			raw[i] = byte(random.Uint32())
		}
		values = append(values, string(raw))
	}
	return values
}

// TestMalformedTokens: for every malformed refresh token or code the answer is
// invalid_grant, so that the client starts anew. At /revoke such a token is ignored, at
// /introspect it is inactive. Nothing is written, and the log does not contain it.
func TestMalformedTokens(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	before := h.meter.writes.Load()
	for _, value := range malformedTokens() {
		for name, r := range map[string]reply{
			"refresh": h.toToken(c, refreshing(c, value)),
			"redeem":  h.toToken(c, redemption(c, value)),
		} {
			if faults := refusalFaults(r, http.StatusBadRequest, "invalid_grant"); len(faults) > 0 {
				t.Fatalf("%s %.60q (%d bytes): %s\n%s", name, value, len(value), strings.Join(faults, "\n"), r)
			}
		}
		if r := h.post("/revoke", "token", value, "client_id", c.ID); r.status != http.StatusOK {
			t.Fatalf("revoke %.60q (%d bytes): %s", value, len(value), r)
		}
		if r := h.introspect(value); r.status != http.StatusOK || r.body != `{"active":false}` {
			t.Fatalf("introspect %.60q (%d bytes): %s", value, len(value), r)
		}
	}
	if n := h.meter.writes.Load() - before; n != 0 {
		t.Errorf("%d writes", n)
	}
	if strings.Contains(h.log.String(), strings.Repeat("A", 26)) {
		t.Error("a token is in the log")
	}
}

// TestMalformedCredentials: for a malformed client id or secret the answer is
// invalid_client, so that the client registers anew.
func TestMalformedCredentials(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["post"]
	for _, value := range []string{strings.Repeat("a", 20_000), "a\x00b", "\xff", "\r\n"} {
		for _, name := range []string{"client_id", "client_secret"} {
			for path, values := range map[string][]string{"/token": {"grant_type", "refresh_token", "refresh_token", "x"}, "/revoke": {"token", "x"}} {
				r := h.send(h.newRequest(http.MethodPost, h.issuer+path, replaced(identified(c, form(values...)), name, value)))
				mustRefuse(t, r, http.StatusUnauthorized, "invalid_client")
			}
		}
		values := form("grant_type", "refresh_token", "refresh_token", "x", "client_assertion", value,
			"client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		mustRefuse(t, h.send(h.newRequest(http.MethodPost, h.issuer+"/token", values)), http.StatusUnauthorized, "invalid_client")
	}
}
