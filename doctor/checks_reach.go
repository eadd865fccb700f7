package doctor

import (
	"fmt"
	"net/url"
	"strings"
	"time"
)

// The bounds of what counts as a fault of time.
const (
	slowAnswer   = 5 * time.Second
	wrongClock   = time.Minute
	endsSoon     = 14 * 24 * time.Hour
	sharedSecond = time.Second // the Date header has no fractions
)

// reachChecks are about connections, for all that was asked.
var reachChecks = []check{
	{Entry{
		ID: "tls-invalid", Severity: Error, Rule: "RFC 9110 section 4.3.4",
		Title:    "No connection with TLS can be made, or the certificate is not valid for the server",
		Symptoms: []string{"self-signed certificate", "unable to verify the first certificate", "UNABLE_TO_GET_ISSUER_CERT_LOCALLY", "certificate has expired", "x509: certificate signed by unknown authority", "protocol version not supported", "certificate required"},
		Mend:     "Install a certificate for this name that is not expired, with all intermediate certificates in the file, from an authority that clients trust. Speak TLS 1.2 or 1.3, and ask clients for no certificate.",
		Mends:    map[string]string{"nginx": "ssl_certificate needs the file with the whole chain (fullchain.pem), not the certificate alone."},
		Clients:  everyone,
	}, hosts(func(e *exchange) string {
		return when(e.failure == failTLS, e.reason)
	})},
	{Entry{
		ID: "tls-ends-soon", Severity: Warning, Rule: "RFC 5280 section 4.1.2.5",
		Title:    "The certificate ends within two weeks",
		Symptoms: []string{"certificate has expired"},
		Mend:     "Renew the certificate, and check that the server takes the new one without a restart.",
	}, hosts(func(e *exchange) string {
		left := e.expires.Sub(e.asked)
		return when(!e.expires.IsZero() && left < endsSoon, fmt.Sprintf("the certificate ends at %s", e.expires.UTC().Format(time.RFC3339)))
	})},
	{Entry{
		ID: "plain-http", Severity: Error, Rule: "MCP Communication Security; RFC 6750 section 5.3",
		Title:    "Tokens would travel over plain http",
		Symptoms: []string{"HTTPS required", "insecure transport"},
		Mend:     "Serve https. Plain http is for loopback only (localhost, 127.0.0.1, ::1).",
		Clients:  []string{goSDK, claudeCode, vscode, geminiCLI},
	}, lookPlain},
	{Entry{
		ID: "address-not-asked", Severity: Warning, Rule: "MCP SBP SSRF",
		Title:    "An address was not asked, because the server must not choose it",
		Symptoms: []string{"was not asked"},
		Mend:     "If the host is yours, ask with --allow-host HOST. Clients may reach it: how far they come is not known without. If it is not yours, or an address of a private network, correct the document that names it.",
	}, hosts(func(e *exchange) string { return when(e.failure == failForbid, e.reason) })},
	{Entry{
		ID: "unreachable", Severity: Error, Rule: "MCP Authorization Server Discovery",
		Title:    "A server that is named does not answer",
		Symptoms: []string{"fetch failed", "ECONNREFUSED", "ENOTFOUND", "connection refused", "no such host"},
		Mend:     "Correct the name, or start what listens there. Names of a local network or of a container are not known to clients: publish the public name.",
		Clients:  everyone,
	}, hosts(func(e *exchange) string {
		gone := e.failure == failLookup || e.failure == failConnect || e.failure == failTime && !e.wrote || e.failure == failAnswer
		return when(gone, e.String())
	})},
	{Entry{
		ID: "header-malformed", Severity: Error, Rule: "RFC 9110 section 5.5",
		Title:    "An answer has a header that HTTP forbids",
		Symptoms: []string{"malformed MIME header", "Invalid header value char", "invalid HTTP header parsed"},
		Mend:     "Leave control characters out of headers: quote only what is printable, in realm and error_description too.",
		Clients:  everyone,
	}, hosts(func(e *exchange) string { return when(e.failure == failHeader, e.String()) })},
	{Entry{
		ID: "rate-limited", Severity: Warning, Rule: "RFC 6585 section 4; RFC 9110 section 10.2.3",
		Title:    "The server asks to come later",
		Symptoms: []string{"429 Too Many Requests", "Retry-After", "too many requests"},
		Mend:     "Permit some tens of requests in a minute before a sign-in: clients ask for metadata in several places, and few of them wait. Then examine it again: nothing was concluded from these answers.",
	}, func(w *walk) (found []string) {
		for _, e := range w.exchanges {
			if e.failure == failLimited {
				found = append(found, e.String())
			}
		}
		return saw(len(found) > 0, strings.Join(few(unique(found)), "; "))
	}},
	{Entry{
		ID: "server-fault", Severity: Error, Rule: "RFC 9110 section 15.6",
		Title:    "The server fails (5xx) at a question that every client asks",
		Symptoms: []string{"HTTP 500", "502 Bad Gateway", "Internal Server Error", "failed to load metadata"},
		Mend:     "Look into the log of the server. What does not exist is 404: some clients end at 5xx instead of looking in the next place.",
		Clients:  everyone,
	}, func(w *walk) (found []string) {
		for _, e := range w.exchanges {
			if e.status >= 500 && !e.ofDocument() {
				found = append(found, e.String())
			}
		}
		return few(found)
	}},
	{Entry{
		ID: "wrong-clock", Severity: Warning, Rule: "RFC 7519 section 4.1.4; RFC 9110 section 6.6.1",
		Title:    "The clock of the server is wrong",
		Symptoms: []string{"token used before issued", "token is expired", "nbf", "iat in the future"},
		Mend:     "Synchronize the clock (NTP). Tokens count as expired, or as not valid yet, where clocks differ.",
	}, hosts(func(e *exchange) string {
		off, _ := e.clock()
		return when(off.Abs() > wrongClock+sharedSecond, fmt.Sprintf("the header Date is %s%s, %s off", e.get("Date"), kept(e), off.Round(time.Second)))
	})},
	{Entry{
		ID: "slow", Severity: Warning, Rule: "this project",
		Title:    "An answer takes more than five seconds",
		Symptoms: []string{"timed out", "MCP server connection timed out"},
		Mend:     "Answer what clients ask before a sign-in from memory. Clients give up after 5 to 30 seconds.",
	}, hosts(func(e *exchange) string {
		return when(e.took > slowAnswer, fmt.Sprintf("%s after %s", e, e.took.Round(100*time.Millisecond)))
	})},
	{Entry{
		ID: "too-large", Severity: Warning, Rule: "this project",
		Title:    "A document or a challenge is too large, does not end, or is cut short",
		Symptoms: []string{"response too large", "unexpected end of JSON input"},
		Mend:     "Metadata has a few kilobytes, and a challenge some hundred bytes. Look what the server sends instead: what it is was not judged.",
	}, hosts(func(e *exchange) string {
		if e.vast() {
			return fmt.Sprintf("%s with a header WWW-Authenticate that is larger than %d bytes", e, maxChallenge)
		}
		return when(e.cut, fmt.Sprintf("%s with a body that %s", e, e.uneven()))
	})},
	{Entry{
		ID: "not-finished", Severity: Warning, Rule: "this project",
		Title:    "Not everything was asked",
		Symptoms: []string{"not everything was asked"},
		Mend:     "Mend what is slow or large first, then ask again.",
	}, func(w *walk) []string {
		skipped := 0
		why := ""
		for _, e := range w.exchanges {
			if e.failure == failBudget {
				skipped, why = skipped+1, e.reason
			}
		}
		return saw(skipped > 0, fmt.Sprintf("%d questions were not asked, or not answered in time: %s", skipped, why))
	}},
}

