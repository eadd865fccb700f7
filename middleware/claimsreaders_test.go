package middleware_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// rolePieces are put into claims. "r" is the role.
var rolePieces = []string{
	`"r"`, `"R"`, `"\u0072"`, `" r"`, `"r "`, `"r\u0000"`, `"\ud800"`, `"\uff52"`, `"r\u0301"`, `null`, `true`, `7`, `1e400`, `-0`, `12345678901234567890`, `0.1`, `[]`, `{}`, `["r"]`, `["r",null]`, `["x","\u0072"]`, `[["r"]]`,
	`{"r":{}}`, `{"r":null}`, `{"R":{}}`, `{"\u0072":{}}`, `{"r":{},"r":0}`, `{"__proto__":{"r":{}}}`, `{"r":[]}`, `"r","a":0`, `"r",`, `["r",]`, `[NaN]`, `"` + "\t" + `"`, `["` + "\u00a0" + `r"]`, `"r"/**/`,
}

var roleMembers = []string{`"a":{"b":%}`, `"a":{"b":%}`, `"a":{"b":%}`, `"a":{"b":%,"B":%}`, `"A":{"b":%}`, `"a":{"b":%},"a":{"b":%}`, `"\u0061":{"\u0062":%}`, `"a":[{"b":%}]`, `"a.b":%`, `"a":{"b":%},"__proto__":{"a":%}`, `"__proto__":{"a":{"b":%}}`, `"a":{"__proto__":{"b":%}}`, `"c":%`}

// The programs print all claims of a payload, and whether it has the role, as a program in that
// language would look.
const (
	nodeRoles = `
const own = (o, name) => o !== null && typeof o === "object" && !Array.isArray(o) && Object.hasOwn(o, name) ? o[name] : undefined;
const isObject = (v) => v !== null && typeof v === "object" && !Array.isArray(v);
process.stdout.write(JSON.stringify(JSON.parse(require("fs").readFileSync(0, "utf8")).map((text) => {
  try {
    const claims = JSON.parse(text), b = own(own(claims, "a"), "b");
    return { role: b === "r" || (Array.isArray(b) && b.includes("r")) || isObject(own(b, "r")), claims };
  } catch { return null; }
})));
`
	pythonRoles = `
import json, math, sys
def number(text):
    return float(text) if math.isfinite(float(text)) else None
def read(text):
    try:
        claims = json.loads(text, parse_float=number)
    except ValueError:
        return None
    a = claims.get("a")
    b = a.get("b") if isinstance(a, dict) else None
    return {"role": b == "r" or isinstance(b, list) and "r" in b or isinstance(b, dict) and isinstance(b.get("r"), dict), "claims": claims}
json.dump([read(t) for t in json.load(sys.stdin)], sys.stdout)
`
)

// askReader gives JSON to a program in another language, and decodes what it prints. The test is
// skipped where the language is not there.
func askReader(t *testing.T, command []string, in []byte, answers any) {
	t.Helper()
	if _, err := exec.LookPath(command[0]); err != nil {
		t.Skipf("there is no %s here", command[0])
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, answers)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestRolesOfOtherReaders checks that Node and Python find the role in a token exactly if a rule
// granted its scope, and read the same claims as Token.Claims gives.
func TestRolesOfOtherReaders(t *testing.T) {
	key := jose.JSONWebKey{Key: middlewaretest.NewKey(t, jose.EdDSA), KeyID: "one", Algorithm: "EdDSA"}
	const issuer = "https://auth.example.com"
	guard := guardOf(t, middleware.Issuer{URL: issuer, Keys: middleware.FixedKeys(keySetOf(t, key)),
		ScopeMap: []middleware.ScopeRule{{Claim: []string{"a", "b"}, Value: "r", Scopes: []string{"s"}}}})
	base := strings.TrimSuffix(string(marshal(t, claims{"iss": issuer, "aud": resource, "sub": "reader", "client_id": "client", "iat": 1000000000, "exp": 4000000000})), "}")
	random := rand.New(rand.NewPCG(13, 14))
	var payloads []string
	var tokens []*middleware.Token
	for range 2000 {
		payload := base + "," + somePiece(random, roleMembers) + "}"
		for strings.Contains(payload, "%") {
			payload = strings.Replace(payload, "%", somePiece(random, rolePieces), 1)
		}
		if token, err := guard.Verify(t.Context(), signWith(t, key, claims{"typ": "at+jwt"}, []byte(payload))); err == nil {
			payloads, tokens = append(payloads, payload), append(tokens, token)
		}
	}
	in, err := json.Marshal(payloads)
	if err != nil || len(payloads) < 500 {
		t.Fatalf("%d payloads: %v", len(payloads), err)
	}
	for name, command := range map[string][]string{"node": {"node", "-e", nodeRoles}, "python": {"python3", "-c", pythonRoles}} {
		t.Run(name, func(t *testing.T) {
			var all []*struct {
				Role   bool
				Claims map[string]any
			}
			if askReader(t, command, in, &all); len(all) != len(tokens) {
				t.Fatalf("%d answers to %d questions", len(all), len(tokens))
			}
			held := 0
			for i, read := range all {
				if read == nil {
					t.Errorf("%s is refused", payloads[i])
					continue
				}
				if tokens[i].HasScope("s") != read.Role {
					t.Errorf("%s: scopes %q, but role %t", payloads[i], tokens[i].Scopes, read.Role)
				}
				var here map[string]any
				if err := tokens[i].Claims(&here); err != nil || !reflect.DeepEqual(texts(here), texts(read.Claims)) {
					t.Errorf("%s: %v, %v and %v", payloads[i], err, here, read.Claims)
				}
				if read.Role {
					held++
				}
			}
			if t.Logf("%d payloads, %d with the role", len(all), held); held < 100 {
				t.Error("the payloads show too little")
			}
		})
	}
}

// texts returns a JSON value without its numbers, which languages hold in different precision.
func texts(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, one := range v {
			out[name] = texts(one)
		}
		return out
	case []any:
		out := []any{}
		for _, one := range v {
			out = append(out, texts(one))
		}
		return out
	case json.Number, float64:
		return nil
	}
	return v
}
