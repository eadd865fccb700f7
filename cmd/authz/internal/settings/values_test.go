package settings

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	tests := []struct {
		text string
		want time.Duration
		show string
	}{
		{"90s", 90 * time.Second, "1m30s"},
		{"5m", 5 * time.Minute, "5m"},
		{"1h30m", 90 * time.Minute, "1h30m"},
		{"0s", 0, "0s"},
		{"0", 0, "0s"},
		{"-1s", -time.Second, "-1s"},
		{"30d", 30 * Day, "30d"},
		{"0d", 0, "0s"},
		{"1d12h", 36 * time.Hour, "36h"},
		{"1d0.5h", 24*time.Hour + 30*time.Minute, "24h30m"},
		{"10h", 10 * time.Hour, "10h"},
		{"10m", 10 * time.Minute, "10m"},
		{"100s", 100 * time.Second, "1m40s"},
	}
	for _, tt := range tests {
		var d Duration
		if err := d.UnmarshalText([]byte(tt.text)); err != nil || time.Duration(d) != tt.want {
			t.Errorf("%q: %s, %v; want %s", tt.text, time.Duration(d), err, tt.want)
		}
		if d.String() != tt.show {
			t.Errorf("%q is shown as %q, want %q", tt.text, d, tt.show)
		}
		var again Duration
		if err := again.UnmarshalText([]byte(d.String())); err != nil || again != d {
			t.Errorf("%q is shown as %q, which is read as %s, %v", tt.text, d, again, err)
		}
	}
	for _, text := range []string{"", " ", "5", "d", "5 m", "1h1d", "1d1d", "-1d1h", "1d-1h", "1.5d", "1D", "30days", "99999d", "1d2562047h", "0x1d", "bananas"} {
		var d Duration
		if err := d.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is read as %s", text, d)
		}
	}
}

// TestStoreInAFile: three slashes are a path of this machine, two a host; a path that another program
// would read in another way is none.
func TestStoreInAFile(t *testing.T) {
	for url, want := range map[StoreURL]string{
		"file:/a/b.db": "/a/b.db", "file:///a/b.db": "/a/b.db", "file:b.db": "b.db", "redis://127.0.0.1:6379": "", "embedded:": "",
		"file://host/a/b.db": "!", "file:/a/": "!", "file:": "!", "file:~/b.db": "!", "file:/a/b.db?x": "!", "file:/a/%62.db": "!", "file:/a/b\x00.db": "!",
	} {
		path, err := url.File()
		if path != strings.TrimPrefix(want, "!") || (err != nil) != (want == "!") {
			t.Errorf("%q is %q, %v", string(url), path, err)
		}
	}
}

func TestMasterKeys(t *testing.T) {
	good := map[string]int{
		testKey(1):                            1,
		strings.TrimRight(testKey(1), "="):    1,
		testKey(1) + "," + testKey(2):         2,
		" " + testKey(1) + " , " + testKey(2): 2,
		strings.Repeat("_", 42) + "8":         1,
		strings.Repeat("/", 42) + "8=":        1,
	}
	for text, want := range good {
		var keys MasterKeys
		if err := keys.UnmarshalText([]byte(text)); err != nil || len(keys) != want || len(keys[0]) != 32 {
			t.Errorf("%q: %d keys, %v", text, len(keys), err)
		}
	}
	bad := []string{"", ",", testKey(1) + ",", "," + testKey(1), "hunter22", testKey(1)[1:], testKey(1) + "A", testKey(1) + testKey(2),
		strings.Repeat("_", 21) + strings.Repeat("/", 21) + "8", strings.Repeat("0", 63), "hunter22 hunter22"}
	for _, text := range bad {
		var keys MasterKeys
		err := keys.UnmarshalText([]byte(text))
		if err == nil {
			t.Errorf("%q is accepted", text)
		} else if strings.Contains(err.Error(), "hunter") {
			t.Errorf("%q is repeated: %v", text, err)
		}
	}
}

// TestStoreURLShown: what is shown of a store's URL never holds a password, wherever it
// was written, and is otherwise what was written.
func TestStoreURLShown(t *testing.T) {
	for given, want := range map[StoreURL]string{
		"":                                       "",
		"embedded:":                              "embedded:",
		"redis://127.0.0.1":                      "redis://127.0.0.1",
		"redis://127.0.0.1:6379/2":               "redis://127.0.0.1:6379/2",
		"rediss://gate:hunter22@h:6380/0":        "rediss://gate:xxxxx@h:6380/0",
		"redis://:hunter22@h":                    "redis://:xxxxx@h",
		"redis://hunter22@h":                     "redis://xxxxx@h",
		"redis://gate:hunt@er22@h":               "redis://gate:xxxxx@h",
		"redis://gate:hunter22%@h":               "redis://gate:xxxxx@h",
		"redis+cluster://u:hunter22@h:1,[::1]:2": "redis+cluster://u:xxxxx@h:1,[::1]:2",
		"redis+sentinel://h1:1,h2:2/main?db=4":   "redis+sentinel://h1:1,h2:2/main?db=4",
		"rediss+sentinel://u:hunter22@h1,h2/main?sentinel-user=gate&db=4&sentinel-password=hunter22": "rediss+sentinel://u:xxxxx@h1,h2/main?sentinel-user=gate&db=4&sentinel-password=xxxxx",
		"redis+sentinel://h/main?sentinel-password=hunter22@h2/x?y=:":                                "redis+sentinel://h/main?sentinel-password=xxxxx",
		"redis+sentinel://h/main?sentinel-password=a&hunter22&b=hunter22&hunter22=b":                 "redis+sentinel://h/main?sentinel-password=xxxxx&xxxxx&xxxxx&xxxxx",
		"redis+sentinel://h/main?sentinel-password":                                                  "redis+sentinel://h/main?sentinel-password=xxxxx",
		"redis://h?password=hunter22":                                                                "redis://h?xxxxx",
		"redis://h?db=hunter22":                                                                      "redis://h?xxxxx",
		"redis+sentinel://h/main?sentinel-password=x#hunter22":                                       Redacted,
		"redis://gate:hun/ter22@h":                                                                   Redacted,
		"redis://gate:hun#ter22@h":                                                                   Redacted,
		"redis://h/0#hunter22":                                                                       Redacted,
		"gate:hunter22@redis://h":                                                                    Redacted,
		"hunter22":                                                                                   Redacted,
		"embedded:hunter22":                                                                          Redacted,
	} {
		shown := fmt.Sprint(given)
		if shown != want || given.LogValue().String() != want || given.GoString() != want {
			t.Errorf("%q is shown as %q, want %q", string(given), shown, want)
		}
	}
}

// testKey is a master key as it is configured.
func testKey(first byte) string {
	key := sha256.Sum256([]byte{first})
	return base64.StdEncoding.EncodeToString(key[:])
}
