package main

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
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
		{"30d", 30 * day, "30d"},
		{"0d", 0, "0s"},
		{"1d12h", 36 * time.Hour, "36h"},
		{"1d0.5h", 24*time.Hour + 30*time.Minute, "24h30m"},
		{"10h", 10 * time.Hour, "10h"},
		{"10m", 10 * time.Minute, "10m"},
		{"100s", 100 * time.Second, "1m40s"},
	}
	for _, tt := range tests {
		var d duration
		if err := d.UnmarshalText([]byte(tt.text)); err != nil || time.Duration(d) != tt.want {
			t.Errorf("%q: %s, %v; want %s", tt.text, time.Duration(d), err, tt.want)
		}
		if d.String() != tt.show {
			t.Errorf("%q is shown as %q, want %q", tt.text, d, tt.show)
		}
		var again duration
		if err := again.UnmarshalText([]byte(d.String())); err != nil || again != d {
			t.Errorf("%q is shown as %q, which is read as %s, %v", tt.text, d, again, err)
		}
	}
	for _, text := range []string{"", " ", "5", "d", "5 m", "1h1d", "1d1d", "-1d1h", "1d-1h", "1.5d", "1D", "30days", "99999d", "1d2562047h", "0x1d", "bananas"} {
		var d duration
		if err := d.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is read as %s", text, d)
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
		var keys masterKeys
		if err := keys.UnmarshalText([]byte(text)); err != nil || len(keys) != want || len(keys[0]) != 32 {
			t.Errorf("%q: %d keys, %v", text, len(keys), err)
		}
	}
	bad := []string{"", ",", testKey(1) + ",", "," + testKey(1), "hunter22", testKey(1)[1:], testKey(1) + "A", testKey(1) + testKey(2),
		strings.Repeat("_", 21) + strings.Repeat("/", 21) + "8", strings.Repeat("0", 63), "hunter22 hunter22"}
	for _, text := range bad {
		var keys masterKeys
		err := keys.UnmarshalText([]byte(text))
		if err == nil {
			t.Errorf("%q is accepted", text)
		} else if strings.Contains(err.Error(), "hunter") {
			t.Errorf("%q is repeated: %v", text, err)
		}
	}
}

func TestSecretsRedactThemselves(t *testing.T) {
	var keys masterKeys
	if err := keys.UnmarshalText([]byte(strings.Repeat("A", 43))); err != nil {
		t.Fatal(err)
	}
	s := &settings{MasterKeys: keys, DevPassword: "hunter22", DevIntrospectionSecret: "hunter22"}
	s.Store = "rediss+sentinel://gate:hunter22@127.0.0.1/main?sentinel-password=hunter22"
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, nil))
	logger.Info("x", "keys", s.MasterKeys, "password", s.DevPassword, "store", s.Store, "bad", storeURL("redis://gate:hunter22%@h"))
	shown := fmt.Sprintf("%v %+v %#v %s", s.DevPassword, *s, *s, s.Store) + log.String()
	for _, hidden := range []string{"hunter22", "[0 0 0", "0x0, 0x0"} {
		if strings.Contains(shown, hidden) {
			t.Errorf("%q is shown in %s", hidden, shown)
		}
	}
	for _, empty := range []fmt.Stringer{masterKeys(nil), secret(""), storeURL("")} {
		if empty.String() != "" {
			t.Errorf("%T: nothing is shown as %q", empty, empty)
		}
	}
}

// TestStoreURLShown: what is shown of a store's URL never holds a password, wherever it
// was written, and is otherwise what was written.
func TestStoreURLShown(t *testing.T) {
	for given, want := range map[storeURL]string{
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
		"redis+sentinel://h/main?sentinel-password=x#hunter22":                                       redacted,
		"redis://gate:hun/ter22@h":                                                                   redacted,
		"redis://gate:hun#ter22@h":                                                                   redacted,
		"redis://h/0#hunter22":                                                                       redacted,
		"gate:hunter22@redis://h":                                                                    redacted,
		"hunter22":                                                                                   redacted,
		"embedded:hunter22":                                                                          redacted,
	} {
		shown := fmt.Sprint(given)
		if shown != want || given.LogValue().String() != want || given.GoString() != want {
			t.Errorf("%q is shown as %q, want %q", string(given), shown, want)
		}
	}
}

func TestNearest(t *testing.T) {
	known := []string{"access-token-ttl", "admin-listen", "code-ttl", "issuer", "listen", "refresh-idle", "refresh-max", "store", "tls-cert", "tls-key"}
	for name, want := range map[string]string{
		"isuer": "issuer", "Issuer": "issuer", "lsiten": "listen", "tls-kye": "tls-key", "refresh-maxx": "refresh-max",
		"ttl": "store", "code": "store", "codettl": "code-ttl", "issuer": "issuer",
	} {
		if got := nearest(name, known); got != want && distance(name, got) != distance(name, want) {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	if nearest("x", nil) != "" {
		t.Error("something is near nothing")
	}
	for _, d := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"a", "b", 1}, {"ab", "ba", 2}} {
		if got := distance(d.a, d.b); got != d.want {
			t.Errorf("distance of %q and %q: %d, want %d", d.a, d.b, got, d.want)
		}
	}
}

