// Package language holds every sentence that people read on the pages, in each language, and
// chooses the language of a request.
//
// The sentences of a language are one plain file, such as sentences/en.txt, with a line for
// each: an id, an equals sign, and the sentence. Names in braces are places for values:
//
//	login.lead = {client} asks for access.
//
// Code names a sentence by its id and gives it values, and never puts sentences together:
//
//	text := language.Say("login.lead", "client", name)
//	html := language.Choose(r.Header.Get("Accept-Language")).HTML(text)
//
// Values are escaped and isolated from the direction of the text around them. A sentence that
// depends on a number has a line for each form that its language distinguishes (notes.one,
// notes.other); the value named count decides.
package language

import (
	"embed"
	"fmt"
	"hash/maphash"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/text/language"
)

//go:embed sentences/*.txt
var embedded embed.FS

// The directions of a script, the values of dir in HTML.
const (
	LeftToRight = "ltr"
	RightToLeft = "rtl"
)

// Language is a language of the pages. It is safe for concurrent use. A nil Language is
// English.
type Language struct {
	// Tag is the language tag (RFC 5646), Name what its speakers call the language, and
	// Direction the direction of its script, LeftToRight or RightToLeft.
	Tag, Name, Direction string

	plural    func(n int) string
	sentences func() map[string]sentence
}

// header describes a language. Languages are listed in this order, English first.
type header struct {
	tag, name, direction string
	plural               func(n int) string
}

var headers = []header{
	{"en", "English", LeftToRight, oneOther},
	{"de", "Deutsch", LeftToRight, oneOther},
	{"fr", "Français", LeftToRight, zeroOrOne},
	{"es", "Español", LeftToRight, oneOther},
	{"ja", "日本語", LeftToRight, other},
	{"zh-Hans", "简体中文", LeftToRight, other},
}

// The plural rules of the Unicode CLDR for whole numbers below a million: the forms of a
// sentence that count things.
func oneOther(n int) string {
	if n == 1 {
		return formOne
	}
	return formOther
}

func zeroOrOne(n int) string {
	if n == 0 || n == 1 {
		return formOne
	}
	return formOther
}

func other(int) string { return formOther }

const (
	formOne   = "one"
	formOther = "other"
)

// all lists the languages that have a file. The sentences of each are read when they are first
// needed: most processes speak one or two of the languages.
var all = sync.OnceValue(func() []*Language {
	var languages []*Language
	for _, h := range headers {
		name := path.Join("sentences", h.tag+".txt")
		if _, err := fs.Stat(embedded, name); err != nil {
			continue // not translated yet
		}
		languages = append(languages, &Language{
			Tag: h.tag, Name: h.name, Direction: h.direction, plural: h.plural,
			sentences: sync.OnceValue(func() map[string]sentence { return read(name) }),
		})
	}
	return languages
})

// read returns the sentences of an embedded file. The files are part of the program, so a mistake
// in one is a mistake in the program.
func read(name string) map[string]sentence {
	text, err := embedded.ReadFile(name)
	if err != nil {
		panic(fmt.Sprintf("language: %v", err))
	}
	sentences, err := parse(string(text))
	if err != nil {
		panic(fmt.Sprintf("language: %s: %v", name, err))
	}
	return sentences
}

// New returns a language with the sentences of a text in the format of the files, for tests
// and for languages of one's own. It counts as English does. An error names the line.
func New(tag, name, direction, text string) (*Language, error) {
	sentences, err := parse(text)
	if err != nil {
		return nil, err
	}
	return &Language{Tag: tag, Name: name, Direction: direction, plural: oneOther, sentences: func() map[string]sentence { return sentences }}, nil
}

// Languages returns the languages of the pages, English first.
func Languages() []*Language { return slices.Clone(all()) }

// English returns the language in which every sentence exists.
func English() *Language { return all()[0] }

// Tagged returns the language with exactly that tag, and nil if there is none.
func Tagged(tag string) *Language {
	for _, l := range all() {
		if l.Tag == tag {
			return l
		}
	}
	return nil
}

// maxAcceptLanguage is the greatest length of Accept-Language that is read. Browsers send
// less; what is longer is ignored, because its parsing costs time.
const maxAcceptLanguage = 512

// matcher finds the language that a reader understands best (RFC 4647).
var matcher = sync.OnceValue(func() language.Matcher {
	var tags []language.Tag
	for _, l := range all() {
		tags = append(tags, language.MustParse(l.Tag))
	}
	return language.NewMatcher(tags)
})

// Choose returns the best language for an Accept-Language header (RFC 9110 section 12.5.4):
// English if the header is empty, unreadable or longer than 512 bytes, or names no language
// of the pages.
func Choose(accept string) *Language {
	if accept == "" || len(accept) > maxAcceptLanguage {
		return English()
	}
	place := &choices[maphash.String(choicesSeed, accept)%uint64(len(choices))]
	if known := place.Load(); known != nil && known.accept == accept {
		return known.language
	}
	known := &choice{strings.Clone(accept), choose(accept)}
	place.Store(known)
	return known.language
}

// choice is the language of an Accept-Language header.
type choice struct {
	accept   string
	language *Language
}

// choices has the languages of headers that were read before: browsers send few different ones. They
// never change, so one may only be replaced by another one.
var (
	choices     [128]atomic.Pointer[choice]
	choicesSeed = maphash.MakeSeed()
)

func choose(accept string) *Language {
	wanted, _, err := language.ParseAcceptLanguage(accept)
	if err != nil {
		return English()
	}
	_, i, confidence := matcher().Match(wanted...)
	if confidence == language.No {
		return English()
	}
	return all()[i]
}

// IDs returns the ids of the sentences in order, with one id for all forms of a sentence that
// counts.
func (l *Language) IDs() []string {
	var ids []string
	for id := range l.sentences() {
		base, _ := cutForm(id)
		ids = append(ids, base)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Places returns the names of the places of a sentence in all its forms, in order; of a place
// that encloses text once its name, and once its end as "/name".
func (l *Language) Places(id string) []string {
	var names []string
	for _, form := range []string{"", "." + formOne, "." + formOther} {
		for _, p := range l.sentences()[id+form] {
			switch {
			case p.place == "":
			case p.end:
				names = append(names, "/"+p.place)
			default:
				names = append(names, p.place)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Forms returns the forms that a sentence has: one empty form unless it counts.
func (l *Language) Forms(id string) []string {
	var forms []string
	for _, form := range []string{"", formOne, formOther} {
		if _, ok := l.sentences()[strings.TrimSuffix(id+"."+form, ".")]; ok {
			forms = append(forms, form)
		}
	}
	return forms
}

// Form returns the form of a counting sentence for a number, "one" or "other".
func (l *Language) Form(n int) string { return l.plural(n) }

// Counts returns the forms that the language distinguishes, in order.
func (l *Language) Counts() []string {
	var forms []string
	for _, form := range []string{formOne, formOther} {
		if slices.ContainsFunc([]int{0, 1, 2}, func(n int) bool { return l.plural(n) == form }) {
			forms = append(forms, form)
		}
	}
	return forms
}

// cutForm splits the form of a counting sentence from its id.
func cutForm(id string) (base, form string) {
	for _, form := range []string{formOne, formOther} {
		if base, ok := strings.CutSuffix(id, "."+form); ok {
			return base, form
		}
	}
	return id, ""
}
