package main

// nearest returns the name in known that takes the fewest single-character edits to
// reach from name; the first of several, and "" when nothing is known.
func nearest(name string, known []string) string {
	best, least := "", -1
	for _, candidate := range known {
		if d := distance(name, candidate); least < 0 || d < least {
			best, least = candidate, d
		}
	}
	return best
}

// distance is the Levenshtein distance in bytes, two rows at a time.
func distance(a, b string) int {
	previous := make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := range len(a) {
		current := make([]int, len(b)+1)
		current[0] = i + 1
		for j := range len(b) {
			substitute := previous[j]
			if a[i] != b[j] {
				substitute++
			}
			current[j+1] = min(substitute, previous[j+1]+1, current[j]+1)
		}
		previous = current
	}
	return previous[len(b)]
}
