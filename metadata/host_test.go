package metadata_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"net/url"
	"os/exec"
	"strings"
	"testing"

	"gatehouse.example/metadata"
)

// rewritten are hosts that browsers rewrite, with a part of the error for each.
var rewritten = map[string]string{
	// One IPv4 address, written otherwise.
	"2130706433": "127.0.0.1", "0x7f000001": "127.0.0.1", "0x7f.1": "127.0.0.1", "127.1": "127.0.0.1", "127.0.1": "127.0.0.1",
	"0177.0.0.1": "127.0.0.1", "017700000001": "127.0.0.1", "127.0.0.01": "127.0.0.1", "0x7f.0x0.0x0.0x1": "127.0.0.1", "127.0.0.1.": "127.0.0.1",
	"0": "0.0.0.0", "0x": "0.0.0.0", "00": "0.0.0.0", "3221226219": "192.0.2.235", "192.0.747": "192.0.2.235", "192.0.2.0xeb": "192.0.2.235",
	"192.0.2.353": "not valid", "256.1.1.1": "not valid", "1.2.3.4.5": "not valid", "4294967296": "not valid", "09.1.1.1": "not valid",
	"client.example.0x7f": "not valid", "client.example.1": "not valid",
	// IPv6.
	"[0:0:0:0:0:0:0:1]": "[::1]", "[::0001]": "[::1]", "[0::1]": "[::1]", "[2001:DB8::1]": "[2001:db8::1]", "[2001:db8:0:0:1::1]": "[2001:db8::1:0:0:1]",
	"[::ffff:127.0.0.1]": "127.0.0.1", "[::ffff:7f00:1]": "127.0.0.1", "[::127.0.0.1]": "[::7f00:1]", "[::1%25lo]": "", "[::1": "", "[client.example.com]": "",
	// Names.
	"CLIENT.example.com": "client.example.com", "Client.Example.Com.": "client.example.com", "client.example.com.": "client.example.com",
	"client.example.com..": "client.example.com", "client..example.com": "not valid", ".client.example.com": "not valid",
	"clïent.example.com": "xn--", "bücher.example.com": "xn--", "ｃｌｉｅｎｔ.example.com": "xn--", "client。example.com": "xn--", "cli\u00adent.example.com": "xn--",
	"cli\u200bent.example.com": "xn--", "cli\u2060ent.example.com": "xn--", "cli\ufe0fent.example.com": "xn--", "ﬁsh.example.com": "xn--", "Ⅷ.example.com": "xn--",
	"１２７.０.０.１": "xn--", "①②⑦.0.0.1": "xn--", "client\u2024example.com": "xn--", "ſ.example.com": "xn--", "\u212a.example.com": "xn--",
	"client%2eexample.com": "percent", "cl%69ent.example.com": "percent", "%63lient.example.com": "percent", "b%C3%BCcher.example.com": "percent",
	"client%ad.example.com": "percent", "%31%32%37.1": "percent", "127.0.0.1%2f": "percent", "client%.example.com": "percent",
	"XN--BCHER-KVA.example.com": "xn--bcher-kva.example.com",
	"xn--client-.example.com":   "no international name", "xn--.example.com": "no international name", "xn---.example.com": "no international name",
	"xn--a.example.com": "no international name", "xn--bcher-kva-.example.com": "no international name", "xn--99999999.example.com": "no international name",
	"xn--abc.example.com": "no international name", "xn--dca.example.com": "no international name", // É
	"xn--5ug.example.com": "no international name", // the number eight in Roman
	"xn--7hh.example.com": "no international name", // a dot leader
	"client!.example.com": "not valid", "client$.example.com": "not valid", "client,example.com": "not valid", "client;x.example.com": "not valid", "a(b).example.com": "not valid",
	"client.example.com~": "not valid", "a=b.example.com": "not valid", "*.example.com": "not valid",
}

// kept are hosts that browsers do not rewrite.
var kept = []string{
	"client.example.com", "client.example.com:8443", "a.b.c.example.com", "localhost", "client", "client-1.example.com", "client_1.example.com", "1client.example.com", "1.example.com",
	"127.0.0.1", "192.0.2.1", "0.0.0.0", "255.255.255.255", "127.0.0.1:49152", "[::1]", "[::1]:6276", "[2001:db8::1]", "[2001:db8:1:2:3:4:5:6]", "[::]", "[::7f00:1]", "[1::]", "[2001:db8::1:0:0:1]",
	"xn--bcher-kva.example.com", "xn--mnchen-3ya.example.com", "xn--zca.example.com", "xn--fiqs8s", "xn--e1afmkfd.xn--p1ai", "xn--4dbrk0ce.example.com",
	"xn--mgberp4a5d4ar.example.com", "xn--eckwd4c7c.xn--zckzah", "xn--hxajbheg2az3al.example.com", "xn--j6w193g", "xn--3e0b707e", "xn--11b4c3d.example.com",
	"x0.example.com", "0x7g.example.com", "0x.example.com", "example.0xg", "1_2", "ab--cd.example.com",
}