// kept names the header Age of an answer from a cache.
func kept(e *exchange) string { return when(e.get("Age") != "", " with Age "+clean(e.get("Age"))) }

// when returns the text if there is a fault.
func when(fault bool, text string) string {
	if !fault {
		return ""
	}
	return text
}

// hosts collects what is seen, once for each host.
func hosts(look func(*exchange) string) func(*walk) []string {
	return func(w *walk) (found []string) {
		seen := map[string]bool{}
		for _, e := range w.exchanges {
			u, err := url.Parse(e.url)
			if err != nil || seen[u.Host] {
				continue
			}
			if text := look(e); text != "" {
				seen[u.Host] = true
				found = append(found, u.Host+": "+text)
			}
		}
		return found
	}
}

// few bounds what is reported of one kind.
func few(found []string) []string {
	const most = 5
	if len(found) <= most {
		return found
	}
	return append(found[:most:most], fmt.Sprintf("and %d more of this kind", len(found)-most))
}

// plain reports whether a URL is http at a host other than loopback.
func plain(raw string) bool {
	u, err := url.Parse(raw)
	return err == nil && u.Scheme == "http" && !loopback(u.Hostname())
}

func lookPlain(w *walk) (found []string) {
	if plain(w.target) {
		found = append(found, "the target is "+quoted(w.target))
	}
	for _, s := range w.servers {
		if plain(s.issuer) && !w.alone {
			found = append(found, "the authorization server is "+quoted(s.issuer))
		}
		for _, name := range []string{"authorization_endpoint", "token_endpoint", "registration_endpoint", "jwks_uri"} {
			if at := s.metadata().text(name); plain(at) {
				found = append(found, name+" is "+quoted(at))
			}
		}
	}
	return few(found)
}
