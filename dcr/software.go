package dcr

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/url"
	"slices"
	"strings"

	"gatehouse.example/metadata"
)

// software returns the fingerprint of a client's software, which is the same for all its
// installations as far as their registrations agree. It is a hash over software_id,
// client_name, client_uri, the authentication method, and the redirect URIs: without the port
// on loopback, which installations choose when they start, and by host alone on the web,
// because hosted clients put the id of a connection into the path. The version of the software
// is not included.
//
// A client can claim to be another software, or a new one. The fingerprint distinguishes honest
// clients; it does not limit dishonest ones.
func software(m metadata.Client) string {
	places := make([]string, 0, maxRedirectURIs)
	for _, uri := range m.RedirectURIs {
		places = append(places, place(uri))
	}
	slices.Sort(places)
	all := make([]byte, 0, 256)
	for _, part := range [...]string{m.SoftwareID, m.ClientName, m.ClientURI, m.TokenEndpointAuthMethod} {
		all = appendPart(all, part)
	}
	for _, place := range slices.Compact(places) {
		all = appendPart(all, place)
	}
	sum := sha256.Sum256(all)
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// appendPart appends a part behind its length.
func appendPart(dst []byte, part string) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(part))), part...)
}

// place returns the part of a registered redirect URI that all installations of a software share.
func place(raw string) string {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return raw
	case u.Scheme == "http": // on a loopback host, like every registered one
		return "http://" + u.Hostname() + "/" + strings.TrimPrefix(u.EscapedPath(), "/")
	case u.Scheme == "https":
		return "https://" + strings.ToLower(u.Host)
	}
	before, _, _ := strings.Cut(raw, "?")
	return before
}
