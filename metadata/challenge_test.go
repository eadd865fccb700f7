package metadata_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"gatehouse.example/metadata"
)

type params = []metadata.Param

func TestChallengeString(t *testing.T) {
	for _, tt := range []struct {
		name string
		c    metadata.Challenge
		want string
	}{
		{"scheme alone", metadata.Challenge{Scheme: "Bearer"}, "Bearer"},
		{"one parameter", metadata.Challenge{Scheme: "Bearer", Params: params{{"scope", "a b"}}}, `Bearer scope="a b"`},
		{"the challenge of a resource", metadata.Challenge{Scheme: "Bearer", Params: params{
			{"error", "insufficient_scope"},
			{"scope", "notes:read notes:write"},
			{"resource_metadata", "https://notes.example.com/.well-known/oauth-protected-resource/mcp"},
		}}, `Bearer error="insufficient_scope", scope="notes:read notes:write", resource_metadata="https://notes.example.com/.well-known/oauth-protected-resource/mcp"`},
		{"empty value", metadata.Challenge{Scheme: "Basic", Params: params{{"realm", ""}}}, `Basic realm=""`},
		{"quotes are escaped", metadata.Challenge{Scheme: "Basic", Params: params{{"realm", `a "b" \c`}}}, `Basic realm="a \"b\" \\c"`},
		{"token68", metadata.Challenge{Scheme: "Negotiate", Params: params{{"", "a87421000492aa874209af8bc028=="}}}, "Negotiate a87421000492aa874209af8bc028=="},

		{"zero value", metadata.Challenge{}, ""},
		{"scheme with a space", metadata.Challenge{Scheme: "Bearer x", Params: params{{"a", "b"}}}, ""},
		{"scheme with a line break", metadata.Challenge{Scheme: "Bearer\r\nX: y"}, ""},
		{"scheme with a comma", metadata.Challenge{Scheme: "Bearer,Basic"}, ""},
		{"line break in a value", metadata.Challenge{Scheme: "Bearer", Params: params{{"realm", "a\r\nSet-Cookie: b=c"}}}, `Bearer realm="a  Set-Cookie: b=c"`},
		{"control characters in a value", metadata.Challenge{Scheme: "Bearer", Params: params{{"realm", "\x00a\tb\x1f\x7f"}}}, `Bearer realm=" a b  "`},
		{"bytes outside ASCII", metadata.Challenge{Scheme: "Bearer", Params: params{{"realm", "é"}}}, `Bearer realm="??"`},
		{"invalid UTF-8", metadata.Challenge{Scheme: "Bearer", Params: params{{"realm", "\xff"}}}, `Bearer realm="?"`},
		{"line break in a name", metadata.Challenge{Scheme: "Bearer", Params: params{{"a\r\nb", "c"}, {"d", "e"}}}, `Bearer d="e"`},
		{"equals sign in a name", metadata.Challenge{Scheme: "Bearer", Params: params{{"a=b", "c"}}}, `Bearer`},
		{"a name twice", metadata.Challenge{Scheme: "Bearer", Params: params{{"scope", "a"}, {"Scope", "b"}}}, `Bearer scope="a"`},
		{"token68 among parameters", metadata.Challenge{Scheme: "Bearer", Params: params{{"", "abc"}, {"a", "b"}}}, `Bearer a="b"`},
		{"not a token68", metadata.Challenge{Scheme: "Bearer", Params: params{{"", "a b"}}}, `Bearer`},
		{"padding alone", metadata.Challenge{Scheme: "Bearer", Params: params{{"", "=="}}}, `Bearer`},

		// RFC 6750 section 3: neither quote nor backslash, not even escaped.
		{"quote in error_description", metadata.Challenge{Scheme: "Bearer", Params: params{{"error_description", `the "aud" \ claim`}}}, `Bearer error_description="the 'aud' / claim"`},
		{"quote in error", metadata.Challenge{Scheme: "Bearer", Params: params{{"ERROR", `a"b`}}}, `Bearer ERROR="a'b"`},
		{"quote in scope", metadata.Challenge{Scheme: "Bearer", Params: params{{"scope", `a" x="b`}}}, `Bearer scope="a' x='b"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.c.String(); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestParseChallenges(t *testing.T) {
	for _, tt := range []struct {
		name    string
		headers []string
		want    []metadata.Challenge
	}{
		{"no header", nil, nil},
		{"empty header", []string{"", " , ,\t"}, nil},
		{"scheme alone", []string{"Bearer"}, []metadata.Challenge{{Scheme: "Bearer"}}},
		{"trailing space", []string{"Bearer \t "}, []metadata.Challenge{{Scheme: "Bearer"}}},
		{"two schemes", []string{"Negotiate, Basic"}, []metadata.Challenge{{Scheme: "Negotiate"}, {Scheme: "Basic"}}},
		{"token value", []string{"Digest qop=auth"}, []metadata.Challenge{{Scheme: "Digest", Params: params{{"qop", "auth"}}}}},
		{"several", []string{`Bearer error="x", scope="a b" , Basic realm="simple",charset=UTF-8`}, []metadata.Challenge{
			{Scheme: "Bearer", Params: params{{"error", "x"}, {"scope", "a b"}}},
			{Scheme: "Basic", Params: params{{"realm", "simple"}, {"charset", "UTF-8"}}},
		}},
		{"several headers", []string{`Bearer a="b"`, `DPoP algs="ES256 EdDSA"`}, []metadata.Challenge{
			{Scheme: "Bearer", Params: params{{"a", "b"}}},
			{Scheme: "DPoP", Params: params{{"algs", "ES256 EdDSA"}}},
		}},
		{"the example of RFC 9110", []string{`Basic realm="simple", Newauth realm="apps", type=1, title="Login to \"apps\""`}, []metadata.Challenge{
			{Scheme: "Basic", Params: params{{"realm", "simple"}}},
			{Scheme: "Newauth", Params: params{{"realm", "apps"}, {"type", "1"}, {"title", `Login to "apps"`}}},
		}},
		{"comma and equals in quotes", []string{`Bearer a="x, Basic realm=y", b=c`}, []metadata.Challenge{{Scheme: "Bearer", Params: params{{"a", "x, Basic realm=y"}, {"b", "c"}}}}},
		{"white space around the equals sign", []string{"Bearer a = \"b\" , c\t=\td"}, []metadata.Challenge{{Scheme: "Bearer", Params: params{{"a", "b"}, {"c", "d"}}}}},
		{"empty list elements", []string{`,, Bearer a=b,, c=d, , Basic,`}, []metadata.Challenge{
			{Scheme: "Bearer", Params: params{{"a", "b"}, {"c", "d"}}},
			{Scheme: "Basic"},
		}},
		{"token68", []string{"Negotiate YII=, NTLM TlRMTVNTUAAC/+-._~==, Basic realm=x"}, []metadata.Challenge{
			{Scheme: "Negotiate", Params: params{{"", "YII="}}},
			{Scheme: "NTLM", Params: params{{"", "TlRMTVNTUAAC/+-._~=="}}},
			{Scheme: "Basic", Params: params{{"realm", "x"}}},
		}},
		{"empty quoted value", []string{`Basic realm=""`}, []metadata.Challenge{{Scheme: "Basic", Params: params{{"realm", ""}}}}},
		{"escaped pairs", []string{`Basic realm="\a\"\\"`}, []metadata.Challenge{{Scheme: "Basic", Params: params{{"realm", `a"\`}}}}},
		{"bytes outside ASCII", []string{"Basic realm=\"\xe9\""}, []metadata.Challenge{{Scheme: "Basic", Params: params{{"realm", "\xe9"}}}}},
		{"other case", []string{`bearer Scope="a"`}, []metadata.Challenge{{Scheme: "bearer", Params: params{{"Scope", "a"}}}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := metadata.ParseChallenges(tt.headers)
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got  %+v, %v\nwant %+v", got, err, tt.want)
			}
		})
	}
}

