package message_test

import (
	"encoding/json"
	"strings"
	"testing"

	"gatehouse.example/message"
)

func TestIcon(t *testing.T) {
	const text = `{"src":"https://example.com/icon.png","mimeType":"image/png","sizes":["48x48","any"],"theme":"dark"}`
	var icon message.Icon
	if err := json.Unmarshal([]byte(text), &icon); err != nil {
		t.Fatal(err)
	}
	if err := icon.Validate(); err != nil {
		t.Error(err)
	}
	if back, err := json.Marshal(icon); err != nil || string(back) != text {
		t.Errorf("%s, %v", back, err)
	}
}

// TestIconsOfTheProtocol: the protocol has https, http, and images in base64.
func TestIconsOfTheProtocol(t *testing.T) {
	for _, src := range []string{
		"https://example.com/icon.png", "http://example.com/icon.png", "HTTPS://example.com/icon.png?a=b#c", "https://example.com:8443/", "https://[2001:db8::1]/i",
		"http://127.0.0.1:8080/icon.png", "https://example.com/%41", "https://example.com/größe.png", "https://xn--bcher-kva.example.com/i",
		"data:image/png;base64,iVBORw0KGgo=", "data:image/svg+xml;base64,PHN2Zy8+", "data:image/png;name=a;base64,AAAA", "data:IMAGE/PNG;base64,AA==", "DATA:image/png;base64,AAAA",
	} {
		if err := (message.Icon{Src: src}).Validate(); err != nil {
			t.Errorf("%s: %v", src, err)
		}
	}
}

// TestOtherIconsAreRefused: every other address is refused, also in spellings that some parsers
// take for a scheme that runs code or reads local data.
func TestOtherIconsAreRefused(t *testing.T) {
	for _, src := range []string{
		"javascript:alert(1)", "JavaScript:alert(1)", "java\tscript:alert(1)", "\x01javascript:alert(1)", " javascript:alert(1)", "javascript&colon;alert(1)",
		"file:///etc/passwd", "FILE:///etc/passwd", "file:srv/icon.png", "ws://example.com/", "wss://example.com/", "ftp://example.com/icon.png", "blob:https://example.com/1",
		"about:blank", "view-source:https://example.com/", "filesystem:https://example.com/x", "vscode://icon", "intent://example.com", "mailto:a@example.com", "urn:x", "chrome://x",
		"icon.png", "/icon.png", "//example.com/icon.png", "./icon.svg", "?x", "#x", ":", "https", "https:",
		"https:example.com/icon.png", "https:/example.com/icon.png", "https:///icon.png", "https://", "https://:443/", "https:\\\\example.com/icon.png", "https://example.com\\@example.org/",
		"https://reader@example.com/icon.png", "https://reader:secret@example.com/", "https://@example.com/", "https://exam%70le.com/", "https://example.com:port/", "https://[::1/", "https://example.com/%zz",
		"https://example.com/icon.png\n", "\nhttps://example.com/", "ht\ntps://example.com/", "https://example.com/a b", " https://example.com/", "https://example.com/\u200b", "https://example.com/\u202egnp",
		"https://example.com/\x00", "https://example.com/\xff", "\ufeffhttps://example.com/", "https://example.com/\"onload=x", "https://example.com/<b>", "ｈttps://example.com/", "https：//example.com/",
		"data:", "data:,", "data:,hello", "data:image/png,hello", "data:image/png;base64", "data:image/png;base64,", "data:image/png;base64,*", "data:image/png;base64,AAA", "data:image/png;base64,AA==AA==",
		"data:image/png;base64,%41%41%41%41", "data:image/png;base64,AA AA", "data:image/png;base64;x=y,AAAA", "data:image/png;base64=,AAAA", "data:image/png; base64,AAAA", "data:image/png;BASE64,AAAA",
		"data:;base64,AAAA", "data:text/html;base64,PGI+", "data:text/html,image/png;base64,AAAA", "data:application/javascript;base64,AAAA", "data:image/;base64,AAAA", "data:image;base64,AAAA",
		"data:ximage/png;base64,AAAA", "data:image/png/x;base64,AAAA", "data:image/svg+xml,<svg/>", "data:image/svg+xml;utf8,%3Csvg/%3E", "data://image/png;base64,AAAA",
	} {
		err := message.Icon{Src: src}.Validate()
		if err == nil || !strings.Contains(err.Error(), "src") {
			t.Errorf("%q: %v", src, err)
		}
		if err != nil && (len(err.Error()) > 300 || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%q: the error says too much: %v", src, err)
		}
	}
	if err := (message.Icon{Src: "data:image/png;base64," + strings.Repeat("A", 1<<20) + "*"}).Validate(); err == nil || len(err.Error()) > 300 {
		t.Error("a long one that is no base64 is taken, or repeated")
	}
}

func TestIconRefused(t *testing.T) {
	for what, icon := range map[string]message.Icon{
		"src":           {},
		`"48"`:          {Src: "s", Sizes: []string{"48"}},
		`"0x48"`:        {Src: "s", Sizes: []string{"16x16", "0x48"}},
		`"48x48 "`:      {Src: "s", Sizes: []string{"48x48 "}},
		`"ANY"`:         {Src: "s", Sizes: []string{"ANY"}},
		`"blue"`:        {Src: "s", Theme: "blue"},
		`"48X48"`:       {Src: "s", Sizes: []string{"48X48"}},
		`"100000x1"`:    {Src: "s", Sizes: []string{"100000x1"}},
		`"48x48\n48x4"`: {Src: "s", Sizes: []string{"48x48\n48x4"}},
	} {
		if err := icon.Validate(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%+v: %v; want an error about %s", icon, err, what)
		}
	}
	if err := (message.Icon{Sizes: []string{"x"}, Theme: "x"}).Validate(); strings.Count(err.Error(), "icon:") != 3 {
		t.Errorf("not every mistake is reported: %v", err)
	}
}
