package doctor

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// mismatch is how the resource of the metadata differs from the URL that was given.
type mismatch string

const (
	missing    mismatch = "resource-missing"
	badURI     mismatch = "resource-not-a-url"
	otherSlash mismatch = "resource-slash"
	spelling   mismatch = "resource-spelling"
	scheme     mismatch = "resource-scheme"
	wider      mismatch = "resource-wider"
	different  mismatch = "resource-mismatch"
)

// compare returns how the resource differs from the URL, "" if it does not. Exactly one applies.
func compare(resource, target string) mismatch {
	r, err := url.Parse(resource)
	t, err2 := url.Parse(target)
	switch {
	case resource == "":
		return missing
	case err != nil || err2 != nil || !absolute(r) || strings.Contains(resource, "#"):
		return badURI
	case resource == target || isOrigin(r) && isOrigin(t) && r.Scheme+r.Host == t.Scheme+t.Host:
		return "" // an empty path is a slash (RFC 3986 section 6.2.3)
	case strings.TrimSuffix(resource, "/") == strings.TrimSuffix(target, "/"):
		return otherSlash
	case canonicalEqual(resource, target):
		return spelling
	}
	return compareParts(r, t)
}

func absolute(u *url.URL) bool { return u.Scheme != "" && u.Host != "" }

func isOrigin(u *url.URL) bool { return (u.Path == "" || u.Path == "/") && u.RawQuery == "" }

// compareParts tells apart what differs in more than spelling.
func compareParts(r, t *url.URL) mismatch {
	switch {
	case r.Scheme != t.Scheme && strings.EqualFold(r.Hostname(), t.Hostname()) && r.Path == t.Path:
		return scheme
	case sameOrigin(r.String(), t.String()) && strings.HasPrefix(t.Path, strings.TrimSuffix(r.Path, "/")+"/"):
		return wider
	}
	return different
}

// identity makes the function of a check about the resource of the metadata.
func identity(kind mismatch) func(*walk) []string {
	return func(w *walk) []string {
		d := w.resource()
		if d == nil {
			return nil
		}
		return saw(compare(d.text("resource"), w.target) == kind,
			fmt.Sprintf("%s has resource %s, clients were given %s", d.url, quoted(d.text("resource")), quoted(w.target)))
	}
}

