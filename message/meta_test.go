package message_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"gatehouse.example/message"
)

func TestParseMetaKey(t *testing.T) {
	for in, want := range map[string]message.MetaKey{
		"":                               {},
		"a":                              {Name: "a"},
		"7":                              {Name: "7"},
		"progressToken":                  {Name: "progressToken"},
		"a-b_c.d":                        {Name: "a-b_c.d"},
		"a..b--c__d":                     {Name: "a..b--c__d"},
		"com.example/":                   {Prefix: "com.example"},
		"com.example/name":               {Prefix: "com.example", Name: "name"},
		"example/name":                   {Prefix: "example", Name: "name"},
		"a/b":                            {Prefix: "a", Name: "b"},
		"a1.b-2.c--d/1.2":                {Prefix: "a1.b-2.c--d", Name: "1.2"},
		"COM.Example/Name":               {Prefix: "COM.Example", Name: "Name"},
		message.MetaProtocolVersion:      {Prefix: "io.modelcontextprotocol", Name: "protocolVersion"},
		message.MetaSubscriptionID:       {Prefix: "io.modelcontextprotocol", Name: "subscriptionId"},
		strings.Repeat("a.", 99) + "b/c": {Prefix: strings.Repeat("a.", 99) + "b", Name: "c"},
	} {
		got, err := message.ParseMetaKey(in)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", in, got, err, want)
		}
		if got.String() != in {
			t.Errorf("%q is written as %q", in, got)
		}
	}
}

func TestParseMetaKeyRefused(t *testing.T) {
	for _, in := range []string{
		"/", "/a", "./a", ".a/b", "a./b", "a..b/c", "1a/b", "-a/b", "a-/b", "a.1/b", "a.b-/c", "a_b/c", "a b/c", " a/b", "é/b", "aé/b", "a\x00/b", "a\xff/b",
		"a/b/c", "a//b", "a/b/", "_a", "a_", "-a", "a-", ".a", "a.", "_", "-", ".", " ", "a b", "a:b", "a\n", "é", "aéb", "a\x00b", "a\xffb", "ａ", "a/_b", "a/b.", "a/é",
		"https://example.com/a", "ſa/b", "ašb", "ašb/c", // the middle letter is an a in its low byte
	} {
		if got, err := message.ParseMetaKey(in); err == nil || got != (message.MetaKey{}) || strings.ContainsAny(err.Error(), "\n\x00") {
			t.Errorf("%q: %+v, %v", in, got, err)
		}
	}
}

func TestMetaKeyReserved(t *testing.T) {
	for in, want := range map[string]bool{
		"io.modelcontextprotocol/a":            true,
		"io.modelcontextprotocol/":             true,
		"dev.mcp/a":                            true,
		"com.mcp.tools/a":                      true,
		"org.modelcontextprotocol.api/a":       true,
		"mcp.mcp/a":                            true,
		"com.example.mcp/a":                    false,
		"com.example.modelcontextprotocol.x/a": false,
		"mcp/a":                                false,
		"mcp.example/a":                        false,
		"modelcontextprotocol.io/a":            false,
		"com.mcp-tools/a":                      false,
		"com.MCP/a":                            false,
		"com.example/mcp":                      false,
		"com.example/io.mcp":                   false,
		"io.mcp":                               false,
		"progressToken":                        false,
		"":                                     false,
	} {
		key, err := message.ParseMetaKey(in)
		if err != nil || key.Reserved() != want {
			t.Errorf("%q: reserved is %v, %v", in, key.Reserved(), err)
		}
	}
}

func TestMeta(t *testing.T) {
	const in = `{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"progressToken":9007199254740993,` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","com.example/a":{"_b":[ ]},"traceparent":null}}}`
	m, err := message.Decode([]byte(in), message.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	meta, err := m.(message.Request).Params.Meta()
	if err != nil || meta.Validate() != nil {
		t.Fatal(err, meta.Validate())
	}
	want := message.Meta{
		message.MetaProgressToken: json.RawMessage("9007199254740993"), message.MetaProtocolVersion: json.RawMessage(`"2026-07-28"`),
		"com.example/a": json.RawMessage(`{"_b":[ ]}`), message.MetaTraceParent: json.RawMessage("null"),
	}
	if !reflect.DeepEqual(meta, want) {
		t.Errorf("got %s, want %s", meta, want)
	}
	if token, err := meta.ProgressToken(); err != nil || token != message.NumberID(9007199254740993) {
		t.Errorf("token %s, %v", token, err)
	}
	if version, err := meta.ProtocolVersion(); err != nil || version != "2026-07-28" {
		t.Errorf("version %q, %v", version, err)
	}
}

func TestMetaOfResult(t *testing.T) {
	m, err := message.Decode([]byte(`{"jsonrpc":"2.0","id":1,"result":{"_meta":{"_a":1,"b":2,"c/":3,"d_":4}}}`), message.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	meta, err := m.(message.ResultResponse).Result.Meta()
	if err != nil {
		t.Fatal(err)
	}
	if err := meta.Validate(); err == nil || strings.Count(err.Error(), "_meta:") != 2 || !strings.Contains(err.Error(), `"_a"`) || !strings.Contains(err.Error(), `"d_"`) {
		t.Errorf("not every mistake is reported, or more than that: %v", err)
	}
}

func TestMetaMissing(t *testing.T) {
	for _, o := range []message.Object{{}, object(t, `{}`), object(t, `{"meta":1}`)} {
		meta, err := o.Meta()
		if meta != nil || err != nil || meta.Validate() != nil {
			t.Errorf("%s: %v, %v", o.Raw(), meta, err)
		}
		if token, err := meta.ProgressToken(); !token.IsZero() || err != nil {
			t.Errorf("token %s, %v", token, err)
		}
		if version, err := meta.ProtocolVersion(); version != "" || err != nil {
			t.Errorf("version %s, %v", version, err)
		}
	}
}

func TestMetaRefused(t *testing.T) {
	for _, in := range []string{`{"_meta":null}`, `{"_meta":[]}`, `{"_meta":"a"}`, `{"_meta":{},"_META":{}}`} {
		if meta, err := object(t, in).Meta(); err == nil || meta != nil {
			t.Errorf("%s: %v", in, meta)
		}
	}
	for _, in := range []string{`{"progressToken":null}`, `{"progressToken":1.5}`, `{"progressToken":{}}`} {
		meta, err := object(t, `{"_meta":`+in+`}`).Meta()
		if err != nil {
			t.Fatal(err)
		}
		if token, err := meta.ProgressToken(); err == nil || !token.IsZero() {
			t.Errorf("%s: %s", in, token)
		}
	}
	for _, value := range []string{`null`, `20260728`, `{}`} {
		meta := message.Meta{message.MetaProtocolVersion: json.RawMessage(value)}
		if version, err := meta.ProtocolVersion(); err == nil || version != "" {
			t.Errorf("%s: %s", value, version)
		}
	}
}
