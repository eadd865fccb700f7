package middleware

import (
	"strings"

	"gatehouse.example/internal/lookalike"
)

// folded is the index of the patterns as file systems read them that do not distinguish case, after
// those of the strict readings.
const folded = strictReadings

// fileOrigins returns what a path of a file is preceded by for handlers that do not look at its host,
// as those in Node and Python that take the path alone.
func fileOrigins(scheme string) []string {
	if strings.EqualFold(scheme, "file") {
		return []string{"file:", "file://"}
	}
	return nil
}

// foldedFile returns what a file system could take a resolved URI of a file for that does not
// distinguish case, or ignores dots and spaces at the end of a name, as those of Windows and macOS. It
// returns nothing for other URIs.
func foldedFile(uri string) (out []string) {
	rest, ok := strings.CutPrefix(uri, "file:")
	if !ok {
		return nil
	}
	origin := "file://"
	if after, ok := strings.CutPrefix(rest, "//"); ok {
		var host string
		host, rest = cutAt(after, "/")
		origin += strings.ToLower(host)
	}
	for _, path := range append(lookalike.Foldings(rest), lookalike.Path(rest)) {
		out = append(out, origin+path, "file://"+path)
	}
	return distinct(out...)
}
