package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/goccy/go-yaml"

	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/message/icon"
	"gatehouse.example/templates"
)

// pagesSection is the section pages of the file: the look that it describes, and what it says
// for check-config --effective.
type pagesSection struct {
	look      templates.Look
	described yaml.MapSlice
	files     string // a digest of the folder templates; empty without one
}

// maxLogo is the greatest size of a file with a logo.
const maxLogo = 1 << 20

// pagesIn reads the section pages. The files that it names are read now, so that a mistake in
// them is found before anything listens.
func pagesIn(d *settings.Document) (pagesSection, error) {
	var p pagesSection
	section, ok := d.Values["pages"]
	if !ok {
		return p, nil
	}
	keys := []string{"name", "logo", "colour", "links", "footer", "support", "templates"}
	given := d.Section(section, "pages", keys)
	for _, key := range keys {
		f, ok := given[key]
		if !ok {
			continue
		}
		if key == "links" {
			p.look.Links = footerLinksIn(d, f)
			p.described = append(p.described, yaml.MapItem{Key: key, Value: describeLinks(p.look.Links)})
			continue
		}
		if key == "colour" && f.Null() { // # begins a comment
			d.Fail(f.Line, "colour has no value: write it in quotes, as \"#0c6b58\"")
			continue
		}
		text := d.Text(f, key)
		p.described = append(p.described, yaml.MapItem{Key: key, Value: text})
		if err := p.set(key, text); err != nil {
			d.Fail(f.Line, "%v", err)
		}
	}
	if err := d.Mistakes(); err != nil {
		return pagesSection{}, err
	}
	if err := p.look.Check(); err != nil {
		return pagesSection{}, err
	}
	_, err := p.look.Pages()
	if err == nil {
		_, err = p.look.Registry()
	}
	if err != nil {
		p.look.Files = nil // the mistake was reported
	}
	return p, err
}

func (p *pagesSection) set(key, text string) (err error) {
	switch key {
	case "name":
		p.look.Name = text
	case "logo":
		p.look.Logo, err = logoFrom(text)
	case "colour":
		p.look.Colour = text
	case "footer":
		p.look.Footer = text
	case "support":
		p.look.Support = text
	case "templates":
		info, statErr := os.Stat(text)
		if statErr != nil || !info.IsDir() {
			return fmt.Errorf("templates %q is not a folder that can be read", text)
		}
		p.look.Files = os.DirFS(text)
		p.files = digestOf(p.look.Files)
	}
	return err
}

// maxTemplates is the greatest number of bytes of a folder that are compared.
const maxTemplates = 16 << 20

// digestOf returns a digest of the names and contents of files, to see that they have changed. Files
// that cannot be read are a mistake elsewhere.
func digestOf(files fs.FS) string {
	hash, left := sha256.New(), int64(maxTemplates)
	_ = fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() && entry.Type()&fs.ModeSymlink == 0 {
			return nil
		}
		fmt.Fprintf(hash, "%q ", name)
		f, err := files.Open(name)
		if err != nil {
			return nil
		}
		defer f.Close()
		n, _ := io.Copy(hash, io.LimitReader(f, left))
		left -= n
		return nil
	})
	return hex.EncodeToString(hash.Sum(nil))
}

// logoFrom reads a picture and draws it anew, as the pictures of clients are.
func logoFrom(name string) ([]byte, error) {
	data, err := settings.ReadAtMost(name, maxLogo)
	if err != nil {
		return nil, fmt.Errorf("logo: %w", err)
	}
	if data, err = icon.Redraw(data); err != nil {
		return nil, fmt.Errorf("logo %s must be a PNG, JPEG or WebP picture: %w", name, err)
	}
	return data, nil
}

func footerLinksIn(d *settings.Document, f settings.Field) (links []templates.FooterLink) {
	for _, element := range d.Elements(f, "links") {
		given := d.Section(element, "a link", []string{"name", "url"})
		link := templates.FooterLink{}
		if name, ok := given["name"]; ok {
			link.Name = d.Text(name, "name")
		}
		if url, ok := given["url"]; ok {
			link.URL = d.Text(url, "url")
		}
		if link.Name == "" || link.URL == "" {
			d.Fail(element.Line, "a link needs the keys \"name\" and \"url\"")
		}
		links = append(links, link)
	}
	return links
}

func describeLinks(links []templates.FooterLink) (out []yaml.MapSlice) {
	for _, link := range links {
		out = append(out, yaml.MapSlice{{Key: "name", Value: link.Name}, {Key: "url", Value: link.URL}})
	}
	return out
}
