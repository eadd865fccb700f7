package middleware

import (
	"net/http"
	"strings"
)

// judgedHeaders are the headers by which the guard decides, or which it takes out, in
// lowercase and with a hyphen for everything that is no letter and no digit. A name that
// begins with one of judgedBeginnings counts too.
var judgedHeaders = map[string]bool{
	"authorization": true, "proxy-authorization": true, "origin": true, "host": true, "forwarded": true, "cookie": true,
	"accept": true, "connection": true, "transfer-encoding": true, "last-event-id": true,
	"mcp-session-id": true, "mcp-method": true, "mcp-name": true, "mcp-protocol-version": true,
}

var judgedBeginnings = [...]string{"content-", "x-forwarded-"}

// dropOtherSpellings removes headers that some servers take for one that the guard judges,
// although they have another name. To WSGI and CGI, "Mcp_Session_Id" is "Mcp-Session-Id"
// (RFC 3875 section 4.1.18), so whoever sends it would get past the judgement. Other names
// with such characters stay: some headers carry parameters of a tool by their name.
func dropOtherSpellings(header http.Header) {
	for name := range header {
		if !canonicalName(name) && isJudgedHeader(fold(name)) {
			delete(header, name)
		}
	}
}

// canonicalName reports whether a header has the spelling that the guard looks for: letters,
// digits and hyphens as net/http writes them.
func canonicalName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return http.CanonicalHeaderKey(name) == name
}

func isJudgedHeader(folded string) bool {
	if judgedHeaders[folded] {
		return true
	}
	for _, beginning := range judgedBeginnings {
		if strings.HasPrefix(folded, beginning) {
			return true
		}
	}
	return false
}

// fold is a name as it would look to a program to which case counts for nothing, and every
// character that is no letter and no digit is the same.
func fold(name string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
			return c
		case 'A' <= c && c <= 'Z':
			return c + 'a' - 'A'
		}
		return '-'
	}, name)
}
