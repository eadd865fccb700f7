package authz

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"gatehouse.example/internal/fair"
)

// TestNetwork: X-Forwarded-For is trusted as far as trusted proxies wrote it.
func TestNetwork(t *testing.T) {
	t.Parallel()
	ours := proxies{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for _, test := range []struct {
		name      string
		proxies   proxies
		peer      string
		forwarded []string
		want      string
	}{
		{"no proxy, no header", nil, "192.0.2.1:4711", nil, "192.0.2.1"},
		{"no proxy, a header that anybody can send", nil, "192.0.2.1:4711", []string{"198.51.100.7"}, "192.0.2.1"},
		{"no proxy, a header from loopback", nil, "127.0.0.1:4711", []string{"198.51.100.7"}, "127.0.0.1"},
		{"not our proxy", ours, "192.0.2.1:4711", []string{"198.51.100.7"}, "192.0.2.1"},
		{"our proxy", ours, "10.1.2.3:4711", []string{"198.51.100.7"}, "198.51.100.7"},
		{"our proxy, without a header", ours, "10.1.2.3:4711", nil, "10.1.2.3"},
		{"our proxy in the other family", ours, "[fd00::1]:4711", []string{"198.51.100.7"}, "198.51.100.7"},
		{"our proxy, mapped", ours, "[::ffff:10.1.2.3]:4711", []string{"198.51.100.7"}, "198.51.100.7"},
		{"two of ours", ours, "10.1.2.3:4711", []string{"198.51.100.7, 10.9.9.9"}, "198.51.100.7"},
		{"two headers", ours, "10.1.2.3:4711", []string{"198.51.100.7", "10.9.9.9"}, "198.51.100.7"},
		{"a sender who made something up", ours, "10.1.2.3:4711", []string{"203.0.113.9, 198.51.100.7"}, "198.51.100.7"},
		{"a sender who made up a proxy of ours", ours, "10.1.2.3:4711", []string{"10.5.5.5, 198.51.100.7"}, "198.51.100.7"},
		{"a header that the sender made up before", ours, "10.1.2.3:4711", []string{"203.0.113.9", "198.51.100.7"}, "198.51.100.7"},
		{"with a port", ours, "10.1.2.3:4711", []string{"198.51.100.7:80"}, "198.51.100.7"},
		{"IPv6", ours, "10.1.2.3:4711", []string{"2001:db8:1:2:3:4:5:6"}, "2001:db8:1:2::/64"},
		{"IPv6 in brackets", ours, "10.1.2.3:4711", []string{"[2001:db8:1:2:3:4:5:6]"}, "2001:db8:1:2::/64"},
		{"IPv6 in brackets, with a port", ours, "10.1.2.3:4711", []string{"[2001:db8:1:2:3:4:5:6]:80"}, "2001:db8:1:2::/64"},
		{"IPv6 with a zone", nil, "[fe80::1%eth0]:4711", nil, "fe80::/64"},
		{"IPv4 in IPv6", ours, "10.1.2.3:4711", []string{"::ffff:198.51.100.7"}, "198.51.100.7"},
		{"nonsense", ours, "10.1.2.3:4711", []string{"unknown"}, "10.1.2.3"},
		{"nonsense before", ours, "10.1.2.3:4711", []string{"unknown, 198.51.100.7"}, "198.51.100.7"},
		{"nonsense between", ours, "10.1.2.3:4711", []string{"198.51.100.7, unknown, 10.9.9.9"}, "10.9.9.9"},
		{"only ours", ours, "10.1.2.3:4711", []string{"10.4.4.4, 10.9.9.9"}, "10.4.4.4"},
		{"no address at all", ours, "@", []string{"198.51.100.7"}, ""},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = test.peer
		for _, value := range test.forwarded {
			r.Header.Add("X-Forwarded-For", value)
		}
		if got := narrowest(test.proxies.client(r)); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// narrowest returns the network that counts first, in the notation of the table above.
func narrowest(addr netip.Addr) string {
	if !addr.IsValid() {
		return ""
	}
	return strings.TrimSuffix(fair.Networks(addr)[0], "/32")
}
