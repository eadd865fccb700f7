package metadata

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"
)

// CheckHost returns an error for an http or https URL whose host browsers would rewrite, so
// that they might connect to another host than the URL shows (WHATWG URL Standard section 3.5):
// capital letters, percent-encoding, characters beyond ASCII, IPv4 addresses in other forms
// than 192.0.2.1, IPv6 addresses in other forms than the shortest, a dot at the end, and labels
// that begin with xn-- and encode no international name. The error gives the accepted form, if
// there is one.
func CheckHost(raw string) error {
	if why := spellingFault(raw); why != "" {
		return fmt.Errorf("metadata: host: %s", why)
	}
	return nil
}

// ShownHost returns the host of a URL as it is shown to people: with its port, unless that is
// the port of the scheme. The URL must have passed [CheckHost].
func ShownHost(u *url.URL) string {
	port := u.Port()
	if u.Scheme == "https" && port == "443" || u.Scheme == "http" && port == "80" {
		return strings.TrimSuffix(u.Host, ":"+port)
	}
	return u.Host
}

// spellingFault returns what is wrong with the spelling of the host of a URL, or "". It takes
// the string because url.Parse decodes escapes. Browsers do not rewrite URLs of other schemes
// than http and https; of those only escapes and characters beyond ASCII are refused.
func spellingFault(raw string) string {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return ""
	}
	authority := rest
	if end := strings.IndexAny(rest, "/?#\\"); end >= 0 {
		authority = rest[:end]
	}
	authority = authority[strings.LastIndexByte(authority, '@')+1:]
	web := strings.EqualFold(scheme, "https") || strings.EqualFold(scheme, "http")
	host := withoutPort(authority)
	switch lower := strings.ToLower(host); {
	case strings.ContainsFunc(host, func(c rune) bool { return c > unicode.MaxASCII }):
		return "write an international host in ASCII, as browsers do, such as xn--bcher-kva.example.com"
	case strings.Contains(host, "%"):
		return "write the host without percent-encoding"
	case !web || host == "":
		return "" // browsers do not rewrite it, or there is no host, which callers check
	case lower != host:
		return fmt.Sprintf("write the host in lowercase: %.100s", lower)
	case strings.HasSuffix(host, "."):
		return fmt.Sprintf("write the host without a dot at its end: %.100s", strings.TrimRight(host, "."))
	}
	return hostFault(host)
}

func withoutPort(authority string) string {
	if end := strings.LastIndexByte(authority, ']'); end >= 0 {
		return authority[:end+1]
	}
	host, _, _ := strings.Cut(authority, ":")
	return host
}

// hostFault returns what is wrong with a host in lowercase, or "". An IPv6 address must be in
// brackets.
func hostFault(host string) string {
	if address, ok := strings.CutPrefix(host, "["); ok {
		return ipv6Fault(strings.TrimSuffix(address, "]"))
	}
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	for _, label := range labels {
		if label == "" || !inLabel.all(label) {
			return "the host is not valid"
		}
	}
	if last := labels[len(labels)-1]; decimal.all(last) || hexadecimal(last) {
		return ipv4Fault(host)
	}
	for _, label := range labels {
		if code, ok := strings.CutPrefix(label, "xn--"); ok && !international(code) {
			return fmt.Sprintf("the label %.63s of the host encodes no international name", label)
		}
	}
	return ""
}

func ipv6Fault(address string) string {
	addr, err := netip.ParseAddr(address)
	switch {
	case err != nil || !addr.Is6() || addr.Zone() != "":
		return "the host is not valid"
	case addr.Is4In6():
		return "write the IPv4 address that the host stands for: " + addr.Unmap().String()
	case addr.String() != address:
		return "write the IPv6 address in its shortest form: [" + addr.String() + "]"
	}
	return ""
}

// ipv4Fault returns what is wrong with a host whose last label is a number, or "". Browsers
// parse such hosts as addresses, with one to four parts in decimal, octal or hexadecimal (URL
// Standard section 3.5, the IPv4 parser).
func ipv4Fault(host string) string {
	addr, ok := parseIPv4(strings.Split(host, "."))
	switch {
	case !ok:
		return "the host is not valid: it ends in a number and is not an IPv4 address"
	case addr.String() != host:
		return "write the IPv4 address in its usual form: " + addr.String()
	}
	return ""
}

