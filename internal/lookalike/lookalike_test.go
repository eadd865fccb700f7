package lookalike_test

import (
	"encoding/json"
	"os/exec"
	"slices"
	"testing"
	"unicode/utf8"

	"gatehouse.example/internal/lookalike"
)

func TestFold(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "Notes/7": "notes/7", "\u212aeys": "keys", "tra\u017fh": "trash", "adm\u0131n": "admin", "ADM\u0130N": "admin", "\ufb01les": "files", "cla\u00df": "class",
		"\uff34\uff32\uff21\uff33\uff28": "trash", "a\uff0fb": "a/b", "a\u2025": "a..", "\u2000": " ", "\u3000": " ", "\U0001d42d": "t", "\uff5c": "|", "\u2460": "1", "\u338f": "kg",
		"caf\u00c9": "caf\u00e9", "\u65e5\u672c": "\u65e5\u672c", "a\xffb": "a\ufffdb",
	} {
		if got := lookalike.Fold(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestFoldings(t *testing.T) {
	for text, want := range map[string][]string{
		"Notes":                           {"notes"},
		"K\u212a\u0131\ufb01\u00df\uff53": {"k\u212a\u0131\ufb01\u00df\uff53", "kk\ue000\ufb01\u00df\uff53", "kk\ue000fiss\uff53", "kk\ue000fisss", "kki\ufb01\u00df\uff53", "kkifiss\uff53", "kkifisss"},
		"\u0130":                          {"\u0130", "\ue000", "\ue000", "\ue000", "i", "i", "i"},
	} {
		if got := lookalike.Foldings(text); !slices.Equal(got, want) {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestPath(t *testing.T) {
	for path, want := range map[string]string{
		"/": "/", "/Notes/7/": "/notes/7", "/a.b/c": "/a.b/c", "/a./b%20": "/a/b", "/a;v=1/b": "/a/b", "/a\uff1bv/b\uff1fx": "/a/b", "/a\uff3cb": "/a/b",
		"/a/\u2025/b": "/b", "/a/b\uff0f\u2025\uff0f\u2025": "/", "/a\uff05\uff12\uff46b": "/a/b", "/\uff05": "/%", "/a/...": "/a", "/a\uff03b": "/a", "/a\ufeff/\u00a0b.\u2028": "/a/b",
		"/a/b\x00/c": "/a/b", "/a/b%00.txt": "/a/b",
	} {
		if got := lookalike.Path(path); got != want {
			t.Errorf("%q becomes %q, want %q", path, got, want)
		}
	}
}

// python prints what each character is for readers that ignore case, or compatibility too.
const python = `
import json, unicodedata
def nfkc(s):
    return unicodedata.normalize("NFKC", s)
def readings(c):
    for s in (c, c.upper(), c.lower(), c.casefold()):
        yield s.lower()
        yield nfkc(s).lower()
        yield nfkc(nfkc(s).casefold())
out = {}
for n in range(0x80, 0x30000):
    if not 0xd800 <= n < 0xe000:
        found = sorted({s for s in readings(chr(n)) if s.isascii()})
        if found:
            out[chr(n)] = found
print(json.dumps(out))
`

// TestFoldIsThatOfPython compares the planes with letters with Unicode as Python has it.
func TestFoldIsThatOfPython(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3 here")
	}
	text, err := exec.Command("python3", "-c", python).Output()
	var want map[string][]string
	if err != nil || json.Unmarshal(text, &want) != nil || len(want) < 1400 {
		t.Fatalf("%v: %d characters", err, len(want))
	}
	for c := rune(utf8.RuneSelf); c < 0x30000; c++ {
		got := lookalike.Fold(string(c))
		for _, reading := range want[string(c)] {
			if got != reading {
				t.Errorf("%U becomes %q, but is %q for Python", c, got, reading)
			}
		}
		newer := c == '\u0130' || c == '\ua7f1' || c >= 0x1ccd6 && c <= 0x1ccf9 // for regular expressions; since Unicode 16
		if len(want[string(c)]) == 0 && !newer && got[0] < utf8.RuneSelf {
			t.Errorf("%U becomes %q, but nothing in ASCII for Python", c, got)
		}
	}
}
