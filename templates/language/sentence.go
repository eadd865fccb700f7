package language

import (
	"fmt"
	"regexp"
	"strings"
)

// sentence is a parsed sentence: literal text and places for values in turn.
type sentence []part

// part is text, or the place of the value with a name. A place that encloses text has a part
// at its beginning and one at its end.
type part struct {
	text  string
	place string
	end   bool // the end of an enclosing place
}

var (
	identifier  = regexp.MustCompile(`^[a-z][a-zA-Z0-9]*(\.[a-zA-Z0-9]+)*$`)
	placeholder = regexp.MustCompile(`\{(/?)([a-z][a-zA-Z]*)\}`)
)

// parse reads the format of the files: lines "id = sentence", empty lines, and comments that
// begin with #.
func parse(text string) (map[string]sentence, error) {
	sentences := map[string]sentence{}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, said, ok := strings.Cut(line, "=")
		id, said = strings.TrimSpace(id), strings.TrimSpace(said)
		if !ok || !identifier.MatchString(id) || said == "" {
			return nil, fmt.Errorf("line %d: want \"id = sentence\"", i+1)
		}
		if _, twice := sentences[id]; twice {
			return nil, fmt.Errorf("line %d: %s is there twice", i+1, id)
		}
		parts, err := parseSentence(said)
		if err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", i+1, id, err)
		}
		sentences[id] = parts
	}
	return sentences, nil
}

// parseSentence refuses markup and stray braces, so that a translation cannot change the
// structure of a page.
func parseSentence(said string) (sentence, error) {
	var s sentence
	open, last := "", 0
	text := func(t string) error {
		if strings.ContainsAny(t, "{}<>") {
			return fmt.Errorf("%q has a brace or a tag that is no place for a value", t)
		}
		if t != "" {
			s = append(s, part{text: t})
		}
		return nil
	}
	for _, at := range placeholder.FindAllStringSubmatchIndex(said, -1) {
		if err := text(said[last:at[0]]); err != nil {
			return nil, err
		}
		last = at[1]
		p := part{place: said[at[4]:at[5]], end: at[3] > at[2]}
		switch encloses := strings.Contains(said, "{/"+p.place+"}"); {
		case p.end && open != p.place, encloses && !p.end && open != "":
			return nil, fmt.Errorf("{%s} and its end do not match", p.place)
		case p.end:
			open = ""
		case encloses:
			open = p.place
		}
		s = append(s, p)
	}
	if open != "" {
		return nil, fmt.Errorf("{%s} has no end", open)
	}
	return s, text(said[last:])
}