func TestFollow(t *testing.T) {
	for _, tt := range []struct {
		listen, addr, cert, want string
	}{
		{"127.0.0.1:8080", "127.0.0.1:8080", "", "http://127.0.0.1:8080"},
		{"127.0.0.1:0", "127.0.0.1:49152", "", "http://127.0.0.1:49152"},
		{"localhost:0", "127.0.0.1:49152", "", "http://localhost:49152"},
		{":8080", "[::]:8080", "", "http://127.0.0.1:8080"},
		{"0.0.0.0:0", "0.0.0.0:49152", "", "http://127.0.0.1:49152"},
		{"[::]:8080", "[::]:8080", "", "http://127.0.0.1:8080"},
		{"[::1]:8080", "[::1]:8080", "", "http://[::1]:8080"},
		{"127.0.0.1:80", "127.0.0.1:80", "", "http://127.0.0.1"},
		{"127.0.0.1:8443", "127.0.0.1:8443", "cert.pem", "https://127.0.0.1:8443"},
		{"127.0.0.1:443", "127.0.0.1:443", "cert.pem", "https://127.0.0.1"},
		{"127.0.0.1:0", "127.0.0.1:0", "", "http://127.0.0.1"},
	} {
		s := settings{Listen: tt.listen, TLSCert: tt.cert}
		s.follow(tt.addr)
		if s.Issuer != tt.want {
			t.Errorf("--listen %s on %s: %s, want %s", tt.listen, tt.addr, s.Issuer, tt.want)
		}
	}
}

func TestExposed(t *testing.T) {
	for _, tt := range []struct {
		name string
		s    settings
		want int
	}{
		{"https behind a proxy on this machine", settings{Issuer: "https://auth.example.com", Listen: "127.0.0.1:8080"}, 0},
		{"https behind a proxy elsewhere", settings{Issuer: "https://auth.example.com", Listen: "0.0.0.0:8080"}, 1},
		{"https behind a proxy elsewhere, on all addresses", settings{Issuer: "https://auth.example.com", Listen: ":8080"}, 1},
		{"https behind a proxy elsewhere, on one address", settings{Issuer: "https://auth.example.com", Listen: "192.0.2.1:8080"}, 1},
		{"TLS here", settings{Issuer: "https://auth.example.com", TLSCert: "cert.pem", Listen: ":443"}, 0},
		{"dev", settings{Issuer: "http://127.0.0.1:8080", Dev: true, Listen: "localhost:8080"}, 1},
		{"dev for everybody", settings{Issuer: "http://127.0.0.1:8080", Dev: true, Listen: "[::]:8080"}, 2},
	} {
		if got := tt.s.exposed(); len(got) != tt.want {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
}

// Zero has a meaning of its own on the command line: no window at all.
func TestRefreshWindowZeroIsStrict(t *testing.T) {
	for given, want := range map[time.Duration]time.Duration{0: -1, time.Second: time.Second, -time.Second: -time.Second} {
		s := settings{RefreshWindow: duration(given)}
		config, err := s.server()
		if err != nil {
			t.Fatal(err)
		}
		if got := config.RefreshWindow; got != want {
			t.Errorf("%s becomes %s, want %s", given, got, want)
		}
	}
}

// Every setting is a row of the table in docs/operations.md, with its default, and
// every row is a setting.
func TestSettingsAreDocumented(t *testing.T) {
	data, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for line := range strings.Lines(string(data)) {
		if cells := strings.Split(line, "|"); len(cells) == 5 && strings.HasPrefix(cells[1], " `--") {
			rows[strings.Trim(cells[1], " `-")] = strings.Trim(cells[2], " `")
		}
	}
	parser, err := kong.New(&grammar{})
	if err != nil {
		t.Fatal(err)
	}
	for _, flag := range serveFlags(parser.Model) {
		shown, ok := rows[flag.Name]
		if !ok {
			t.Errorf("--%s is not in the table", flag.Name)
		} else if flag.HasDefault && shown != flag.Default {
			t.Errorf("--%s has the default %s, the table says %s", flag.Name, flag.Default, shown)
		}
		delete(rows, flag.Name)
	}
	for name := range rows {
		t.Errorf("--%s is in the table and no setting", name)
	}
}

func TestTrustedProxies(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.0/8": "10.0.0.0/8", "10.1.2.3/8": "10.0.0.0/8", "192.0.2.1": "192.0.2.1/32", "2001:db8::1": "2001:db8::1/128", "fd00::/8": "fd00::/8",
		"": "", "10.0.0.0/33": "", "10.0.0": "", "proxy.example.com": "", "fe80::1%eth0": "", "*": "",
	} {
		got, err := (&settings{TrustedProxies: []string{text}}).trustedProxies()
		if (err == nil) != (want != "") || want != "" && got[0].String() != want {
			t.Errorf("%q is read as %v, %v; want %q", text, got, err, want)
		}
	}
	s := settings{TrustedProxies: []string{"192.0.2.1", "10.0.0.0/8"}}
	if config, err := s.server(); err != nil || len(config.TrustedProxies) != 2 || config.TrustedProxies[1].String() != "10.0.0.0/8" {
		t.Errorf("the server trusts %v, %v", config.TrustedProxies, err)
	}
	s = settings{Listen: "127.0.0.1:0", AdminListen: off, LogFormat: "text", Records: "auto", TrustedProxies: []string{"everybody"}}
	if err := s.formMistakes(); err == nil || !strings.Contains(err.Error(), `trusted-proxies "everybody" is not a network`) {
		t.Errorf("everybody as a proxy: %v", err)
	}
}