// TestRewrittenHosts: a host is accepted in the form in which browsers write it only, and the
// error for another form shows it.
func TestRewrittenHosts(t *testing.T) {
	for host, says := range rewritten {
		for _, scheme := range []string{"https://", "http://"} {
			_, err := metadata.ParseRedirect(scheme + host + "/cb")
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%q: %v, want %q", scheme+host, err, says)
			}
		}
		if _, err := metadata.ParseRedirect("https://" + host + ":8443/cb"); err == nil {
			t.Errorf("%q with a port is taken", host)
		}
	}
	for _, host := range kept {
		got, err := metadata.ParseRedirect("https://" + host + "/cb")
		if err != nil || got.Host() != host {
			t.Errorf("%q is shown as %q, %v", host, got.Host(), err)
		}
		if err := metadata.CheckHost("https://" + host); err != nil {
			t.Errorf("%q: %v", host, err)
		}
	}
	for raw, want := range map[string]string{"https://client.example.com:443/": "client.example.com", "http://[::1]:80/": "[::1]", "https://127.0.0.1:80": "127.0.0.1:80"} {
		if u, err := url.Parse(raw); err != nil || metadata.ShownHost(u) != want {
			t.Errorf("%s is shown as %q, want %q", raw, metadata.ShownHost(u), want)
		}
	}
}

// TestOtherURLs: the rule holds for every configured or published URL with a host, and for
// private-use schemes as far as browsers change anything there.
func TestOtherURLs(t *testing.T) {
	for _, host := range []string{"2130706433", "0x7f.1", "127.1", "0177.0.0.1", "[0::1]", "xn--a.example.com", "xn--client-.example.com", "client.example.0x7f", "a~b.example.com"} {
		if got, err := metadata.Canonical("http://" + host + "/mcp"); err == nil && got != "http://[::1]/mcp" {
			t.Errorf("resource %s: %s", host, got)
		}
		if err := metadata.ValidIssuer("https://" + host); err == nil {
			t.Errorf("issuer %s passes", host)
		}
	}
	for raw, ok := range map[string]bool{
		"cursor://anysphere.cursor-mcp/cb": true, "myapp://127.1/cb": true, "myapp://CallBack/x": true, "myapp://%63allback/x": false, "myapp://call\u00adback/x": false, "myapp://xn--a/x": true,
	} {
		if _, err := metadata.ParseRedirect(raw); (err == nil) != ok {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

// TestBrowsersAgree compares with Node, whose URL parser is that of browsers: it writes every
// accepted host byte for byte the same, and ShownHost agrees with it. Hosts that only browsers
// refuse are ignored, because they lead nowhere.
func TestBrowsersAgree(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("no node")
	}
	var asked []string
	for host := range rewritten {
		asked = append(asked, "https://"+host+"/cb", "http://"+host+":80/cb")
	}
	for _, host := range kept {
		asked = append(asked, "https://"+host+"/cb", "http://"+strings.Split(host, ":8")[0]+"/cb")
	}
	asked = append(asked, invented(4000)...)
	answers := browsersRead(t, node, asked)
	accepted := 0
	for i, raw := range asked {
		uri, err := metadata.ParseRedirect(raw)
		if err != nil {
			continue
		}
		accepted++
		if answers[i] == nil && strings.Contains(raw, "xn--") {
			continue
		}
		if answers[i] == nil || *answers[i] != uri.Host() {
			t.Errorf("%s is shown as %q, and a browser goes to %v", raw, uri.Host(), answers[i])
		}
	}
	if accepted < 200 {
		t.Errorf("only %d of %d hosts are accepted, so little was compared", accepted, len(asked))
	}
}

// invented returns URLs made of parts that parsers treat in more than one way.
func invented(n int) []string {
	parts := []string{
		"client", "example", "com", "127", "0", "1", "0x7f", "0177", "255", "256", "08", "0x", "x", "a-b", "a_b", "-", "xn--", "xn--bcher-kva", "xn--a", "xn--zca-", "b\u00fc", "\u00ad", "\uff11", "\u3002",
		"%31", "%2e", "A", "[::1]", "[", "]", "::", ":80", ":443", ":8080", "@", "1.1.1.1", "..", ".", ".", ".", ".", "/", "\\", "e", "+", "~", "\t",
	}
	random := rand.New(rand.NewPCG(4, 2))
	out := make([]string, n)
	for i := range out {
		var b strings.Builder
		b.WriteString([]string{"https://", "http://", "https:/", "https:"}[min(random.IntN(12), 3)*random.IntN(2)])
		for range 1 + random.IntN(6) {
			b.WriteString(parts[random.IntN(len(parts))])
		}
		out[i] = b.String() + "/cb"
	}
	return out
}

// browsersRead returns the host of each URL as Node writes it, or nil if it refuses.
func browsersRead(t *testing.T, node string, urls []string) []*string {
	t.Helper()
	input, err := json.Marshal(urls)
	if err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), node, "-e", `
		const urls = JSON.parse(require("fs").readFileSync(0, "utf8"));
		const host = (raw) => { try { return new URL(raw).host } catch { return null } };
		process.stdout.write(JSON.stringify(urls.map(host)));`)
	run.Stdin = bytes.NewReader(input)
	output, err := run.Output()
	if err != nil {
		t.Fatal(err)
	}
	var answers []*string
	if err := json.Unmarshal(output, &answers); err != nil || len(answers) != len(urls) {
		t.Fatalf("%d answers: %v", len(answers), err)
	}
	return answers
}
