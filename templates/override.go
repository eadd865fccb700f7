package templates

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"gatehouse.example/templates/internal/direct"
	"gatehouse.example/templates/language"
)

// maxFile is the greatest size of a file that replaces an embedded one.
const maxFile = 1 << 20

// files are the files of the pages by name, such as login.html: the embedded ones, and those
// that replace them.
type files map[string]string

// filesOf reads the files of the pages once. It refuses a file of the operator's that replaces
// none, because it would have no effect.
func filesOf(own fs.FS) (files, error) {
	f := files{}
	names, err := fs.Glob(embedded, "pages/*")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := embedded.ReadFile(name)
		if err != nil {
			return nil, err
		}
		f[path.Base(name)] = string(text)
	}
	if own == nil {
		return f, nil
	}
	entries, err := fs.ReadDir(own, ".")
	if err != nil {
		return nil, fmt.Errorf("pages: the templates: %w", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if err := f.replace(own, e.Name()); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (f files) replace(own fs.FS, name string) error {
	if _, ok := f[name]; !ok {
		return fmt.Errorf("pages: the template %s replaces nothing: the files that can be replaced are %s", name, strings.Join(slices.Sorted(maps.Keys(f)), ", "))
	}
	text, err := fs.ReadFile(own, name)
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", name, maxFile)
	}
	if err != nil {
		return fmt.Errorf("pages: the templates: %w", err)
	}
	f[name] = string(text)
	return nil
}

// pages returns pages, each of the layout, a file of its own and the shared files.
func (f files) pages(l *language.Language, shared, names []string) pages {
	p := pages{}
	for _, name := range names {
		p[name] = sync.OnceValues(func() (page, error) {
			names := append([]string{"layout.html", name + ".html"}, shared...)
			parsed, err := f.parse(l, names...)
			if err != nil {
				return page{}, fmt.Errorf("pages: the page %q: %w", name, err)
			}
			return page{parsed, f.direct(parsed, l, names)}, nil
		})
	}
	return p
}

// direct returns what writes a page without html/template's interpreter, nil if there is nothing that
// does: above all for a page with files of the operator's, which may use everything that html/template
// has.
func (f files) direct(page *template.Template, l *language.Language, names []string) *direct.Page {
	if slices.ContainsFunc(names, f.replaced) {
		return nil
	}
	d, err := direct.New(page, functions(l))
	if err != nil {
		return nil
	}
	return d
}

// replaced reports whether a file is the operator's.
func (f files) replaced(name string) bool {
	ours, err := embedded.ReadFile("pages/" + name)
	return err != nil || string(ours) != f[name]
}

// check parses every page and returns the mistake in the first that has one. What parses in
// English does in every language.
func (p pages) check(names []string) error {
	for _, name := range names {
		if _, err := p[name](); err != nil {
			return err
		}
	}
	return nil
}

// parse parses files into one page, with the functions of a language.
func (f files) parse(l *language.Language, names ...string) (*template.Template, error) {
	page := template.New(names[0]).Option("missingkey=error").Funcs(functions(l))
	for _, name := range names {
		part := page
		if name != names[0] {
			part = page.New(name)
		}
		if _, err := part.Parse(f[name]); err != nil {
			return nil, err
		}
	}
	f.folded(page, l)
	return page, nil
}

// rehearse writes each sample with the pages of s and with the embedded ones. A page of the
// operator's must send what the embedded page sends: without a hidden value or a button, a
// form would fail only when somebody uses it.
func (s *Set) rehearse(embedded *Set, names []string) error {
	reader := Reader{Action: "/language", Return: "/"}
	for _, name := range names {
		if samples[name] == nil {
			return fmt.Errorf("pages: there is no sample of the page %q", name)
		}
		var own, ours bytes.Buffer
		if err := errors.Join(samples[name](s.For(reader), &own), samples[name](embedded.For(reader), &ours)); err != nil {
			return fmt.Errorf("pages: %w", err)
		}
		if strings.Contains(own.String(), "<script>alert(1)") {
			return fmt.Errorf("pages: the template of the page %q shows a value that strangers choose as markup", name)
		}
		sent := controls(own.String())
		for _, control := range controls(ours.String()) {
			if !slices.Contains(sent, control) {
				return fmt.Errorf("pages: the template of the page %q lacks %s", name, control)
			}
		}
	}
	return nil
}

var (
	controlTag = regexp.MustCompile(`<(form|input|button|select|textarea)\b([^>]*)>`)
	attribute  = regexp.MustCompile(`\b(action|formaction|method|name|type|value)="([^"]*)"`)
)

// controls returns what the forms of a page send and where: forms with their address and
// method, and each input and button with its name, and with its value unless a person types it.
func controls(page string) []string {
	var out []string
	for _, tag := range controlTag.FindAllStringSubmatch(page, -1) {
		has := map[string]string{}
		for _, a := range attribute.FindAllStringSubmatch(tag[2], -1) {
			has[a[1]] = a[2]
		}
		switch {
		case tag[1] == "form":
			out = append(out, fmt.Sprintf("a form with action=%q and method=%q", has["action"], has["method"]))
		case has["name"] == "":
		case tag[1] == "button" || slices.Contains([]string{"hidden", "checkbox", "radio", "submit"}, has["type"]):
			out = append(out, fmt.Sprintf("<%s name=%q value=%q>", tag[1], has["name"], has["value"]))
		default:
			out = append(out, fmt.Sprintf("<%s name=%q>", tag[1], has["name"]))
		}
	}
	return out
}
