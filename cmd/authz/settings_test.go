package main

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"gatehouse.example/cmd/authz/internal/settings"
)

func TestSecretsRedactThemselves(t *testing.T) {
	var keys settings.MasterKeys
	if err := keys.UnmarshalText([]byte(strings.Repeat("A", 43))); err != nil {
		t.Fatal(err)
	}
	s := &serveSettings{MasterKeys: keys, DevPassword: "hunter22", DevIntrospectionSecret: "hunter22"}
	s.Store = "rediss+sentinel://gate:hunter22@127.0.0.1/main?sentinel-password=hunter22"
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, nil))
	logger.Info("x", "keys", s.MasterKeys, "password", s.DevPassword, "store", s.Store, "bad", settings.StoreURL("redis://gate:hunter22%@h"))
	shown := fmt.Sprintf("%v %+v %#v %s", s.DevPassword, *s, *s, s.Store) + log.String()
	for _, hidden := range []string{"hunter22", "[0 0 0", "0x0, 0x0"} {
		if strings.Contains(shown, hidden) {
			t.Errorf("%q is shown in %s", hidden, shown)
		}
	}
	for _, empty := range []fmt.Stringer{settings.MasterKeys(nil), settings.Secret(""), settings.StoreURL("")} {
		if empty.String() != "" {
			t.Errorf("%T: nothing is shown as %q", empty, empty)
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
		s := serveSettings{Listen: tt.listen, TLSCert: tt.cert}
		s.follow(tt.addr)
		if s.Issuer != tt.want {
			t.Errorf("--listen %s on %s: %s, want %s", tt.listen, tt.addr, s.Issuer, tt.want)
		}
	}
}

func TestExposed(t *testing.T) {
	for _, tt := range []struct {
		name string
		s    serveSettings
		want int
	}{
		{"https behind a proxy on this machine", serveSettings{Issuer: "https://auth.example.com", Listen: "127.0.0.1:8080"}, 0},
		{"https behind a proxy elsewhere", serveSettings{Issuer: "https://auth.example.com", Listen: "0.0.0.0:8080"}, 1},
		{"https behind a proxy elsewhere, on all addresses", serveSettings{Issuer: "https://auth.example.com", Listen: ":8080"}, 1},
		{"https behind a proxy elsewhere, on one address", serveSettings{Issuer: "https://auth.example.com", Listen: "192.0.2.1:8080"}, 1},
		{"TLS here", serveSettings{Issuer: "https://auth.example.com", TLSCert: "cert.pem", Listen: ":443"}, 0},
		{"dev", serveSettings{Issuer: "http://127.0.0.1:8080", Dev: true, Listen: "localhost:8080"}, 1},
		{"dev for everybody", serveSettings{Issuer: "http://127.0.0.1:8080", Dev: true, Listen: "[::]:8080"}, 2},
	} {
		if got := tt.s.exposed(); len(got) != tt.want {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
}

// Zero means no window on the command line, not the default.
func TestRefreshWindowZeroIsStrict(t *testing.T) {
	for given, want := range map[time.Duration]time.Duration{0: -1, time.Second: time.Second, -time.Second: -time.Second} {
		s := serveSettings{RefreshWindow: settings.Duration(given)}
		config, err := s.server()
		if err != nil {
			t.Fatal(err)
		}
		if got := config.RefreshWindow; got != want {
			t.Errorf("%s becomes %s, want %s", given, got, want)
		}
	}
}

// Every setting is a row of the table in docs/operations.md, with its default, and every row is a
// setting.
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
		for _, written := range strings.Split(string(data), "`"+flag.Name+": ")[1:] { // as one writes it into the file
			value, _, _ := strings.Cut(written, "`")
			if _, err := settings.ReadDocument("operations.md", []byte(flag.Name+": "+value), []string{flag.Name}); err != nil {
				t.Errorf("%s: %s: %v", flag.Name, value, err)
			}
		}
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
		got, err := (&serveSettings{TrustedProxies: []string{text}}).trustedProxies()
		if (err == nil) != (want != "") || want != "" && got[0].String() != want {
			t.Errorf("%q is read as %v, %v; want %q", text, got, err, want)
		}
	}
	s := serveSettings{TrustedProxies: []string{"192.0.2.1", "10.0.0.0/8"}}
	if config, err := s.server(); err != nil || len(config.TrustedProxies) != 2 || config.TrustedProxies[1].String() != "10.0.0.0/8" {
		t.Errorf("the server trusts %v, %v", config.TrustedProxies, err)
	}
	s = serveSettings{Listen: "127.0.0.1:0", AdminListen: off, LogFormat: "text", Records: "auto", TrustedProxies: []string{"everybody"}}
	if err := s.formMistakes(); err == nil || !strings.Contains(err.Error(), `trusted-proxies "everybody" is not a network`) {
		t.Errorf("everybody as a proxy: %v", err)
	}
}