// resourceChecks are about what the resource metadata says.
var resourceChecks = []check{
	{Entry{
		ID: string(missing), Severity: Error, Rule: "RFC 9728 section 2",
		Title:    "The resource metadata has no resource",
		Symptoms: []string{"resource: Required", "missing resource in protected resource metadata"},
		Mend:     "Add resource with the URL of the server.",
		Clients:  everyone,
	}, identity(missing)},
	{Entry{
		ID: string(badURI), Severity: Error, Rule: "RFC 9728 section 1.2; RFC 8707 section 2",
		Title:    "resource is not an absolute URL without a fragment",
		Symptoms: []string{"invalid_target", "Invalid URL"},
		Mend:     "Write the whole URL, with https:// and without #.",
		Clients:  everyone,
	}, identity(badURI)},
	{Entry{
		ID: string(otherSlash), Severity: Error, Rule: "RFC 9728 section 3.3; MCP Canonical Server URI",
		Title:    "resource and URL differ in the slash at the end",
		Symptoms: []string{"Protected resource does not match expected", "invalid_target", "audience mismatch", "401 loop after sign-in"},
		Mend:     "Write resource as clients write the URL, byte for byte. Decide for one form (without a slash) and redirect nobody from one to the other.",
		Mends:    map[string]string{"nginx": "location /mcp and location /mcp/ are different; rewrites between them change the resource."},
		Clients:  everyone,
	}, identity(otherSlash)},
	{Entry{
		ID: string(spelling), Severity: Error, Rule: "RFC 9728 section 3.3; MCP Canonical Server URI",
		Title:    "resource and URL differ in upper case or the default port",
		Symptoms: []string{"Protected resource does not match expected"},
		Mend:     "Write scheme and host in lower case and leave out :443, in the metadata and in what people copy.",
		Clients:  exactly,
	}, identity(spelling)},
	{Entry{
		ID: string(scheme), Severity: Error, Rule: "RFC 9728 section 3.3",
		Title:    "resource has another scheme or port than the URL",
		Symptoms: []string{"Protected resource http://… does not match expected https://…"},
		Mend:     "Set the public URL in the configuration of the server. Behind a proxy that ends TLS, a server that computes it from the request says http.",
		Mends: map[string]string{
			"nginx": "send proxy_set_header X-Forwarded-Proto $scheme, and have the server trust it from this proxy only.",
			"Caddy": "reverse_proxy sends X-Forwarded-Proto; have the server trust it from this proxy only.",
		},
		Clients: everyone,
	}, identity(scheme)},
	{Entry{
		ID: string(wider), Severity: Error, Rule: "RFC 9728 section 3.3",
		Title:    "resource is wider than the URL",
		Symptoms: []string{"Protected resource does not match expected", "one token for all servers of the host"},
		Mend:     "Publish a document for each server, at its own path, with its whole URL as resource.",
		Clients:  []string{vscode, geminiCLI, goSDK},
	}, identity(wider)},
	{Entry{
		ID: string(different), Severity: Error, Rule: "RFC 9728 section 3.3",
		Title:    "resource is another server than the URL",
		Symptoms: []string{"Protected resource does not match expected", "resource mismatch", "client uses internal host name"},
		Mend:     "Write the URL that clients use, not the internal name or another path.",
		Clients:  everyone,
	}, identity(different)},
	{Entry{
		ID: "resource-servers", Severity: Error, Rule: "RFC 9728 section 2; MCP Authorization Server Discovery",
		Title:    "authorization_servers is missing, empty, or not an array of URLs",
		Symptoms: []string{"no authorization server", "client takes the server for its own authorization server"},
		Mend:     "List the issuer of the authorization server, as an array with one string.",
		Clients:  everyone,
	}, func(w *walk) []string {
		d := w.resource()
		if d == nil {
			return nil
		}
		list, ok := d.list("authorization_servers")
		wrong := !ok || len(list) == 0 || slices.ContainsFunc(list, func(s string) bool { return !askable(s) })
		return saw(wrong, fmt.Sprintf("%s has authorization_servers %s", d.url, clean(string(marshal(d.members["authorization_servers"])))))
	}},
	{Entry{
		ID: "resource-several-servers", Severity: Note, Rule: "RFC 9728 section 7.6",
		Title:    "There are several authorization servers",
		Symptoms: []string{"client uses the first authorization server"},
		Mend:     "Put the one first that clients are to use: most never look at the others.",
	}, func(w *walk) []string {
		list, _ := w.resource().list("authorization_servers")
		return saw(len(list) > 1, "authorization_servers has "+quotedAll(list))
	}},
	{Entry{
		ID: "resource-offline", Severity: Warning, Rule: "MCP Refresh Tokens",
		Title:    "scopes_supported of the server has offline_access",
		Symptoms: []string{"invalid_scope"},
		Mend:     "List offline_access in the metadata of the authorization server only.",
	}, func(w *walk) []string {
		list, _ := w.resource().list("scopes_supported")
		return saw(slices.Contains(list, "offline_access"), "scopes_supported has "+quotedAll(list))
	}},
	{Entry{
		ID: "resource-scopes", Severity: Error, Rule: "RFC 9728 section 2",
		Title:    "scopes_supported of the server is not an array of strings",
		Symptoms: []string{"cannot unmarshal string into Go struct field", "Expected array, received string"},
		Mend:     `Write an array: "scopes_supported": ["notes:read", "notes:write"].`,
		Clients:  everyone,
	}, func(w *walk) []string {
		d := w.resource()
		if _, ok := d.list("scopes_supported"); ok {
			return nil
		}
		return []string{"scopes_supported is " + clean(string(marshal(d.members["scopes_supported"])))}
	}},
	{Entry{
		ID: "resource-query-tokens", Severity: Warning, Rule: "MCP Token Requirements; RFC 6750 section 5.3",
		Title:    "The server takes tokens in the query",
		Symptoms: []string{"access_token in logs"},
		Mend:     `Write "bearer_methods_supported": ["header"], and refuse access_token in the query: URLs are kept in logs.`,
	}, func(w *walk) []string {
		list, _ := w.resource().list("bearer_methods_supported")
		return saw(slices.Contains(list, "query"), "bearer_methods_supported has "+quotedAll(list))
	}},
}