func parseIPv4(parts []string) (netip.Addr, bool) {
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var whole uint64
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 0, 32)
		if part == "0x" {
			n, err = 0, nil
		}
		room := uint64(1) << 8
		if i == len(parts)-1 { // the last part fills what is left
			room = 1 << (8 * (5 - len(parts)))
		}
		if err != nil || n >= room || !inIPv4.all(part) {
			return netip.Addr{}, false
		}
		whole = whole*room + n
	}
	return netip.AddrFrom4([4]byte{byte(whole >> 24), byte(whole >> 16), byte(whole >> 8), byte(whole)}), true
}

// hexadecimal reports whether s is 0x with any number of digits.
func hexadecimal(s string) bool {
	digits, ok := strings.CutPrefix(s, "0x")
	return ok && lowerHex.all(digits)
}

// international reports whether code, the part of a label after xn--, encodes at least one
// letter, mark or digit beyond ASCII, and nothing that browsers would replace or remove. The
// encoding is unique (RFC 3492 section 6.2), so such a label has a single form.
func international(code string) bool {
	label, ok := decodePunycode(code)
	if !ok {
		return false
	}
	beyond := false
	for _, c := range label {
		if c <= unicode.MaxASCII {
			continue
		}
		beyond = true
		if folded(c) {
			return false
		}
	}
	return beyond
}

// folded reports whether c is a character that browsers do not encode (UTS 46): anything but
// letters, marks and decimal digits, and also capital letters, invisible characters, and other
// forms of letters. It does not cover all of them; browsers refuse labels with the others, so
// these lead to no other host.
func folded(c rune) bool {
	return !unicode.In(c, unicode.L, unicode.Mn, unicode.Mc, unicode.Nd) || unicode.ToLower(c) != c ||
		unicode.In(c, otherSpellings, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// otherSpellings are the blocks of letters and digits in another shape, such as fullwidth and
// mathematical ones and ligatures.
var otherSpellings = &unicode.RangeTable{
	R16: []unicode.Range16{{0x2070, 0x209f, 1}, {0x2100, 0x214f, 1}, {0x3131, 0x318e, 1}, {0xf900, 0xfdff, 1}, {0xfe70, 0xfeff, 1}, {0xff00, 0xffef, 1}},
	R32: []unicode.Range32{{0x1d400, 0x1d7ff, 1}, {0x1ee00, 0x1eeff, 1}, {0x1fbf0, 0x1fbf9, 1}, {0x2f800, 0x2fa1f, 1}},
}

// decodePunycode decodes the part of a label after xn-- (RFC 3492 section 6.2).
func decodePunycode(code string) ([]rune, bool) {
	const base = 36
	var label []rune
	if at := strings.LastIndexByte(code, '-'); at > 0 {
		label, code = []rune(code[:at]), code[at+1:]
	}
	n, i, bias := 128, 0, 72
	for len(code) > 0 {
		before := i
		for k, w := base, 1; ; k += base {
			if code == "" {
				return nil, false
			}
			digit := strings.IndexByte(lowerAndDigits, code[0])
			code = code[1:]
			if digit < 0 || digit > (unicode.MaxRune*64-i)/w {
				return nil, false
			}
			i += digit * w
			t := min(max(k-bias, 1), 26)
			if digit < t {
				break
			}
			w *= base - t
		}
		n += i / (len(label) + 1)
		bias = adaptBias(i-before, len(label)+1, before == 0)
		i %= len(label) + 1
		if n > unicode.MaxRune {
			return nil, false
		}
		label = append(label[:i], append([]rune{rune(n)}, label[i:]...)...)
		i++
	}
	return label, true
}

// adaptBias returns the next bias (RFC 3492 section 6.1).
func adaptBias(delta, points int, first bool) int {
	if first {
		delta /= 700
	} else {
		delta /= 2
	}
	delta += delta / points
	k := 0
	for ; delta > (36-1)*26/2; k += 36 {
		delta /= 36 - 1
	}
	return k + 36*delta/(delta+38)
}