func TestParseChallengesRefuses(t *testing.T) {
	for _, header := range []string{
		`=`, `"Bearer"`, `Bearer=x`, `Bearer="x"`, `Bearer"x"`, `Bearer/1 a=b`, `(Bearer)`, `Bearer; a=b`, "Bearer\x00", "Bearer\r\nX: y", "Bearer a=\"b\"\nX: y",
		`Bearer a` + ` b`, `Bearer a="b" c="d"`, `Bearer a="b"c="d"`, `Bearer a=b c`, `Bearer a="b`, `Bearer a="b\`, `Bearer a="`, `Bearer a=,b=c`, `Bearer ="b"`, `Bearer a==b`, `Bearer a=b=c`,
		`Bearer a="b", ="c"`, `Bearer a="b", c="d`, `Bearer a=b, A=c`, `Bearer scope="a", Scope="b"`, `Bearer a=b;c=d`, `Bearer a='b c'`, `Bearer abc=def=`,
		"Bearer a=\"\x01\"", "Bearer a=\"\\\x01\"", "Bearer a=\"\x7f\"", "Bearer é=x", "Bearer a=é", `Basic realm="x", {json}`, `Bearer realm, type=1`,
		"Bearer a=\"" + strings.Repeat("x", 16<<10) + "\"", strings.Repeat("A,", 33),
	} {
		got, err := metadata.ParseChallenges([]string{`Basic realm="fine"`, header})
		if got != nil || !errors.Is(err, metadata.ErrChallenge) {
			t.Errorf("ParseChallenges(%.60q) = %v, %v; want ErrChallenge", header, got, err)
		}
	}
}

