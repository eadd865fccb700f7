package dcr

import (
	"slices"
	"strings"
)

// knownSchemes are the private-use schemes without a dot of widely used clients: Cursor, VS
// Code and editors based on it, whose extensions sign in with the scheme of the editor, Warp
// and Raycast.
var knownSchemes = []string{"cursor", "kiro", "raycast", "trae", "vscode", "vscode-insiders", "vscodium", "warp", "windsurf"}

// reverseDomain reports whether a scheme is a domain name in reverse order, such as
// com.example.app (RFC 8252 section 7.1: apps MUST use a scheme based on a domain name under
// their control; section 8.4: one without a period SHOULD be rejected).
func reverseDomain(scheme string) bool {
	labels := strings.Split(scheme, ".")
	top := labels[0]
	return len(labels) > 1 && !slices.ContainsFunc(labels, wrongLabel) &&
		(strings.HasPrefix(top, "xn--") || len(top) > 1 && strings.Trim(top, "abcdefghijklmnopqrstuvwxyz") == "")
}

// wrongLabel reports whether label is not a label of a domain name in lowercase (RFC 1123
// section 2.1).
func wrongLabel(label string) bool {
	return label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' ||
		strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != ""
}
