package middleware

import (
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

func webPort(s, standard string) (string, error) {
	if s == "" {
		return "", nil
	}
	if strings.Trim(s, "0123456789") != "" {
		return "", errNoWebURL
	}
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		return "", errNoWebURL
	}
	if port := strconv.FormatUint(n, 10); port != standard {
		return port, nil
	}
	return "", nil
}

// webHost parses a host. The host of a special scheme is a domain or an address.
func webHost(s string, special bool) (string, error) {
	if strings.HasPrefix(s, "[") {
		addr, err := netip.ParseAddr(strings.TrimSuffix(s[1:], "]"))
		if err != nil || !strings.HasSuffix(s, "]") || !addr.Is6() || addr.Zone() != "" {
			return "", errNoWebURL
		}
		return "[" + address6(addr) + "]", nil
	}
	if !special {
		if strings.ContainsAny(s, "\x00\t\n\r #/:<>?@[\\]^|") {
			return "", errNoWebURL
		}
		return escapeWeb(s, ""), nil
	}
	return domain(s)
}

// address6 formats an address with all its pieces in hexadecimal, also an IPv4-mapped one.
func address6(addr netip.Addr) string {
	if !addr.Is4In6() {
		return addr.String()
	}
	b := addr.As16()
	return "::ffff:" + strconv.FormatUint(uint64(b[12])<<8|uint64(b[13]), 16) + ":" + strconv.FormatUint(uint64(b[14])<<8|uint64(b[15]), 16)
}

func domain(s string) (string, error) {
	s = unescapeBytes(s)
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return "", errWebHost
		}
	}
	s = strings.ToLower(s)
	if s == "" || strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c == 0x7f || strings.ContainsRune("#/:<>?@[\\]^|%", c) }) {
		return "", errNoWebURL
	}
	labels := strings.Split(strings.TrimSuffix(s, "."), ".")
	if slices.ContainsFunc(labels, func(l string) bool { return strings.HasPrefix(l, "xn--") }) {
		return s, errWebHost // the tables of Unicode decide whether it is a valid name
	}
	if last := labels[len(labels)-1]; isNumber(last) {
		return address4(labels)
	}
	return s, nil
}

// isNumber reports whether the last label of a host makes the host an IPv4 address.
func isNumber(s string) bool {
	if s == "" {
		return false
	}
	if strings.Trim(s, "0123456789") == "" {
		return true
	}
	_, ok := number4(s)
	return ok
}

// number4 reads one part of an IPv4 address: decimal, octal or hexadecimal.
func number4(s string) (n uint64, ok bool) {
	base := 10
	switch {
	case s == "":
		return 0, false
	case strings.HasPrefix(s, "0x"):
		s, base = s[2:], 16
	case len(s) > 1 && s[0] == '0':
		s, base = s[1:], 8
	}
	if s == "" {
		return 0, true
	}
	if strings.Trim(s, "0123456789abcdef") != "" {
		return 0, false
	}
	n, err := strconv.ParseUint(s, base, 64)
	if errors.Is(err, strconv.ErrRange) {
		return 1 << 40, true // too large for any part
	}
	return n, err == nil
}

func address4(labels []string) (string, error) {
	if len(labels) > 4 {
		return "", errNoWebURL
	}
	var all uint64
	for i, label := range labels {
		n, ok := number4(label)
		last := i == len(labels)-1
		if !ok || !last && n > 255 || last && n >= 1<<(8*(5-len(labels))) {
			return "", errNoWebURL
		}
		if last {
			all += n
		} else {
			all += n << (8 * (3 - i))
		}
	}
	return netip.AddrFrom4([4]byte{byte(all >> 24), byte(all >> 16), byte(all >> 8), byte(all)}).String(), nil
}
