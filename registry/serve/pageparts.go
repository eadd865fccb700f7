package serve

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"gatehouse.example/registry"
	"gatehouse.example/storage/catalogue"
	"gatehouse.example/templates"
)

// page sends an HTML page. If write fails, it sends nothing and returns the error.
func (h *Handler) page(c *call, status int, write func(io.Writer) error) error {
	var body bytes.Buffer
	if err := write(&body); err != nil {
		return err
	}
	header := c.w.Header()
	header.Set("Cache-Control", "no-cache")
	header.Set("Content-Security-Policy", h.policy)
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
	page := body.Bytes()
	if wantsGzip(c.r.Header) {
		if packed := compressed(page); packed != nil {
			header.Set("Content-Encoding", "gzip")
			page = packed
		}
	}
	c.send(status, "text/html; charset=utf-8", page)
	return nil
}

// errorPage sends the page of an error.
func (h *Handler) errorPage(c *call, err error) {
	p := h.refusalFor(c, err)
	data := templates.Error{Status: p.status, Title: p.title(), Message: p.text()}
	err = h.page(c, p.status, func(w io.Writer) error {
		p.headers(c.w.Header())
		return h.pagesFor(c).Error(w, data)
	})
	if err != nil { // a template is broken
		h.log.Error("registry: a page failed", "err", err)
		c.send(http.StatusInternalServerError, "text/plain; charset=utf-8", []byte(p.inEnglish()))
	}
}

func remotePart(r registry.Remote) templates.RegistryRemote {
	return templates.RegistryRemote{Type: r.Type, URL: r.URL, Inputs: inputsOf(r)}
}

func packagePart(p registry.Package) templates.RegistryPackage {
	return templates.RegistryPackage{
		Type: p.RegistryType, Identifier: p.Identifier, Version: p.Version, Base: p.RegistryBaseURL, Digest: p.FileSHA256,
		Runtime: p.RuntimeHint, Transport: p.Transport.Type, Inputs: append(inputParts(p.EnvironmentVariables), inputsOf(p.Transport)...),
	}
}

func (h *Handler) versionPart(e catalogue.Entry, current bool) templates.RegistryVersion {
	return templates.RegistryVersion{
		Version: e.Version, Page: h.pagePath(e.Name) + "?" + url.Values{"version": {e.Version}}.Encode(),
		Published: e.Published, Current: current, Deprecated: statusOf(e) == registry.StatusDeprecated, IsLatest: e.Latest,
	}
}

// inputsOf returns the inputs that a client of a remote has to provide: the variables of its
// URL and the headers.
func inputsOf(r registry.Remote) []templates.RegistryInput {
	var variables []registry.Input
	for _, name := range slices.Sorted(maps.Keys(r.Variables)) {
		var variable registry.Input
		_ = json.Unmarshal(r.Variables[name], &variable) // of an invalid variable only the name is shown
		variable.Name = name
		variables = append(variables, variable)
	}
	return inputParts(append(variables, r.Headers...))
}

func inputParts(inputs []registry.Input) (parts []templates.RegistryInput) {
	for _, i := range inputs {
		parts = append(parts, templates.RegistryInput{Name: i.Name, Description: i.Description, Required: i.IsRequired, Secret: i.IsSecret})
	}
	return parts
}

// facts returns the members of the value for the registry's own key. A value that is not an
// object is one fact, named after the key.
func facts(key string, value json.RawMessage) (facts []templates.RegistryFact) {
	if len(value) == 0 {
		return nil
	}
	members := map[string]json.RawMessage{}
	if json.Unmarshal(value, &members) != nil {
		_, name, _ := strings.Cut(key, "/")
		members[name] = value
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		facts = append(facts, templates.RegistryFact{Name: name, Value: cmp.Or(plain(members[name]), string(members[name]))})
	}
	return facts
}

// plain returns a JSON string without quotes, or a list of strings separated by commas. It
// returns "" for other values.
func plain(value json.RawMessage) string {
	var text string
	var list []string
	if json.Unmarshal(value, &text) == nil && value[0] == '"' {
		return text
	}
	if json.Unmarshal(value, &list) == nil {
		return strings.Join(list, ", ")
	}
	return ""
}
