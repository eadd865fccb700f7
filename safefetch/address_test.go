package safefetch_test

import (
	"net/netip"
	"testing"

	"gatehouse.example/safefetch"
)

// TestBlocks checks both edges of every block from both sides. A neighbour outside is given
// only where it is public.
func TestBlocks(t *testing.T) {
	for _, b := range []struct{ before, first, last, after string }{
		{"", "0.0.0.0", "0.255.255.255", "1.0.0.0"},
		{"9.255.255.255", "10.0.0.0", "10.255.255.255", "11.0.0.0"},
		{"100.63.255.255", "100.64.0.0", "100.127.255.255", "100.128.0.0"},
		{"126.255.255.255", "127.0.0.0", "127.255.255.255", "128.0.0.0"},
		{"169.253.255.255", "169.254.0.0", "169.254.255.255", "169.255.0.0"},
		{"172.15.255.255", "172.16.0.0", "172.31.255.255", "172.32.0.0"},
		{"191.255.255.255", "192.0.0.0", "192.0.0.255", "192.0.1.0"},
		{"192.0.1.255", "192.0.2.0", "192.0.2.255", "192.0.3.0"},
		{"192.31.195.255", "192.31.196.0", "192.31.196.255", "192.31.197.0"},
		{"192.52.192.255", "192.52.193.0", "192.52.193.255", "192.52.194.0"},
		{"192.88.98.255", "192.88.99.0", "192.88.99.255", "192.88.100.0"},
		{"192.167.255.255", "192.168.0.0", "192.168.255.255", "192.169.0.0"},
		{"192.175.47.255", "192.175.48.0", "192.175.48.255", "192.175.49.0"},
		{"198.17.255.255", "198.18.0.0", "198.19.255.255", "198.20.0.0"},
		{"198.51.99.255", "198.51.100.0", "198.51.100.255", "198.51.101.0"},
		{"203.0.112.255", "203.0.113.0", "203.0.113.255", "203.0.114.0"},
		{"223.255.255.255", "224.0.0.0", "239.255.255.255", ""},
		{"", "240.0.0.0", "255.255.255.255", ""},

		{"", "::", "::ffff:ffff", ""}, // unspecified, loopback, IPv4-compatible
		{"", "::ffff:0:0:0", "::ffff:0:ffff:ffff", ""},
		{"", "64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff", ""},
		{"", "100::", "100::ffff:ffff:ffff:ffff", ""},
		{"", "100:0:0:1::", "100:0:0:1:ffff:ffff:ffff:ffff", ""},
		{"2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2001::", "2001:0:ffff:ffff:ffff:ffff:ffff:ffff", ""},
		{"", "2001:1::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:200::"},
		{"", "2001:2::", "2001:2:0:ffff:ffff:ffff:ffff:ffff", ""},
		{"2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db9::"},
		{"2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2003::"},
		{"2620:4f:7fff:ffff:ffff:ffff:ffff:ffff", "2620:4f:8000::", "2620:4f:8000:ffff:ffff:ffff:ffff:ffff", "2620:4f:8001::"},
		{"3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff:1000::"},
		{"", "5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ""},
		{"", "fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ""},
		{"", "fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ""},
		{"", "fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ""},
		{"", "ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ""},
		// Everything outside 2000::/3, which is not assigned.
		{"", "1::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2000::"},
		{"3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "4000::", "fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ""},
		// IPv4 inside IPv6, judged as IPv4.
		{"::ffff:9.255.255.255", "::ffff:10.0.0.0", "::ffff:10.255.255.255", "::ffff:11.0.0.0"},
		{"64:ff9b::9.255.255.255", "64:ff9b::10.0.0.0", "64:ff9b::10.255.255.255", "64:ff9b::11.0.0.0"},
		{"64:ff9b::169.253.255.255", "64:ff9b::169.254.0.0", "64:ff9b::169.254.255.255", "64:ff9b::169.255.0.0"},
		{"", "64:ff9b::1:0:0", "64:ff9b:0:ffff:ffff:ffff:ffff:ffff", ""}, // beside the /96
		// The interface identifiers of ISATAP, in both forms, and their neighbours.
		{"2606:4700::5efd:ffff:ffff", "2606:4700::5efe:0:0", "2606:4700::5efe:ffff:ffff", "2606:4700::5eff:0:0"},
		{"2606:4700::200:5efd:ffff:ffff", "2606:4700::200:5efe:0:0", "2606:4700::200:5efe:808:808", "2606:4700::200:5eff:0:0"},
	} {
		expectRefusal(t, b.first, true)
		expectRefusal(t, b.last, true)
		expectRefusal(t, b.before, false)
		expectRefusal(t, b.after, false)
	}
}

func expectRefusal(t *testing.T, addr string, want bool) {
	t.Helper()
	if addr == "" {
		return
	}
	if why := safefetch.Refusal(netip.MustParseAddr(addr)); (why != "") != want {
		t.Errorf("%s: refused %v (%q), want %v", addr, why != "", why, want)
	}
}

// TestAddresses checks addresses that were used in attacks, and some that must work.
func TestAddresses(t *testing.T) {
	for addr, want := range map[string]string{
		"169.254.169.254":                     "link local (RFC 3927)",
		"::ffff:169.254.169.254":              "link local (RFC 3927)",
		"64:ff9b::a9fe:a9fe":                  "link local (RFC 3927)",
		"::127.0.0.1":                         "IPv4-compatible (RFC 4291 section 2.5.5.1)",
		"::1":                                 "loopback (RFC 4291)",
		"::":                                  "unspecified (RFC 4291)",
		"2002:7f00:1::":                       "6to4 (RFC 3056)",
		"2002:808:808::":                      "6to4 (RFC 3056)",
		"2001:0:4136:e378:8000:63bf:3fff:fdd": "Teredo (RFC 4380)",
		"2606:4700::5efe:a00:1":               "ISATAP (RFC 5214 section 6.1)",
		"fd00:ec2::254":                       "unique local (RFC 4193)",
		"255.255.255.255":                     "limited broadcast (RFC 919 section 7)",
		"2001:2::1":                           "benchmarking (RFC 5180)",
		"fe80::1%eth0":                        "scoped to a zone (RFC 4007)",
		"2606:4700::1%eth0":                   "scoped to a zone (RFC 4007)",
		"4000::1":                             "not global unicast",
		"8.8.8.8":                             "",
		"::ffff:8.8.8.8":                      "",
		"64:ff9b::808:808":                    "",
		"2606:4700:4700::1111":                "",
	} {
		if why := safefetch.Refusal(netip.MustParseAddr(addr)); why != want {
			t.Errorf("%s: %q, want %q", addr, why, want)
		}
	}
	if safefetch.Refusal(netip.Addr{}) == "" {
		t.Error("no address is public")
	}
}

func TestJudgingAllocatesNothing(t *testing.T) {
	addrs := []netip.Addr{netip.MustParseAddr("8.8.8.8"), netip.MustParseAddr("2606:4700::1"), netip.MustParseAddr("fd00::1")}
	allocs := testing.AllocsPerRun(100, func() {
		for _, a := range addrs {
			safefetch.Refusal(a)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func BenchmarkRefusal(b *testing.B) {
	for name, addr := range map[string]string{"v4": "8.8.8.8", "v6": "2606:4700::1111"} {
		b.Run(name, func(b *testing.B) {
			a := netip.MustParseAddr(addr)
			b.ReportAllocs()
			for b.Loop() {
				if safefetch.Refusal(a) != "" {
					b.Fatal("refused")
				}
			}
		})
	}
}