func TestChallengeGet(t *testing.T) {
	c := metadata.Challenge{Scheme: "BEARER", Params: params{{"Resource_Metadata", "https://notes.example.com/"}, {"scope", ""}}}
	if got, ok := c.Get("resource_metadata"); !ok || got != "https://notes.example.com/" {
		t.Errorf("Get(resource_metadata) = %q, %v", got, ok)
	}
	if got, ok := c.Get("SCOPE"); !ok || got != "" {
		t.Errorf("Get(SCOPE) = %q, %v", got, ok)
	}
	if got, ok := c.Get("error"); ok || got != "" {
		t.Errorf("Get(error) = %q, %v", got, ok)
	}
	if !c.Is("Bearer") || c.Is("Basic") || c.Is("") {
		t.Error("schemes must compare without regard to case")
	}
}

// FuzzChallenge: every challenge is formatted as one line of printable ASCII, which parses as
// one challenge with the same format.
func FuzzChallenge(f *testing.F) {
	f.Add("Bearer", "scope", "a b", "error_description", `the "x"`)
	f.Add("Basic", "realm", "a\r\nb: c", "", "abc==")
	f.Add("Negotiate", "", "YII=", "", "")
	f.Add("a", "a", "\xff\\", "A", "\"")
	f.Fuzz(func(t *testing.T, scheme, name1, value1, name2, value2 string) {
		c := metadata.Challenge{Scheme: scheme, Params: params{{name1, value1}, {name2, value2}}}
		checkPrinted(t, c)
		c.Params = c.Params[:1]
		checkPrinted(t, c)
	})
}

func checkPrinted(t *testing.T, c metadata.Challenge) {
	t.Helper()
	line := c.String()
	for i := range len(line) {
		if line[i] < ' ' || line[i] > '~' {
			t.Fatalf("%+v prints %q", c, line)
		}
	}
	if len(line) > 16<<10 {
		return
	}
	parsed, err := metadata.ParseChallenges([]string{line})
	if line == "" {
		if err != nil || parsed != nil {
			t.Fatalf("nothing reads as %+v, %v", parsed, err)
		}
		return
	}
	if err != nil || len(parsed) != 1 || parsed[0].String() != line {
		t.Fatalf("%+v prints %q, which reads as %+v, %v", c, line, parsed, err)
	}
	for _, p := range c.Params {
		got, ok := parsed[0].Get(p.Name)
		if ok && plain(p.Value) && first(c, p) && got != p.Value {
			t.Fatalf("%+v prints %q, and %s reads back as %q", c, line, p.Name, got)
		}
	}
}

func first(c metadata.Challenge, p metadata.Param) bool {
	value, _ := c.Get(p.Name)
	return value == p.Value
}

func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' || s[i] == '"' || s[i] == '\\' {
			return false
		}
	}
	return true
}

// FuzzParseChallenges: parsed challenges can be formatted, and parse as the same challenges.
func FuzzParseChallenges(f *testing.F) {
	for _, seed := range []string{
		`Bearer error="invalid_token", scope="a b"`, `Basic realm="simple", Newauth type=1, title="\"x\""`, "Negotiate YII=,,Bearer", "A a=b, A b=c", "A \t=",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		first, err := metadata.ParseChallenges([]string{header})
		if err != nil {
			return
		}
		lines := make([]string, len(first))
		for i, c := range first {
			if lines[i] = c.String(); lines[i] == "" {
				t.Fatalf("%q reads as %+v, which prints nothing", header, c)
			}
		}
		again, err := metadata.ParseChallenges([]string{strings.Join(lines, ", ")})
		if err != nil || len(again) != len(first) {
			t.Fatalf("%q reads as %+v, but prints as %q: %v", header, first, lines, err)
		}
		for i := range first {
			if !strings.EqualFold(again[i].Scheme, first[i].Scheme) || len(again[i].Params) != len(first[i].Params) || again[i].String() != lines[i] {
				t.Fatalf("%q reads as %+v, then as %+v", header, first[i], again[i])
			}
		}
	})
}
