package middleware_test

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"gatehouse.example/middleware"
)

// payloadPieces are what TestProfileOtherReaders puts into payloads.
var payloadPieces = []string{
	``, ``, ` `, "\t", "\n", "\f", "\v", "\ufeff", "\u00a0", "\u2028", "\x00", "\x7f", "\xff", "\u00e9", `\u00e9`, `\ud800`, `\ud83d\ude00`, `\/`, `\x41`, `\n`, `\u0000`,
	`,`, `,,`, `}`, `]`, `{`, `"`, `'`, `//`, `/**/`, `#`, `}{`, `} `, `}x`, `1`, `0`, `-`, `.5`, `e3`, `E+2`, `_`, `x`,
	`,"sub":"x"`, `,"SUB":"x"`, `,"s\u0075b":"x"`, `,"sub":null`, `,"sub":7`, `,"aud":[]`, `,"aud":"x"`, `,"aud":{"0":"x"}`, `,"AUD":"x"`,
	`,"azp":"x"`, `,"azp":null`, `,"cid":"x"`, `,"client_id":"x"`, `,"client_id":["x"]`, `,"appid":"x"`, `,"scope":"a c"`, `,"scp":"a c"`, `,"scp":["a c"]`, `,"roles":["c"]`,
	`,"permissions":["c"]`, `,"scope":null`, `,"typ":"Bearer"`, `,"typ":"ID"`, `,"token_use":"access"`, `,"token_use":"id"`, `,"nonce":"x"`, `,"at_hash":null`, `,"gty":1`,
	`,"exp":1e10`, `,"exp":9999999999.5`, `,"exp":"9999999999"`, `,"exp":NaN`, `,"exp":Infinity`, `,"x":01`, `,"x":+1`, `,"x":0x1`, `,"x":1.`, `,"x":-0`, `,"x":1e400`, `,"x":-`,
	`,"x":NaN`, `,"x":-Infinity`, `,"x":undefined`, `,"x":True`, `,"x":None`, `,"x":{"sub":"x"}`, `,"x":[{"aud":"x"}]`, `,"x":[1,]`, `,"x":{"a":1,}`, `,"x":"\q"`, `,'x':1`, `,x:1`,
	`,"x":"` + "\t" + `"`, `,"__proto__":{"sub":"x"}`, `,"constructor":1`, `,"toString":"x"`, `,"x":12345678901234567890`, `,"x":1,"x":2`, `,"":""`, `,"jti":"x"`, `,"jti":"\ud800"`,
}

// somePayload changes a payload in one or two places.
func somePayload(r *rand.Rand, payload string) string {
	for range 1 + r.IntN(2) {
		at, cut := len(payload)-1, 0 // where a member fits
		if r.IntN(5) == 0 {
			at, cut = r.IntN(len(payload)), r.IntN(4)
		}
		payload = payload[:at] + somePiece(r, payloadPieces) + payload[min(at+cut, len(payload)):]
	}
	return payload
}

// The programs read each payload, and print it as they understand it: null if they refuse it.
const (
	nodeClaims = `
const read = (text) => { try { return JSON.parse(text); } catch { return null; } };
process.stdout.write(JSON.stringify(JSON.parse(require("fs").readFileSync(0, "utf8")).map(read)));
`
	pythonClaims = `
import json, math, sys
def number(text):
    return float(text) if math.isfinite(float(text)) else text
def read(text):
    try:
        return json.loads(text, parse_float=number)
    except ValueError:
        return None
json.dump([read(t) for t in json.load(sys.stdin)], sys.stdout)
`
)

// TestProfileOtherReaders checks that Node and Python read in a payload that a profile accepts what
// the guard reads: who it is for, from and about, and that it is an access token.
func TestProfileOtherReaders(t *testing.T) {
	goods, accepts := profilePayloads(t)
	random := rand.New(rand.NewPCG(5, 6))
	var payloads []string
	var tokens []*middleware.Token
	for range 2000 {
		payload := somePayload(random, goods[random.IntN(len(goods))])
		if token := accepts(t, payload); token != nil {
			payloads, tokens = append(payloads, payload), append(tokens, token)
		}
	}
	if len(payloads) < 200 {
		t.Fatalf("only %d payloads are accepted", len(payloads))
	}
	in, err := json.Marshal(payloads)
	if err != nil {
		t.Fatal(err)
	}
	for name, command := range map[string][]string{"node": {"node", "-e", nodeClaims}, "python": {"python3", "-c", pythonClaims}} {
		t.Run(name, func(t *testing.T) {
			var read []json.RawMessage
			if askReader(t, command, in, &read); len(read) != len(tokens) {
				t.Fatalf("%d of %d readings", len(read), len(tokens))
			}
			for i, text := range read {
				asProfile(t, string(text), tokens[i])
			}
		})
	}
}
