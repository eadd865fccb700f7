package registry

import "encoding/json"

// span is one member of an object, in the bytes of the object.
type span struct {
	name  string
	text  []byte // the name, the colon and the value
	value []byte
	at    int // where the value begins
}

func named(name string) func(span) bool { return func(s span) bool { return s.name == name } }

// spans takes an object apart that is valid JSON, without copying it. What is no object has
// no members. membersOf does the same for what may be anything.
func spans(object []byte) []span {
	if !isObject(object) {
		return nil
	}
	members := make([]span, 0, 12)
	for i := skipBlank(object, 1); object[i] == '"'; {
		end := skipString(object, i)
		m := span{name: unquoted(object[i:end]), at: skipBlank(object, skipBlank(object, end)+1)}
		after := skipValue(object, m.at)
		m.text, m.value = object[i:after], object[m.at:after]
		members = append(members, m)
		if i = skipBlank(object, after); object[i] == ',' {
			i = skipBlank(object, i+1)
		}
	}
	return members
}

// skipBlank returns the place of the first byte from i on that is no white space.
func skipBlank(b []byte, i int) int {
	for b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t' {
		i++
	}
	return i
}

// skipString returns the place behind the string that begins at i.
func skipString(b []byte, i int) int {
	for i++; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// skipValue returns the place behind the value that begins at i.
func skipValue(b []byte, i int) int {
	for depth := 0; ; {
		switch b[i] {
		case '"':
			i = skipString(b, i)
		case '{', '[':
			depth, i = depth+1, i+1
			continue
		case '}', ']':
			depth, i = depth-1, i+1
		case ',', ':', ' ', '\n', '\r', '\t':
			i++
			continue
		default:
			i = skipScalar(b, i)
		}
		if depth == 0 {
			return i
		}
	}
}

// skipScalar returns the place behind the number or the word that begins at i.
func skipScalar(b []byte, i int) int {
	for i < len(b) && (b[i] == '-' || b[i] == '+' || b[i] == '.' || isAlphanumeric(rune(b[i]))) {
		i++
	}
	return i
}

func unquoted(text []byte) string {
	for _, c := range text {
		if c == '\\' {
			var s string
			_ = json.Unmarshal(text, &s) // it is valid
			return s
		}
	}
	return string(text[1 : len(text)-1])
}
