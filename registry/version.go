package registry

import (
	"cmp"
	"regexp"
	"strings"
	"time"
)

// semantic matches a version of Semantic Versioning 2.0.0 (sections 2, 9 and 10), with an
// optional v in front, which is common.
var semantic = regexp.MustCompile(`^v?(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)` +
	`(?:-((?:0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*))*))?` +
	`(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?$`)

// CompareVersions compares two versions and returns -1, 0 or 1; the latest version is the
// highest. Semantic versions are higher than all others and are compared by Semantic
// Versioning section 11. Versions that are equal by that rule, and all others, are compared as
// text, so the result is 0 only for equal strings.
func CompareVersions(a, b string) int {
	return CompareReleases(a, time.Time{}, b, time.Time{})
}

// CompareReleases is [CompareVersions] for versions with known publication times: if neither
// is semantic, the one that was published later is higher.
func CompareReleases(a string, publishedA time.Time, b string, publishedB time.Time) int {
	inA, inB := semantic.FindStringSubmatch(a), semantic.FindStringSubmatch(b)
	switch {
	case inA != nil && inB != nil:
		return cmp.Or(compareSemantic(inA, inB), strings.Compare(a, b))
	case inA != nil:
		return 1
	case inB != nil:
		return -1
	}
	return cmp.Or(publishedA.Compare(publishedB), strings.Compare(a, b))
}

// compareSemantic compares major, minor, patch and pre-release of two matches of semantic.
func compareSemantic(a, b []string) int {
	for i := 1; i <= 3; i++ {
		if c := compareNumbers(a[i], b[i]); c != 0 {
			return c
		}
	}
	// Semantic Versioning section 11.3: a pre-release is lower than the version itself.
	switch {
	case a[4] == b[4]:
		return 0
	case a[4] == "":
		return 1
	case b[4] == "":
		return -1
	}
	return comparePreReleases(strings.Split(a[4], "."), strings.Split(b[4], "."))
}

// comparePreReleases follows Semantic Versioning section 11.4.
func comparePreReleases(a, b []string) int {
	for i := range min(len(a), len(b)) {
		if c := compareIdentifiers(a[i], b[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

func compareIdentifiers(a, b string) int {
	numberA, numberB := isNumber(a), isNumber(b)
	switch {
	case numberA && numberB:
		return compareNumbers(a, b)
	case numberA:
		return -1
	case numberB:
		return 1
	}
	return strings.Compare(a, b)
}

// compareNumbers compares decimal numbers of any length without leading zeros.
func compareNumbers(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

func isNumber(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c < '0' || c > '9' })
}
