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
	parts := []string{m.SoftwareID, m.ClientName, m.ClientURI, m.TokenEndpointAuthMethod}
	var places []string
	for _, uri := range m.RedirectURIs {
		places = append(places, place(uri))
	}
	slices.Sort(places)
	hash := sha256.New()
	for _, part := range append(parts, slices.Compact(places)...) {
		var length [4]byte
		binary.BigEndian.PutUint32(length[:], uint32(len(part)))
		hash.Write(length[:])
		hash.Write([]byte(part))
	}
	return base64.RawURLEncoding.EncodeToString(hash.Sum(nil)[:16])
}

// place returns the part of a redirect URI that all installations of a software share.
func place(raw string) string {
	uri, err := metadata.ParseRedirect(raw)
	if err != nil {
		return raw
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return raw
	case uri.Kind == metadata.RedirectLoopback:
		return "http://" + u.Hostname() + "/" + strings.TrimPrefix(u.EscapedPath(), "/")
	case uri.Kind == metadata.RedirectWeb:
		return "https://" + strings.ToLower(u.Host)
	}
	before, _, _ := strings.Cut(raw, "?")
	return before
}
